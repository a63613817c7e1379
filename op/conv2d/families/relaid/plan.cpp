#include "conv2d/families/relaid/plan.h"

#include <ostream>

#include "conv2d/geometry/integers.h"

namespace haloconv::relaid {

namespace {

constexpr double kCopyRate = 0.8;     // of what a copy that transposes nothing reaches
constexpr double kLaunchMs = 0.0025;  // of one launch of copies
constexpr int kValues = 3;            // bias, scale and shift
constexpr int64_t kAlignment = 128;

// Milliseconds of copies that one launch makes.
class Launch {
 public:
  explicit Launch(const Chip& chip) : chip_(chip) {}

  void add(const TensorCopy& copy) {
    bytes_ += static_cast<double>(copy.bytes() + copy.other_bytes());
  }
  double ms() const {
    return bytes_ == 0 ? 0 : kLaunchMs + bytes_ / (chip_.memory_rate * kCopyRate) * 1e3;
  }

 private:
  const Chip& chip_;
  double bytes_ = 0;
};

}  // namespace

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  os << plan.direction << " relaid";
  const char* comma = " ";
  const auto name = [&](const Place& place, const char* tensor) {
    if (!place.is_there) return;
    os << comma << tensor;
    comma = ",";
  };
  name(plan.input, "input");
  name(plan.filter, "filter");
  name(plan.output, "output");
  os << " for " << plan.family->name << " (";
  plan.plan->print(os);
  return os << ") workspace=" << plan.workspace_bytes;
}

Plan make_plan(const Request& request, const RelaidProblem& relaid, const Family& family,
               const PlanPointer& plan) {
  const Conv2dProblem& problem = request.problem;
  Plan made{.direction = request.direction, .family = &family, .plan = plan};
  int64_t end = 0;
  const auto take = [&](int64_t bytes) {
    const int64_t at = end;
    end += round_up(bytes, kAlignment);
    return at;
  };
  Launch before(request.chip), after(request.chip);
  const auto place = [&](bool copies, const TensorCopy& copy, Direction written_by) {
    if (!copies) return Place{};
    (request.direction == written_by ? after : before).add(copy);
    return Place{true, take(copy.bytes())};
  };
  made.input =
      place(relaid.copies_input, input_copy(problem, request.direction), Direction::kDgrad);
  made.filter = place(relaid.copies_filter, filter_copy(problem), Direction::kWgrad);
  made.output = place(relaid.copies_output, output_copy(problem), Direction::kFprop);
  const bool dgrad = request.direction == Direction::kDgrad;
  const int64_t channels = dgrad ? problem.c : problem.k;
  if ((dgrad ? relaid.problem.c : relaid.problem.k) != channels) {
    made.value_bytes = round_up(values_copy(problem.type, channels).bytes(), kAlignment);
    made.values = {true, take(kValues * made.value_bytes)};
  }
  made.workspace_at = take(plan->workspace_bytes);
  made.workspace_bytes = end;
  made.estimated_ms = before.ms() + plan->estimated_ms + after.ms();
  return made;
}

}  // namespace haloconv::relaid
