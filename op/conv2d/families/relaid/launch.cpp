#include "conv2d/families/relaid/plan.h"
#include "conv2d/families/relaid/transpose.h"
#include "conv2d/family.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::relaid {

namespace {

// A call's copies, and the operands of the family that computes in between.
class Call {
 public:
  Call(const PlanOf<Plan>& made, const Operands& given)
      : problem_(made.problem), plan_(made.details), given_(given), operands_(given) {
    operands_.workspace = at(plan_.workspace_at);
    switch (plan_.direction) {
      case Direction::kFprop:
        read(plan_.input, input_copy(problem_, plan_.direction), operands_.input);
        read(plan_.filter, filter_copy(problem_), operands_.filter);
        write(plan_.output, output_copy(problem_));
        add_values();
        break;
      case Direction::kDgrad:
        read(plan_.output, output_copy(problem_), operands_.output);
        read(plan_.filter, filter_copy(problem_), operands_.filter);
        write(plan_.input, input_copy(problem_, plan_.direction));
        add_values();
        break;
      case Direction::kWgrad:
        read(plan_.input, input_copy(problem_, plan_.direction), operands_.input);
        read(plan_.output, output_copy(problem_), operands_.output);
        write(plan_.filter, filter_copy(problem_));
        write_grad_bias();
        break;
    }
  }

  void run(cudaStream_t stream) const {
    if (before_.count > 0) launch_to_channels(before_, stream);
    plan_.family->launch(*plan_.plan, operands_, stream);
    if (after_.count > 0) launch_to_rows(after_, stream);
  }

 private:
  char* at(int64_t offset) const { return static_cast<char*>(given_.workspace) + offset; }

  // A copy of what an operand points to, to which it points then.
  void copy(TensorCopy copy, const void*& operand, void* to) {
    copy.from = operand;
    copy.to = to;
    copy.unit = unit_at(copy, operand);
    before_.add(copy);
    operand = to;
  }

  void read(const Place& place, const TensorCopy& of, const void*& operand) {
    if (place.is_there) copy(of, operand, at(place.at));
  }

  // A copy of what the family writes to where it is wanted; until then a residual lies there.
  void write(const Place& place, TensorCopy of) {
    if (!place.is_there) return;
    const void*& residual = operands_.fusion.residual;
    if (residual != nullptr) copy(of, residual, given_.result);
    operands_.result = at(place.at);
    of.from = operands_.result;
    of.to = given_.result;
    of.unit = unit_at(of, of.to);
    after_.add(of);
  }

  // What there is for each channel, where channels were added.
  void add_values() {
    if (!plan_.values.is_there) return;
    const int64_t channels = plan_.direction == Direction::kDgrad ? problem_.c : problem_.k;
    int64_t offset = plan_.values.at;
    for (const void** values :
         {&operands_.bias, &operands_.fusion.scale, &operands_.fusion.shift}) {
      if (*values != nullptr) copy(values_copy(problem_.type, channels), *values, at(offset));
      offset += plan_.value_bytes;
    }
  }

  void write_grad_bias() {
    if (!plan_.values.is_there || given_.grad_bias == nullptr) return;
    operands_.grad_bias = at(plan_.values.at);
    TensorCopy copy = values_copy(problem_.type, problem_.k);
    copy.from = operands_.grad_bias;
    copy.to = given_.grad_bias;
    copy.unit = unit_at(copy, copy.to);
    after_.add(copy);
  }

  const Conv2dProblem& problem_;
  const Plan& plan_;
  const Operands& given_;
  Operands operands_;
  Copies before_, after_;
};

}  // namespace

void launch(const haloconv::Plan& plan, const Operands& operands, cudaStream_t stream) {
  Call(made_by_family<Plan>(plan), operands).run(stream);
}

}  // namespace haloconv::relaid
