#include <stdexcept>
#include <type_traits>

#include "conv2d/device/with_element_type.h"
#include "conv2d/families/depthwise_direct/kernels.h"
#include "conv2d/family.h"

namespace haloconv::depthwise_direct {

void launch(const haloconv::Plan& plan, const Operands& operands, cudaStream_t stream) {
  const auto& made = made_by_family<Plan>(plan);
  const bool fprop = made.details.direction == Direction::kFprop;
  with_element_type(made.problem.type, [&]<class T>(T) {
    if constexpr (std::is_same_v<T, double>) {
      throw std::logic_error("haloconv: depthwise_direct does not sum in float64");
    } else {
      auto launch_kernel = &launch_squares<T>;
      if constexpr (std::is_same_v<T, float>) {
        if (made.details.kernel == Kernel::kRows) launch_kernel = &launch_rows;
      } else if (made.details.kernel == Kernel::kVectors) {
        launch_kernel = &launch_vectors<T>;
      }
      launch_kernel(made.details,
                    {.source = static_cast<const T*>(fprop ? operands.input : operands.output),
                     .filter = static_cast<const T*>(operands.filter),
                     .bias = static_cast<const T*>(operands.bias),
                     .destination = static_cast<T*>(operands.result),
                     .fusion = operands.fusion,
                     .shape = made.details.args},
                    stream);
    }
  });
}

}  // namespace haloconv::depthwise_direct
