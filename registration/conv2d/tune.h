// torch.backends.cudnn.benchmark: the ways to run a problem are timed at its first call.
#pragma once

#include <functional>

#include "registration/conv2d/select.h"

namespace haloconv {

// What timings on a chip depend on beside their problem.
tuning::Environment environment_of(const Chip& chip);

// Whether calls run the fastest candidate: with the setting on, unless results must be
// deterministic or an implementation is forced. Else they run the model's choice.
bool wants_the_fastest();

// Which of the selection's candidates runs this call. To know the fastest, each is run some times
// at the problem's first call, on the current stream, which waits for them, unless the result is
// known from a file; not while a graph is being captured. Threads that come meanwhile wait.
const Candidate& candidate_for(Selection& selection,
                               const std::function<void(const Candidate&)>& run);

}  // namespace haloconv
