// Selects the classes that take part in a step: first the targets of its rows, then classes from the targets' lists of
// nearest neighbours, then classes drawn at random. The selection depends only on labels, lists, seed and step, so it
// is equal on every shard, on every rank and in every micro-batch. The time grows with the number of active classes,
// rows and entries of lists, not with the number of classes (docs/internals/algorithms.md, "Active classes").
// Source: An et al., "Partial FC: Training 10 Million Identities on a Single Machine", ICCVW 2021; Song et al.,
// "Large-Scale Training System for 100-Million Classification at Alibaba", KDD 2020.
#pragma once

#include <cstdint>
#include <span>

#include "ops/head/head.h"

namespace xrun::ops {

// Selects the active classes of one shard. The whole head has shape.active active classes, or as many as there are
// targets if these are more. Labels outside of 0..C-1 are ignored.
//   lists   [classes of the head][shape.neighbours], as KnnGraph writes them; entries outside of 0..C-1 are skipped.
//           First the first entries of all targets' lists are selected, then all second entries, and so on, until
//           shape.active is reached; each step starts with another list. Null: no neighbours are selected.
//   memory  head_selection of the shape; holds the result. HeadCounts::common compares it with the selection of the
//           previous step. REQUIRES: zeros before the first step, else `common` of that step is meaningless.
// With shape.log_q, the correction of a drawn class is -log(share), where share is the fraction of its block's classes
// without targets and neighbours that was drawn. The correction of targets and neighbours is 0. REQUIRES: labels of
// shape.step_rows rows.
ActiveClasses select_classes(const HeadShape& shape, std::span<const int32_t> labels, uint64_t seed, int64_t step,
                             std::byte* memory, Workers& workers, const int32_t* lists = nullptr);
// Returns the last selection in `memory`.
ActiveClasses selected_classes(const HeadShape& shape, const std::byte* memory);

// Returns the counts of the last selection in `memory`.
const HeadCounts& counts_of(const std::byte* memory);

// Returns the number of the class `label` of the head among the active classes of the shard, or -1.
int32_t number_of(const ActiveClasses& active, const HeadShape& shape, int32_t label);

// Counts the classes that are in both of two ascending lists: the selections of a shard in this step and in the
// previous step.
int64_t count_common(std::span<const int32_t> left, std::span<const int32_t> right);

}  // namespace xrun::ops
