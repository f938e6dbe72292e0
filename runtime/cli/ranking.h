// Finds the logits that rank the classes of a model, and the input that holds the class of a sample.
#pragma once

#include <string>

#include "runtime/cli/planned.h"
#include "runtime/train/best_classes.h"

namespace xrun::cli {

struct Ranking {
  runtime::ClassScores from;
  int64_t most = 0;     // classes of a row that can be named: 5, or the larger k of a metric
  int64_t classes = 0;  // of the model
};

// The logits that the loss reads: those of the first sharded head, or dense ones that are an output. Errors: XG0903 the
// loss is not over classes, or its logits are not an output.
Result<Ranking> find_ranking(const PlannedModel& planned);

// The input with the targets of the loss, else the first input that holds classes; empty: none.
std::string label_input(const Module& checked);

// Class names of training by number; a class without a name is its number.
struct ClassNames {
  std::vector<std::string> names;
  std::string of(int64_t index) const {
    return index >= 0 && index < std::ssize(names) ? names[static_cast<size_t>(index)] : std::to_string(index);
  }
};

}  // namespace xrun::cli
