// Watches the share of the softmax that belongs to the active classes (ActiveReport::mass), and warns once if it stays
// small: then classes that matter for the loss are not among the active classes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/settings/specs.h"
#include "runtime/train/events/run_events.h"
#include "runtime/train/events/step_events.h"

namespace xrun::runtime {

// Threads: one.
class MassWatch {
 public:
  // `steps`: number of steps of the whole run.
  MassWatch(const ActiveSpec& active, int64_t steps) : active_(active), steps_(steps) {}

  // Whether measurements can still lead to a warning.
  bool looks() const { return active_.kind != ActiveSpec::kAll && !told_; }
  // Adds the reports of the heads in a step; the first step is 1. Returns the warning (XG0847) when the share of a head
  // has been below a half in several consecutive measurements that span a part of the run.
  std::optional<WarnEvent> add(int64_t step, const std::vector<ActiveReport>& heads);

 private:
  // Consecutive measurements of a head that were below a half.
  struct Low {
    int count = 0;
    int64_t first_step = 0;
  };

  ActiveSpec active_;
  int64_t steps_;
  bool told_ = false;
  std::map<std::string, Low> low_;  // key: head
};

}  // namespace xrun::runtime
