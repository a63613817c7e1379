// The tensor maps of a launch: how the copy engine sees the source and the filter.
#pragma once

#include "conv2d/families/channels_last/plan.h"
#include "conv2d/families/channels_last/tensor_maps.h"

namespace haloconv::sm90::channels_last {

// Throw std::runtime_error where the driver makes no map: an address is no multiple of 16 bytes.
TensorMaps make_maps(const Conv2dProblem& problem, const Plan& plan, const Launch& launch,
                     const void* source, const void* filter);
WindowMaps make_maps(const Conv2dProblem& problem, const Plan& plan, const WindowLaunch& launch,
                     const void* source, const void* filter);
WindowMaps make_maps(const Conv2dProblem& problem, const Plan& plan, const StripLaunch& launch,
                     const void* source, const void* filter);

// Adds those of the residual and the result, which launch.args names.
void add_result_maps(const Conv2dProblem& problem, const Plan& plan, const Launch& launch,
                     TensorMaps& maps);
void add_result_maps(const Conv2dProblem& problem, const Plan& plan, const WindowLaunch& launch,
                     WindowMaps& maps);

// Adds that of the result of alternating tiles.
void add_result_map(const Conv2dProblem& problem, const Plan& plan, const Launch& launch,
                    TensorMaps& maps);

}  // namespace haloconv::sm90::channels_last
