#include "registration/tuning/decision.h"

#include <algorithm>
#include <cmath>

namespace haloconv::tuning {
namespace {

std::optional<size_t> index_of(const Record& record, const std::vector<Contender>& contenders) {
  for (size_t i = 0; i < contenders.size(); ++i) {
    if (contenders[i].family == record.family && contenders[i].plan == record.plan) return i;
  }
  return std::nullopt;  // its plan is no longer among them
}

std::optional<size_t> decide(const Question& question, bool may_time) {
  const auto& [store, environment, problem, contenders, time, fastest_of] = question;
  if (const auto record = store.find(environment, problem)) {
    if (const auto known = index_of(*record, contenders)) return known;
  }
  if (!may_time) return std::nullopt;
  const std::vector<double> times = time();
  const auto fastest = fastest_of(times);
  if (!fastest) return std::nullopt;
  const Contender& contender = contenders[*fastest];
  const bool of_all =
      std::none_of(times.begin(), times.end(), [](double ms) { return std::isinf(ms); });
  const Record record = store.add(
      environment, problem,
      {.family = contender.family, .plan = contender.plan, .ms = times[*fastest]}, of_all);
  const auto known = index_of(record, contenders);
  return known ? known : fastest;
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
