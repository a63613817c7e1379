// rewrite()'s first step: the convolutions of a module's graphs become haloconv's.
#pragma once

#include "registration/rewrite.h"

namespace haloconv {

// Changes the module's graphs, which other modules of its class share; so the module must be a copy
// with graphs of its own.
torch::jit::Module rewrite_own(torch::jit::Module module, const RewriteOptions& options,
                               RewriteReport& report);

}  // namespace haloconv
