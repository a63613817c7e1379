// rewrite()'s first step: the convolutions of a module's graphs become haloconv's.
#pragma once

#include "registration/rewrite.h"

namespace haloconv {

// Of a module that nobody else has: modules of one class share its methods' graphs.
torch::jit::Module rewrite_own(torch::jit::Module module, const RewriteOptions& options,
                               RewriteReport& report);

}  // namespace haloconv
