// The stages of a data binding that take columns of a table, replace their numbers or make class numbers, with the
// signature of AugmentStep::run.
#pragma once

#include "graph/base/result.h"
#include "runtime/data/augment/augment.h"

namespace xrun::runtime {

Status run_columns(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key);
Status run_column(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key);
Status run_fill_missing(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key);
Status run_standardize(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key);
Status run_as_class(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key);
Status run_as_index(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key);

}  // namespace xrun::runtime
