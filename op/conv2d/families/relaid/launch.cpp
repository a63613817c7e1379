#include <utility>

#include "conv2d/families/relaid/block_copy_kernels.h"
#include "conv2d/families/relaid/plan.h"
#include "conv2d/families/relaid/transpose.h"
#include "conv2d/families/relaid/unfold_input.h"
#include "conv2d/family.h"

namespace haloconv::relaid {

namespace {

// A call's copies, and the operands of the family that computes in between.
class Call {
 public:
  Call(const Plan& plan, const Operands& given) : plan_(plan), given_(given), operands_(given) {
    const RelaidProblem& relaid = plan.relaid;
    operands_.workspace = at(plan.workspace_at);
    switch (plan.direction) {
      case Direction::kFprop:
        read(relaid.input, plan.input_at, operands_.input);
        read(relaid.filter, plan.filter_at, operands_.filter);
        read_blocks(relaid.input_blocks, plan.input_at, operands_.input);
        read_blocks(relaid.filter_blocks, plan.filter_at, operands_.filter);
        write(relaid.output, plan.output_at);
        break;
      case Direction::kDgrad:
        read(relaid.output, plan.output_at, operands_.output);
        read(relaid.filter, plan.filter_at, operands_.filter);
        write(relaid.input, plan.input_at);
        break;
      case Direction::kWgrad:
        read(relaid.input, plan.input_at, operands_.input);
        read(relaid.output, plan.output_at, operands_.output);
        read_blocks(relaid.input_blocks, plan.input_at, operands_.input);
        write(relaid.filter, plan.filter_at);
        write_blocks(relaid.filter_blocks, plan.filter_at);
        multiply(relaid, plan.input_at);
        break;
    }
    if (relaid.values) relay_values(*relaid.values);
  }

  void run(cudaStream_t stream) const {
    const bool has_rows = plan_.relaid.has_rows;
    if (const auto& unfold = plan_.relaid.unfolded_input) {
      launch_unfold(*unfold, given_.input, at(plan_.input_at), stream);
    }
    for (const auto& blocks : blocks_before_) {
      if (blocks) launch_to_blocks(*blocks, stream);
    }
    if (before_.count > 0) (has_rows ? launch_to_rows : launch_to_channels)(before_, stream);
    plan_.family->launch(*plan_.plan, operands_, stream);
    if (after_.count > 0) (has_rows ? launch_to_channels : launch_to_rows)(after_, stream);
    if (blocks_after_) launch_from_blocks(*blocks_after_, stream);
  }

 private:
  char* at(int64_t offset) const { return static_cast<char*>(given_.workspace) + offset; }

  // `to_dense`: whether the dense tensor is written, not read.
  static void add(TensorCopy copy, const void* from, void* to, bool to_dense, Copies& copies) {
    copy.from = from;
    copy.to = to;
    copy.unit = unit_at(copy, to_dense ? from : to);
    set_tiles(copy, !to_dense);
    copies.add(copy);
  }

  // Copies what an operand points to; then it points to the copy.
  void copy(const TensorCopy& copy, const void*& operand, void* to) {
    add(copy, operand, to, !plan_.relaid.has_rows, before_);
    operand = to;
  }

  void copy_back(const TensorCopy& copy, const void* from, void* to) {
    add(copy, from, to, plan_.relaid.has_rows, after_);
  }

  void read(const std::optional<TensorCopy>& of, int64_t place, const void*& operand) {
    if (of) copy(*of, operand, at(place));
  }

  // Copies what the family writes to where it is wanted; until then a residual may be there.
  void write(const std::optional<TensorCopy>& of, int64_t place) {
    if (!of) return;
    const void*& residual = operands_.fusion.residual;
    if (residual != nullptr) copy(*of, residual, given_.result);
    operands_.result = at(place);
    copy_back(*of, operands_.result, given_.result);
  }

  void read_blocks(const std::optional<BlockCopy>& of, int64_t place, const void*& operand) {
    if (!of) return;
    std::optional<BlockCopy>& copy = blocks_before_[blocks_before_[0] ? 1 : 0];
    copy = of;
    copy->from = operand;
    copy->to = at(place);
    copy->unit = unit_at(*copy, operand);
    operand = copy->to;
  }

  void write_blocks(const std::optional<BlockCopy>& of, int64_t place) {
    if (!of) return;
    blocks_after_ = of;
    blocks_after_->from = operands_.result = at(place);
    blocks_after_->to = given_.result;
    blocks_after_->unit = unit_at(*of, given_.result);
  }

  // Names the operands of a weight gradient as those of the forward pass that computes it.
  void multiply(const RelaidProblem& relaid, int64_t place) {
    if (relaid.unfolded_input) operands_.input = at(place);
    if (relaid.product == Product::kOfPixels) {
      operands_.filter = std::exchange(operands_.input, operands_.output);
    } else if (relaid.product == Product::kOfImages) {
      operands_.filter = operands_.output;
    }
  }

  // Copies the values for each channel.
  void relay_values(const TensorCopy& of) {
    int64_t place = plan_.values_at;
    for (const void** values :
         {&operands_.bias, &operands_.fusion.scale, &operands_.fusion.shift}) {
      if (*values != nullptr) copy(of, *values, at(place));
      place += plan_.value_bytes;
    }
    if (given_.grad_bias == nullptr) return;
    operands_.grad_bias = at(plan_.values_at);
    copy_back(of, operands_.grad_bias, given_.grad_bias);
  }

  const Plan& plan_;
  const Operands& given_;
  Operands operands_;
  Copies before_, after_;
  std::optional<BlockCopy> blocks_before_[2], blocks_after_;  // of input and filter
};

}  // namespace

void launch(const haloconv::Plan& plan, const Operands& operands, cudaStream_t stream) {
  Call(made_by_family<Plan>(plan).details, operands).run(stream);
}

}  // namespace haloconv::relaid
