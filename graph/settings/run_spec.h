// Settings of a run outside its steps: where it begins, when it saves and which checkpoints it keeps, when it ends
// early. Plans depend on none of them but on the figures of the cluster.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/settings/calibration.h"
#include "graph/settings/moved.h"
#include "graph/settings/specs.h"

namespace xrun {

// `best = highest(yen, 3)`: the checkpoints with the best evaluation values are kept in addition to the last ones.
struct BestSpec {
  std::string metric;  // a key of an evaluation
  bool highest = true;
  int64_t keep = 1;
  Span span;
};

// `stop_when = plateau(yen, 3 epochs)` or `yen >= 99%`: checked after each evaluation.
struct StopSpec {
  enum Test { kPlateau, kLess, kLessEqual, kGreater, kGreaterEqual };
  std::string metric;  // a key of an evaluation
  Test test = kPlateau;
  TrainSpan length;  // kPlateau: the time without a new best value
  double limit = 0;  // comparisons: the threshold
  std::string text;  // the text of the setting
  Span span;
};

// `checkpoint.every = auto(mtbf=24h)`: saves at the interval of least cost (runtime/train/save_interval.h).
struct AutoSave {
  double mtbf = 0;  // mean seconds between two failures of the run's hardware
  Span span;
};

struct RunSpec {
  // The list `skip` of the setting `init = checkpoint(path, skip=[...])`: prefixes of the parts that are nevertheless
  // initialised from the seed. The path is TrainSpec::init_checkpoint.
  std::vector<std::string> init_skip;
  Span init_span;
  std::optional<AutoSave> auto_save;  // instead of TrainSpec::checkpoint_every
  std::optional<BestSpec> best;
  std::string copy;  // `checkpoint.copy`: where each host keeps second copies of checkpoints; empty: no copies
  Span copy_span;
  std::optional<StopSpec> stop_when;
  std::vector<Moved> moved;  // names that tensors had in earlier texts and their checkpoints
  ClusterFigures figures;
};

}  // namespace xrun
