// From a plan's tile to the kernel that is compiled for it.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

namespace haloconv {

// Calls body.template operator()<i>() with the tile's number in `tiles`, which are `family`'s.
template <class Tile, size_t kCount, class Body>
void with_tile(const Tile (&tiles)[kCount], const Tile& tile, const char* family, Body body) {
  const bool found = [&]<size_t... kIndex>(std::index_sequence<kIndex...>) {
    return ((tile == tiles[kIndex] && (body.template operator()<kIndex>(), true)) || ...);
  }(std::make_index_sequence<kCount>());
  if (found) return;
  throw std::logic_error(std::string("haloconv: no ") + family + " kernel has this tile");
}

}  // namespace haloconv
