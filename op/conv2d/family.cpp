#include "conv2d/family.h"

#include <sstream>

namespace haloconv {

std::string Plan::text() const {
  std::ostringstream text;
  print(text);
  return text.str();
}

}  // namespace haloconv
