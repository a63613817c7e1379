#include "conv2d/families/depthwise/launch.h"

#include <stdexcept>
#include <type_traits>

#include "conv2d/device/with_element_type.h"
#include "conv2d/family.h"

namespace haloconv::depthwise {

void launch(const haloconv::Plan& plan, const Operands& operands, cudaStream_t stream) {
  const auto& made = made_by_family<Plan>(plan);
  const Plan& details = made.details;
  if (!details.lowered) throw std::logic_error("haloconv: a depthwise plan has nothing lowered");
  const Lowered& lowered = details.lowered->get([&] { return lower(made.problem, details); });
  const bool rows = details.kernel == Kernel::kRows, lines = details.kernel == Kernel::kLines;
  with_element_type(made.problem.type, [&]<class T>(T) {
    if constexpr (std::is_same_v<T, double>) {
      throw std::logic_error("haloconv: the depthwise kernels do not sum in float64");
    } else {
      const auto* const input = static_cast<const T*>(operands.input);
      const auto* const output = static_cast<const T*>(operands.output);
      auto* const result = static_cast<T*>(operands.result);
      if (details.direction == Direction::kWgrad) {
        auto launch = rows    ? launch_rows_wgrad<T>
                      : lines ? launch_lines_wgrad<T>
                              : launch_channels_wgrad<T>;
        if constexpr (sizeof(T) == 2) {
          if (details.kernel == Kernel::kImages) launch = launch_images_wgrad<T>;
        }
        return launch(made.problem, details, lowered,
                      {.grad_output = output,
                       .input = input,
                       .grad_filter = result,
                       .grad_bias = static_cast<T*>(operands.grad_bias),
                       .workspace = operands.workspace},
                      stream);
      }
      auto launch = rows ? launch_rows<T> : lines ? launch_lines<T> : launch_channels<T>;
      if constexpr (sizeof(T) == 2) {
        if (details.kernel == Kernel::kBands) launch = launch_bands<T>;
      }
      launch(made.problem, lowered,
             {.source = details.direction == Direction::kFprop ? input : output,
              .filter = static_cast<const T*>(operands.filter),
              .bias = static_cast<const T*>(operands.bias),
              .destination = result,
              .fusion = operands.fusion},
             stream);
    }
  });
}

}  // namespace haloconv::depthwise
