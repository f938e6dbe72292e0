// Tests: tests/runtime/runs/extended_run_test.cpp
#include "runtime/train/records.h"

#include <algorithm>
#include <fmt/format.h>

namespace xrun::runtime {
namespace {

std::optional<double> value_of(const std::vector<Measured>& metrics, const std::string& key) {
  const auto at = std::ranges::find(metrics, key, &Measured::key);
  return at == metrics.end() ? std::nullopt : std::optional(at->value);
}

bool holds(double value, StopSpec::Test test, double limit) {
  switch (test) {
    case StopSpec::kLess:
      return value < limit;
    case StopSpec::kLessEqual:
      return value <= limit;
    case StopSpec::kGreater:
      return value > limit;
    case StopSpec::kGreaterEqual:
      return value >= limit;
    case StopSpec::kPlateau:
      break;
  }
  return false;
}

}  // namespace

Records::Records(const RunSpec& run, const RunClock& clock) : stop_(run.stop_when), clock_(clock) {
  if (run.best) {
    records_.push_back({run.best->metric, run.best->highest, run.best->keep, {}});
  }
  const bool needs_own = stop_ && stop_->test == StopSpec::kPlateau && (!run.best || run.best->metric != stop_->metric);
  if (needs_own) {
    records_.push_back({stop_->metric, true, 0, {}});
  }
}

void Records::restore(const std::vector<Record>& saved, int64_t step) {
  for (Record& record : records_) {
    for (const Record& before : saved) {
      if (before.metric == record.metric && before.highest == record.highest) {
        record.best = before.best;
        std::erase_if(record.best, [&](const BestStep& best) { return best.step > step; });
        record.best.resize(
            std::min<size_t>(record.best.size(), static_cast<size_t>(std::max<int64_t>(1, record.keep))));
      }
    }
  }
}

void Records::add(int64_t step, const std::vector<Measured>& metrics) {
  for (Record& record : records_) {
    const auto value = value_of(metrics, record.metric);
    if (!value) {
      continue;
    }
    std::erase_if(record.best, [&](const BestStep& best) { return best.step == step; });
    // Inserts the step after steps with an equal value, since only a better value is a new best.
    const auto worse = std::ranges::find_if(
        record.best, [&](const BestStep& best) { return record.highest ? best.value < *value : best.value > *value; });
    record.best.insert(worse, {step, *value});
    record.best.resize(std::min<size_t>(record.best.size(), static_cast<size_t>(std::max<int64_t>(1, record.keep))));
  }
}

bool Records::is_best(int64_t step) const {
  return std::ranges::any_of(records_, [&](const Record& record) {
    return record.keep > 0 && std::ranges::find(record.best, step, &BestStep::step) != record.best.end();
  });
}

std::optional<std::string> Records::stop_reason(int64_t step, const std::vector<Measured>& metrics) const {
  if (!stop_) {
    return std::nullopt;
  }
  const StopSpec& stop = *stop_;
  const auto value = value_of(metrics, stop.metric);
  if (!value) {
    return std::nullopt;
  }
  if (stop.test != StopSpec::kPlateau) {
    return holds(*value, stop.test, stop.limit)
               ? std::optional(fmt::format("{} is {:.2f} %, and stop_when = {}", stop.metric, 100 * *value, stop.text))
               : std::nullopt;
  }
  const auto record = std::ranges::find(records_, stop.metric, &Record::metric);
  if (record == records_.end() || record->best.empty()) {
    return std::nullopt;
  }
  const BestStep& best = record->best.front();
  if (!clock_.lies_between(stop.length, best.step, step) || step == best.step) {
    return std::nullopt;
  }
  return fmt::format("{} was best at step {} with {:.2f} %, and stop_when = {}", stop.metric, best.step,
                     100 * best.value, stop.text);
}

}  // namespace xrun::runtime
