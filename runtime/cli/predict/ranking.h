// Finds the logits by which the classes of a model are ranked, and the input that holds the class of a sample.
#pragma once

#include <string>

#include "runtime/cli/model/planned.h"
#include "runtime/train/evaluation/best_classes.h"

namespace xrun::cli {

struct Ranking {
  std::string name;   // name of the head, or of the output that is its logits
  std::string label;  // the input with the true classes
  runtime::ClassScores from;
  int64_t most = 0;     // most classes to show for a row: 5, or the largest k of a metric if that is larger
  int64_t classes = 0;  // number of classes of the model
};

// Finds the logits that losses read, in the order of the losses: logits of sharded heads, and dense logits that are an
// output. The result is not empty. Errors: XG0903 no loss is over classes, or the logits of the first loss are not an
// output.
Result<std::vector<Ranking>> find_rankings(const PlannedModel& planned);

// The input with the true classes of the first loss; otherwise the first input that holds classes; empty: no such
// input.
std::string label_input(const Module& checked);

// The names of the classes of one input, by number. A class without a name is shown by its number.
struct ClassNames {
  std::vector<std::string> names;
  std::string of(int64_t index) const {
    return index >= 0 && index < std::ssize(names) ? names[static_cast<size_t>(index)] : std::to_string(index);
  }
};

}  // namespace xrun::cli
