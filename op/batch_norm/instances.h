// The launches that the files of instances/ define, of elements __half and __nv_bfloat16.
#pragma once

#include "batch_norm/operands.h"

namespace haloconv::batch_norm {

template <class T>
void launch_forward_of(ActivationKind activation, const Plan& plan, const Forward& operands,
                       CUstream_st* stream);

template <class T>
void launch_backward_of(ActivationKind activation, const Plan& plan, const Backward& operands,
                        CUstream_st* stream);

}  // namespace haloconv::batch_norm
