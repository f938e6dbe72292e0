// Tests: tests/cases/simulate_test.cpp
#include "runtime/cli/simulate/key_fit.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "graph/base/units.h"

namespace xrun::cli {
namespace {

// Time limit of the search for a larger value.
constexpr std::chrono::seconds kFitTime(60);
constexpr const char* kDoesNotFit = "XG0601";
// Without a range, the search begins at the first power of two up to this one that is legal.
constexpr int64_t kLastBegin = int64_t{1} << 20;

// Plans values of one key, each once.
class Values {
 public:
  explicit Values(PointPlanner& planner) : planner_(planner) {}

  // Whether a value has a plan. Errors: those of PointPlanner::plan.
  Outcome<bool> has_plan(int64_t value) {
    if (!points_.contains(value)) {
      XRUN_ASSIGN(planner::SweepPoint point,
                  planner_.plan({std::to_string(value)}, "value " + format_count(value), PointEffort::kFirstFit));
      points_.emplace(value, std::move(point));
    }
    return points_.at(value).plan.has_value();
  }

  // Searches the best plan of a value that has one.
  Outcome<void> search(int64_t value) {
    XRUN_ASSIGN(planner::SweepPoint point,
                planner_.plan({std::to_string(value)}, "the best plan of value " + format_count(value)));
    points_.at(value) = std::move(point);
    return {};
  }

  // Whether a value was refused because its plan does not fit. Other values without a plan are not legal, as batches
  // that row blocks do not divide, and say nothing about larger ones.
  bool does_not_fit(int64_t value) const { return points_.contains(value) && points_.at(value).code == kDoesNotFit; }

  // Returns the smallest value above `value` that does not fit; nullopt if none was planned.
  std::optional<int64_t> next_too_large(int64_t value) const {
    for (auto at = points_.upper_bound(value); at != points_.end(); ++at) {
      if (at->second.code == kDoesNotFit) {
        return at->first;
      }
    }
    return std::nullopt;
  }

  size_t index_of(int64_t value) const {
    return static_cast<size_t>(std::distance(points_.begin(), points_.find(value)));
  }

  std::vector<planner::SweepPoint> points() const {
    std::vector<planner::SweepPoint> all;
    for (const auto& [value, point] : points_) {
      all.push_back(point);
    }
    return all;
  }

 private:
  PointPlanner& planner_;
  std::map<int64_t, planner::SweepPoint> points_;
};

// Returns the first value of the search that has a plan. Errors: that of the smallest value, if none has.
Outcome<int64_t> first_value(Values& values, const PointPlanner& planner, const FitRange& range) {
  XRUN_ASSIGN(bool has, values.has_plan(range.low));
  const Failure refusal = has ? Failure(Error()) : planner.refusal();
  int64_t value = range.low;
  while (!has && !range.is_given && value < kLastBegin && !values.does_not_fit(value)) {
    value *= 2;
    XRUN_ASSIGN(has, values.has_plan(value));
  }
  if (!has) {
    return refusal;
  }
  return value;
}

}  // namespace

Outcome<planner::Sweep> fit_key(PointPlanner& planner, const FitRange& range) {
  Values values(planner);
  XRUN_ASSIGN(int64_t fits, first_value(values, planner, range));
  int64_t refused = range.high + 1;  // not planned if no value of the range is refused
  const auto begin = std::chrono::steady_clock::now();
  const auto in_time = [&] { return std::chrono::steady_clock::now() - begin < kFitTime; };
  for (bool grows = true; grows && fits < range.high && in_time();) {
    const int64_t next = std::min(range.high, std::max(fits + 1, 2 * fits));
    XRUN_ASSIGN(grows, values.has_plan(next));
    (grows ? fits : refused) = next;
  }
  while (refused - fits > 1 && in_time()) {
    const int64_t middle = fits + (refused - fits) / 2;
    XRUN_ASSIGN(const bool has, values.has_plan(middle));
    (has ? fits : refused) = middle;
  }
  const bool complete = refused - fits == 1;
  std::vector<int64_t> strange;
  if (complete && fits > range.low) {
    XRUN_TRY(values.has_plan(fits - 1));
    strange.insert(strange.end(), values.does_not_fit(fits - 1) ? 1 : 0, fits - 1);
  }
  if (complete && refused < range.high) {
    XRUN_ASSIGN(const bool has, values.has_plan(refused + 1));
    strange.insert(strange.end(), has ? 1 : 0, refused + 1);
  }
  XRUN_TRY(values.search(fits));
  planner::Sweep sweep{.points = values.points()};
  sweep.fit =
      planner::KeyFit{.largest = values.index_of(fits), .next = std::nullopt, .complete = complete, .out_of_order = {}};
  if (refused <= range.high) {
    sweep.fit->next = values.index_of(values.next_too_large(fits).value_or(refused));
  }
  for (const int64_t value : strange) {
    sweep.fit->out_of_order.push_back(values.index_of(value));
  }
  return sweep;
}

}  // namespace xrun::cli
