#include "registration/tuning/decision.h"

namespace haloconv::tuning {
namespace {

// The contender that is on record; none where no record is, or its plan is no longer among them.
std::optional<size_t> recorded(const Question& question, const std::string& problem,
                               const std::vector<Contender>& contenders) {
  const auto record = question.store.find(question.environment(), problem);
  if (!record) return std::nullopt;
  for (size_t i = 0; i < contenders.size(); ++i) {
    if (contenders[i].family == record->family && contenders[i].plan == record->plan) return i;
  }
  return std::nullopt;
}

std::optional<size_t> decide(const Question& question, bool may_time) {
  const std::string problem = question.problem();
  const std::vector<Contender> contenders = question.contenders();
  if (const auto known = recorded(question, problem, contenders)) return known;
  if (!may_time) return std::nullopt;
  const std::vector<double> times = question.time();
  const auto fastest = question.fastest_of(times);
  if (fastest) {
    const auto& [family, plan] = contenders[*fastest];
    question.store.add(question.environment(), problem,
                       {.family = family, .plan = plan, .ms = times[*fastest]});
  }
  return fastest;
}

}  // namespace

size_t Decision::make(const Question& question, bool may_wait) {
  const auto decision = [&] { return decide(question, may_wait); };
  const size_t* const fastest = may_wait ? fastest_.get(decision) : fastest_.try_get(decision);
  return fastest == nullptr ? 0 : *fastest;
}

std::optional<size_t> Decision::made() const {
  const size_t* const fastest = fastest_.peek();
  return fastest == nullptr ? std::nullopt : std::optional(*fastest);
}

}  // namespace haloconv::tuning
