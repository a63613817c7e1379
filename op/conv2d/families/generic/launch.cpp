#include "conv2d/families/generic/launch.h"

#include <stdexcept>

#include "conv2d/device/with_element_type.h"
#include "conv2d/family.h"

namespace haloconv::generic {

void launch(const haloconv::Plan& plan, const Operands& operands, cudaStream_t stream) {
  const auto& made = made_by_family<Plan>(plan);
  const Plan& details = made.details;
  if (!details.lowered) throw std::logic_error("haloconv: a generic plan has nothing lowered");
  const Lowered& lowered = details.lowered->get([&] { return lower(made.problem, details); });
  with_element_type(made.problem.type, [&]<class T>(T) {
    const auto* const input = static_cast<const T*>(operands.input);
    const auto* const filter = static_cast<const T*>(operands.filter);
    const auto* const output = static_cast<const T*>(operands.output);
    auto* const result = static_cast<T*>(operands.result);
    if (details.direction == Direction::kWgrad) {
      return launch_wgrad<T>(details, lowered, output, input, result,
                             static_cast<T*>(operands.grad_bias), operands.workspace, stream);
    }
    const bool fprop = details.direction == Direction::kFprop;
    launch_gather<T>(details, lowered, fprop ? input : output, filter,
                     static_cast<const T*>(operands.bias), operands.fusion, result,
                     operands.workspace, stream);
  });
}

}  // namespace haloconv::generic
