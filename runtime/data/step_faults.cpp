#include "runtime/data/step_faults.h"

namespace xrun::runtime {

void StepFaults::note(int64_t step, BrokenRow found) {
  const std::scoped_lock lock(mutex_);
  Step& faults = steps_[step];
  if (faults.messages.emplace(std::pair(found.row, found.attempt), found.message).second) {
    faults.untold.push_back(std::move(found));
  }
}

void StepFaults::add(int64_t step, std::span<const BrokenRow> others) {
  const std::scoped_lock lock(mutex_);
  for (const BrokenRow& one : others) {
    steps_[step].messages.emplace(std::pair(one.row, one.attempt), one.message);
  }
}

std::optional<std::string> StepFaults::known(int64_t step, int64_t row, int attempt) const {
  const std::scoped_lock lock(mutex_);
  const auto at = steps_.find(step);
  if (at == steps_.end()) {
    return std::nullopt;
  }
  const auto found = at->second.messages.find({row, attempt});
  return found == at->second.messages.end() ? std::nullopt : std::optional(found->second);
}

std::vector<BrokenRow> StepFaults::take_untold(int64_t step) {
  const std::scoped_lock lock(mutex_);
  const auto at = steps_.find(step);
  return at == steps_.end() ? std::vector<BrokenRow>() : std::exchange(at->second.untold, {});
}

std::set<int64_t> StepFaults::rows_to_mix(int64_t step, int64_t rows) {
  std::set<int64_t> found;
  const std::scoped_lock lock(mutex_);
  const auto at = steps_.find(step);
  if (at == steps_.end() || at->second.messages.size() == at->second.mixed) {
    return found;
  }
  at->second.mixed = at->second.messages.size();
  for (const auto& [place, message] : at->second.messages) {
    found.insert(place.first);
    found.insert((place.first + 1) % rows);
  }
  return found;
}

void StepFaults::forget(int64_t step) {
  const std::scoped_lock lock(mutex_);
  steps_.erase(step);
}

void StepFaults::forget_all() {
  const std::scoped_lock lock(mutex_);
  steps_.clear();
}

}  // namespace xrun::runtime
