// What is known of chips, for programs that plan before they have one.
#include <ATen/core/Dict.h>

#include <algorithm>
#include <sstream>

#include "chip/known_chips.h"
#include "registration/library.h"

namespace haloconv {
namespace {

// Rates are FLOP and bytes per second; 0 where the chip has no unit for them.
c10::Dict<std::string, double> chip(std::string_view name) {
  if (find_known_chip(name) == nullptr) {
    std::ostringstream names;
    for (const KnownChip& known : known_chips()) {
      names << (&known == known_chips().data() ? "" : ", ") << '"' << known.name << '"';
    }
    TORCH_CHECK(false, "haloconv::chip: expected name to be one of ", names.str(), ", but got \"",
                name, "\"");
  }
  const Chip chip = chip_of(name);
  const MultiplyAdds& rates = chip.multiply_adds;
  c10::Dict<std::string, double> facts;
  facts.insert("float32", chip.flop_rate(rates.float32));
  facts.insert("float64", chip.flop_rate(std::max(rates.float64, rates.float64_matrix)));
  facts.insert("tf32", chip.flop_rate(rates.tf32_matrix));
  facts.insert("float16", chip.flop_rate(rates.half_matrix));
  facts.insert("bfloat16", chip.flop_rate(rates.half_matrix));
  facts.insert("memory", chip.memory_rate);
  return facts;
}

HALOCONV_DEFINE(m) { m.def("chip(str name) -> Dict(str, float)"); }

HALOCONV_IMPLEMENT(CompositeImplicitAutograd, m) { m.impl("chip", &chip); }

}  // namespace
}  // namespace haloconv
