// The predicted classes of rows, according to one head or one output of logits, as lines of text or of JSON.
#pragma once

#include <string>
#include <vector>

#include "runtime/cli/predict/ranking.h"
#include "runtime/cli/predict/subject.h"
#include "runtime/train/evaluation/best_classes.h"

namespace xrun::cli {

// The best classes of all rows, according to one ranking of the model.
struct RankedClasses {
  std::string ranking;  // Ranking::name
  ClassNames names;
  runtime::BestClasses best;
  int64_t k = 0;  // number of classes to show for a row, at most best.k
};

// Returns a line for each pair of a row and an element of `ranked`. A line names the ranking if there are several.
// `scores`: "probabilities" or "logits". A broken row has a line only in JSON.
std::string class_lines(const Subject& subject, const std::vector<RankedClasses>& ranked, const std::string& scores,
                        bool json);

}  // namespace xrun::cli
