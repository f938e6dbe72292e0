// The classes of predicted rows, as lines of text or of JSON.
#pragma once

#include <string>

#include "runtime/cli/ranking.h"
#include "runtime/cli/subject.h"
#include "runtime/train/best_classes.h"

namespace xrun::cli {

// A line for each row with its k best classes; `scores`: "probabilities" or "logits". A broken row has a line only in
// JSON.
std::string class_lines(const Subject& subject, const runtime::BestClasses& best, const ClassNames& names, int64_t k,
                        const std::string& scores, bool json);

}  // namespace xrun::cli
