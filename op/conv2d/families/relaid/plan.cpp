#include "conv2d/families/relaid/plan.h"

#include <algorithm>
#include <ostream>

#include "conv2d/geometry/integers.h"

namespace haloconv::relaid {

namespace {

constexpr int kValues = 3;  // bias, scale and shift
constexpr int64_t kAlignment = 128;

// The milliseconds of the copies that one launch makes.
class Launch {
 public:
  explicit Launch(const Chip& chip) : chip_(chip) {}

  void add(TensorCopy copy, bool from_dense) {
    set_tiles(copy, from_dense);
    // The part of a plain copy's rate that is reached: less if less than 16 bytes are moved at
    // once.
    double rate = copy.unit * copy.element_bytes == 16 ? 0.93 : 0.7;
    if (copy.way == Way::kImages) rate = 0.8;
    // If channels are innermost in both, neighbouring threads' elements are apart, above all those
    // that they write.
    if (copy.strides.c == 1 && copy.strides.w != 1) rate = from_dense ? 0.03 : 0.45;
    constexpr double kTileCycles = 430;  // of a multiprocessor, even if there are few channels
    const double bytes = static_cast<double>(copy.dense_bytes() + copy.other_bytes());
    ms_ += 1e3 * std::max(bytes / (chip_.memory_rate * rate),
                          copy.tiles * kTileCycles / chip_.cycle_rate());
  }
  double ms() const {
    constexpr double kLaunchMs = 0.0015;
    return ms_ == 0 ? 0 : kLaunchMs + ms_;
  }

 private:
  const Chip& chip_;
  double ms_ = 0;
};

}  // namespace

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  const RelaidProblem& relaid = plan.relaid;
  os << plan.direction << " relaid"
     << (relaid.product == Product::kOfPixels   ? " as pixels"
         : relaid.product == Product::kOfImages ? " as images"
         : relaid.has_rows                      ? " in rows"
                                                : " in channels");
  if (const auto& blocks = relaid.input_blocks) {
    os << " folded=" << blocks->block_h << 'x' << blocks->block_w;
  } else if (relaid.filter_blocks) {
    os << " merged=" << relaid.filter_blocks->merged.divisor;
  }
  const char* comma = " ";
  const auto name = [&](bool is_copied, const char* tensor) {
    if (!is_copied) return;
    os << comma << tensor;
    comma = ",";
  };
  name(relaid.input || relaid.input_blocks || relaid.unfolded_input, "input");
  name(relaid.filter || relaid.filter_blocks, "filter");
  name(relaid.output.has_value(), "output");
  os << " for " << plan.family->name << " (";
  plan.plan->print(os);
  return os << ") workspace=" << plan.workspace_bytes;
}

Plan make_plan(const Request& request, const RelaidProblem& relaid, const Family& family,
               const PlanPointer& plan) {
  Plan made{.direction = request.direction, .family = &family, .plan = plan, .relaid = relaid};
  int64_t end = 0;
  const auto take = [&](int64_t bytes) {
    const int64_t at = end;
    end += round_up(bytes, kAlignment);
    return at;
  };
  Launch before(request.chip), after(request.chip);
  const auto place = [&](const std::optional<TensorCopy>& copy, Direction written_by) {
    if (!copy) return int64_t{0};
    const bool is_written = request.direction == written_by;
    (is_written ? after : before).add(*copy, is_written != relaid.has_rows);
    return take(relaid.bytes_of(copy));
  };
  double blocks_ms = 0;
  const auto place_of = [&](const std::optional<TensorCopy>& copy,
                            const std::optional<BlockCopy>& blocks, Direction written_by) {
    if (!blocks) return place(copy, written_by);
    blocks_ms += block_copy_ms(*blocks, request.chip);
    return take(blocks->dense_bytes());
  };
  if (relaid.unfolded_input) {
    blocks_ms +=
        unfold_ms(request.problem, *relaid.unfolded_input, request.direction, request.chip);
    made.input_at = take(relaid.unfolded_input->bytes());
  } else {
    made.input_at = place_of(relaid.input, relaid.input_blocks, Direction::kDgrad);
  }
  made.filter_at = place_of(relaid.filter, relaid.filter_blocks, Direction::kWgrad);
  made.output_at = place(relaid.output, Direction::kFprop);
  if (relaid.values) {
    made.value_bytes = round_up(relaid.values->dense_bytes(), kAlignment);
    made.values_at = take(kValues * made.value_bytes);
  }
  made.workspace_at = take(plan->workspace_bytes);
  made.workspace_bytes = end;
  made.estimated_ms = before.ms() + plan->estimated_ms + after.ms() + blocks_ms;
  return made;
}

}  // namespace haloconv::relaid
