// torch.backends.cudnn.benchmark: the ways to run a problem are timed at its first call.
#pragma once

#include <functional>

#include "registration/conv2d_select.h"

namespace haloconv {

// Which contender runs this call. With the setting on, and unless results must be deterministic, a
// graph is being captured or an implementation is forced, each contender is run some times on the
// current stream, which waits for them, and the fastest is kept; else it is the model's choice.
Contender contender_for(Selection& selection, const std::function<void(const Contender&)>& run);

}  // namespace haloconv
