// Finds the logits that rank the classes of a model, and the input that holds the class of a sample.
#pragma once

#include <string>

#include "runtime/cli/planned.h"
#include "runtime/train/best_classes.h"

namespace xrun::cli {

struct Ranking {
  std::string name;   // name of the head, or of the output that is its logits
  std::string label;  // the input with its targets; empty: they are computed
  runtime::ClassScores from;
  int64_t most = 0;  // the most classes of a row that can be named: 5, or the largest k of a metric if that is larger
  int64_t classes = 0;  // number of classes of the model
};

// The logits that losses read, in the order of the losses: those of sharded heads, and dense ones that are an output.
// The result is not empty. Errors: XG0903 no loss is over classes, or the logits of the first one are not an output.
Result<std::vector<Ranking>> find_rankings(const PlannedModel& planned);

// The input with the targets of the first loss, else the first input that holds classes; empty: no such input.
std::string label_input(const Module& checked);

// The class names of one input by number; a class without a name is its number.
struct ClassNames {
  std::vector<std::string> names;
  std::string of(int64_t index) const {
    return index >= 0 && index < std::ssize(names) ? names[static_cast<size_t>(index)] : std::to_string(index);
  }
};

}  // namespace xrun::cli
