#include "runtime/train/save_interval.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <sstream>

namespace xrun::runtime {
namespace {

constexpr Seconds kLeast = 1e-3;  // least cost of a save; otherwise a clock that stands still would cause endless saves

}  // namespace

Seconds best_interval(Seconds save, Seconds mtbf) {
  if (save >= 2 * mtbf) {
    return mtbf;
  }
  const double part = save / (2 * mtbf);
  return std::sqrt(2 * save * mtbf) * (1 + std::sqrt(part) / 3 + part / 9) - save;
}

void SaveInterval::begin(int64_t step, Seconds now) {
  first_ = step;
  since_ = now;
  next_ = step + 1;  // the first decision also shows how long a step takes
}

// Decides to save if the interval has passed. Otherwise the next decision is made after half of the remaining time, so
// that few decisions are made, whatever the duration of a step.
SaveInterval::Look SaveInterval::look(int64_t step, Seconds now) const {
  const Seconds passed = now - since_;
  const Seconds left = seconds() - passed;
  const Seconds of_step = passed / static_cast<double>(std::max<int64_t>(step - first_, 1));
  if (left < of_step / 2) {
    return {.save = true, .next = step + 1};
  }
  constexpr double kMost = 1 << 20;  // steps; a decision is made at least this often, even if steps take no time
  return {.save = false, .next = step + static_cast<int64_t>(std::clamp(left / of_step / 2, 1.0, kMost))};
}

void SaveInterval::took(Seconds cost, Seconds length) {
  cost_ = std::max(cost, kLeast);
  length_ = length;
}

std::string to_text(const SaveInterval::Look& look) { return fmt::format("{:d} {}", look.save, look.next); }

SaveInterval::Look look_of(const std::string& text) {
  SaveInterval::Look look;
  std::istringstream in(text);
  in >> look.save >> look.next;
  return look;
}

}  // namespace xrun::runtime
