#include "runtime/train/watch/straggler_watch.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>
#include <sstream>

namespace xrun::runtime {
namespace {

constexpr Seconds kCounts = 1e-3;  // a device that loses less time than this in a step does not count as slow

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return values.size() % 2 == 1 ? *middle : (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// The evidence that a window of `seconds` adds against a device with this factor; a negative result removes evidence.
double evidence_of(double factor, Seconds seconds) {
  const double x = std::log(factor / StragglerWatch::kSlow);
  return x < 0
             ? x * seconds
             : std::min(StragglerWatch::kWeight * x * x * x * seconds, StragglerWatch::kMost * std::min(seconds, 1.0));
}

}  // namespace

std::string to_text(const PaceReport& report) {
  std::string text = fmt::format("{:.9g}\n", report.seconds);
  for (const DevicePace& one : report.paces) {
    text += fmt::format("{} {:.9g} {:.9g} {:.9g} {}\n", one.device, one.busy, one.predicted, one.excess, one.what);
  }
  return text;
}

PaceReport pace_report(const std::string& text) {
  PaceReport report;
  std::istringstream in(text);
  in >> report.seconds;
  for (DevicePace one;
       in >> one.device >> one.busy >> one.predicted >> one.excess && in.get() == ' ' && std::getline(in, one.what);) {
    report.paces.push_back(one);
  }
  return report;
}

std::vector<Straggler> compare(const std::vector<DevicePace>& paces) {
  std::vector<Straggler> compared;
  for (const DevicePace& one : paces) {
    std::vector<double> others;
    for (const DevicePace& other : paces) {
      if (other.device != one.device && other.predicted > 0 && other.busy > 0) {
        others.push_back(other.busy / other.predicted);
      }
    }
    if (others.empty() || one.predicted <= 0) {
      continue;
    }
    const Seconds expected = one.predicted * median(std::move(others));
    compared.push_back({.pace = one, .factor = one.busy - expected >= kCounts ? one.busy / expected : 1});
  }
  return compared;
}

bool StragglerWatch::wants_step() {
  if (++steps_ <= kWarmUp) {
    return false;
  }
  // Divides the window into kLooks equal parts, and measures the last step of each part.
  const int64_t before = at_ * kLooks / window_;
  ++at_;
  return at_ * kLooks / window_ > before;
}

void StragglerWatch::add(std::span<const Timing> timings, const StepTimes& times) {
  profile_.add(timings, times);
  looked_ += times.seconds;
  busy_.resize(times.devices.size());
  for (size_t d = 0; d < times.devices.size(); ++d) {
    busy_[d].push_back(times.devices[d].busy);
  }
}

PaceReport StragglerWatch::report() const {
  PaceReport report{.seconds = looked_ / kLooks * static_cast<double>(window_), .paces = {}};
  for (size_t d = 0; d < busy_.size(); ++d) {
    if (const Seconds busy = median(busy_[d]); busy > 0) {
      report.paces.push_back({.device = static_cast<int>(d), .busy = busy, .what = ""});
    }
  }
  for (const ProfileRow& row : profile_.rows()) {
    const auto of = std::ranges::find(report.paces, row.device, &DevicePace::device);
    if (of == report.paces.end() || row.sort != ProfileRow::kCompute) {
      continue;
    }
    of->predicted += row.predicted;
    if (of->what.empty() || row.seconds - row.predicted > of->excess) {
      of->what = row.what;
      of->excess = row.seconds - row.predicted;
    }
  }
  return report;
}

std::vector<Straggler> StragglerWatch::judge(const std::vector<DevicePace>& paces, Seconds seconds) {
  constexpr size_t kFactors = 9;
  constexpr double kMostSteps = 1e6;
  constexpr double kRounding = 1e-6;  // possible error of a quotient that should be a whole number
  ++windows_;
  std::vector<Straggler> slow;
  for (const Straggler& one : compare(paces)) {
    Evidence& seen = evidence_[one.pace.device];
    seen.sum = std::clamp(seen.sum + evidence_of(one.factor, seconds), 0.0, kEnough);
    if (seen.sum == 0) {
      seen.factors.clear();
      continue;
    }
    if (one.factor > kSlow) {
      seen.factors.push_back(one.factor);
    }
    if (seen.factors.size() > kFactors) {
      seen.factors.erase(seen.factors.begin());
    }
    if (seen.sum == kEnough) {
      if (seen.slow_in < windows_ - kQuiet) {
        slow.push_back({.pace = one.pace, .factor = median(seen.factors)});
      }
      seen.slow_in = windows_;
    }
  }
  const double steps = seconds > 0 ? std::ceil(kWindow / seconds * static_cast<double>(window_) - kRounding) : 0;
  begin_window(std::max(static_cast<int64_t>(std::min(steps, kMostSteps)), kLeast));
  return slow;
}

void StragglerWatch::move_to(StepProfile profile) {
  empty_ = std::move(profile);
  steps_ = 0;
  begin_window(kLeast);
}

void StragglerWatch::begin_window(int64_t steps) {
  window_ = steps;
  profile_ = empty_;
  busy_.clear();
  looked_ = 0;
  at_ = 0;
}

}  // namespace xrun::runtime
