#include "conv2d/families.h"

namespace haloconv {

// Each is defined in the family.cpp of its folder.
namespace channels_last {
extern const Family kFamily;
}
namespace first_layers {
extern const Family kFamily;
}
namespace few_channels {
extern const Family kFamily;
}
namespace row_strips {
extern const Family kFamily;
}
namespace unpacked {
extern const Family kFamily;
}
namespace pointwise {
extern const Family kFamily;
}
namespace phase_pairs {
extern const Family kFamily;
}
namespace all_phases {
extern const Family kFamily;
}
namespace channels_last_tf32_wgrad {
extern const Family kFamily;
}
namespace channels_last_wgrad {
extern const Family kFamily;
}
namespace halo {
extern const Family kFamily;
}
namespace wgrad {
extern const Family kFamily;
}
namespace relaid {
extern const Family kFamily;
}
namespace implicit_gemm {
extern const Family kFamily;
}
namespace implicit_gemm_wgrad {
extern const Family kFamily;
}
namespace windows_wgrad {
extern const Family kFamily;
}
namespace heads {
extern const Family kFamily;
}
namespace quad_groups {
extern const Family kFamily;
}
namespace depthwise_direct {
extern const Family kFamily;
}
namespace depthwise {
extern const Family kFamily;
}
namespace generic {
extern const Family kFamily;
}

std::span<const Family* const> families() {
  static constexpr const Family* kFamilies[] = {
      &channels_last_tf32_wgrad::kFamily,
      &first_layers::kFamily,
      &channels_last::kFamily,
      &channels_last_wgrad::kFamily,
      &few_channels::kFamily,
      &row_strips::kFamily,
      &unpacked::kFamily,
      &pointwise::kFamily,
      &phase_pairs::kFamily,
      &all_phases::kFamily,
      &halo::kFamily,
      &wgrad::kFamily,
      &relaid::kFamily,
      &implicit_gemm::kFamily,
      &implicit_gemm_wgrad::kFamily,
      &windows_wgrad::kFamily,
      &heads::kFamily,
      &quad_groups::kFamily,
      &depthwise_direct::kFamily,
      &depthwise::kFamily,
      &generic::kFamily,
  };
  return kFamilies;
}

}  // namespace haloconv
