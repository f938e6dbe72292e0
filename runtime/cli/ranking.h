// Which logits name the classes of a model, and which input holds the class of a sample.
#pragma once

#include <string>

#include "runtime/cli/planned.h"
#include "runtime/train/best_classes.h"

namespace xrun::cli {

struct Ranking {
  runtime::ClassScores from;
  int64_t most = 0;     // classes of a row that can be named: 5, or the k of a metric
  int64_t classes = 0;  // of the model
};

// The logits that the loss reads: of the first sharded head, or dense ones that are an output. Errors: XG0903 the loss
// compares with no classes, or its logits are no output.
Result<Ranking> find_ranking(const PlannedModel& planned);

// The input that the loss compares with, else the first that takes classes; empty without one.
std::string label_input(const Module& checked);

// Class names of training by number; a class without a name is its number.
struct ClassNames {
  std::vector<std::string> names;
  std::string of(int64_t index) const {
    return index >= 0 && index < std::ssize(names) ? names[static_cast<size_t>(index)] : std::to_string(index);
  }
};

}  // namespace xrun::cli
