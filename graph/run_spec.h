// What a run does beside its steps: where it begins, when it saves and what it keeps, when it ends early. No plan
// depends on it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/moved.h"
#include "graph/specs.h"

namespace xrun {

// `best = highest(yen, 3)`: the steps whose evaluation gave the best values are kept beside the last ones.
struct BestSpec {
  std::string metric;  // a key of an evaluation
  bool highest = true;
  int64_t keep = 1;
  Span span;
};

// `stop_when = plateau(yen, 3 epochs)` or `yen >= 99%`: looked at after each evaluation.
struct StopSpec {
  enum Test { kPlateau, kLess, kLessEqual, kGreater, kGreaterEqual };
  std::string metric;  // a key of an evaluation
  Test test = kPlateau;
  TrainSpan length;  // of a plateau: as long without a new best
  double limit = 0;  // of a comparison
  std::string text;  // as it was written
  Span span;
};

// `checkpoint.every = auto(mtbf=24h)`: saves as far apart as costs least (runtime/train/save_interval.h).
struct AutoSave {
  double mtbf = 0;  // mean seconds between two failures of what the run stands on
  Span span;
};

struct RunSpec {
  // Of `init = checkpoint(path, skip=[...])`, whose path is TrainSpec::init_checkpoint: parts that start from the seed
  // all the same, by prefix.
  std::vector<std::string> init_skip;
  Span init_span;
  std::optional<AutoSave> auto_save;  // instead of TrainSpec::checkpoint_every
  std::optional<BestSpec> best;
  std::string copy;  // `checkpoint.copy`: where each host keeps second copies of checkpoints; empty: nowhere
  Span copy_span;
  std::optional<StopSpec> stop_when;
  std::vector<Moved> moved;  // names that the checkpoints of earlier texts have
};

}  // namespace xrun
