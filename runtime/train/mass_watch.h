// Watches the share of the softmax that the active classes of a run have, and warns once where it stays small.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/specs.h"
#include "runtime/train/events.h"

namespace xrun::runtime {

// One thread.
class MassWatch {
 public:
  // `steps`: of the whole run.
  MassWatch(const ActiveSpec& active, int64_t steps) : active_(active), steps_(steps) {}

  // Whether measurements can still lead to a warning.
  bool looks() const { return active_.kind != ActiveSpec::kAll && !told_; }
  // The active classes of the heads in a step; the first step is 1. Gives the warning (XG0847) when the share of a head
  // has stayed below a half: in several measurements that follow one another, over a part of the run.
  std::optional<WarnEvent> add(int64_t step, const std::vector<ActiveReport>& heads);

 private:
  // Measurements below a half that follow one another.
  struct Low {
    int count = 0;
    int64_t first_step = 0;
  };

  ActiveSpec active_;
  int64_t steps_;
  bool told_ = false;
  std::map<std::string, Low> low_;  // by head
};

}  // namespace xrun::runtime
