#include "runtime/train/straggler_watch.h"

#include <algorithm>
#include <fmt/format.h>
#include <sstream>

namespace xrun::runtime {
namespace {

constexpr Seconds kCounts = 1e-3;  // lost in a step

Seconds median(std::vector<Seconds> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::string to_text(const PaceReport& report) {
  std::string text = fmt::format("{}\n", report.window);
  for (const DevicePace& one : report.paces) {
    text += fmt::format("{} {:.9g} {:.9g} {:.9g} {}\n", one.device, one.busy, one.predicted, one.excess, one.what);
  }
  return text;
}

PaceReport pace_report(const std::string& text) {
  PaceReport report;
  std::istringstream in(text);
  in >> report.window;
  for (DevicePace one;
       in >> one.device >> one.busy >> one.predicted >> one.excess && in.get() == ' ' && std::getline(in, one.what);) {
    report.paces.push_back(one);
  }
  return report;
}

std::optional<Straggler> slowest_of(const std::vector<DevicePace>& paces) {
  std::optional<Straggler> slowest;
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
    const double pace = median(std::move(others));
    const double factor = one.busy / one.predicted / pace;
    const bool counts = factor >= StragglerWatch::kSlow && one.busy - one.predicted * pace >= kCounts;
    if (counts && (!slowest || factor > slowest->factor)) {
      slowest = Straggler{.pace = one, .factor = factor};
    }
  }
  return slowest;
}

bool StragglerWatch::wants_step() {
  if (++steps_ <= kWarmUp) {
    return false;
  }
  // Position i of n is looked at if it is the last of one of the fifths.
  const int64_t before = at_ * kLooks / window_;
  ++at_;
  return at_ * kLooks / window_ > before;
}

void StragglerWatch::add(std::span<const Timing> timings, const StepTimes& times) {
  profile_.add(timings, times);
  busy_.resize(times.devices.size());
  for (size_t d = 0; d < times.devices.size(); ++d) {
    busy_[d].push_back(times.devices[d].busy);
  }
}

std::vector<DevicePace> StragglerWatch::paces() const {
  std::vector<DevicePace> paces;
  for (size_t d = 0; d < busy_.size(); ++d) {
    if (const Seconds busy = median(busy_[d]); busy > 0) {
      paces.push_back({.device = static_cast<int>(d), .busy = busy, .what = ""});
    }
  }
  for (const ProfileRow& row : profile_.rows()) {
    const auto of = std::ranges::find(paces, row.device, &DevicePace::device);
    if (of == paces.end() || row.sort != ProfileRow::kCompute) {
      continue;
    }
    of->predicted += row.predicted;
    if (of->what.empty() || row.seconds - row.predicted > of->excess) {
      of->what = row.what;
      of->excess = row.seconds - row.predicted;
    }
  }
  return paces;
}

std::optional<Straggler> StragglerWatch::judge(const std::vector<DevicePace>& paces) {
  profile_ = empty_;
  busy_.clear();
  at_ = 0;
  window_ = next_window_;
  ++windows_;
  auto slow = slowest_of(paces);
  if (!slow) {
    return std::nullopt;
  }
  const auto [last, first_time] = slow_in_.try_emplace(slow->pace.device, windows_);
  const bool told = !first_time && windows_ - last->second <= kQuiet;
  last->second = windows_;
  return told ? std::nullopt : slow;
}

}  // namespace xrun::runtime
