// torch.backends.cudnn.benchmark: a problem's first call times its candidates.
#pragma once

#include <functional>

#include "registration/conv2d/select.h"

namespace haloconv {

// What timings on this chip depend on beside their problem.
tuning::Environment environment_of(const Chip& chip);

// Whether calls run the fastest candidate: they do with the setting on, unless results must be
// deterministic or an implementation is forced. Otherwise they run the model's choice.
bool wants_the_fastest();

// Which of the selection's candidates runs this call. If no file has the result, the problem's
// first call runs each candidate some times on the current stream, and waits for it. That does not
// happen while a graph is being captured. Threads that come meanwhile wait.
const Candidate& candidate_for(Selection& selection,
                               const std::function<void(const Candidate&)>& run);

}  // namespace haloconv
