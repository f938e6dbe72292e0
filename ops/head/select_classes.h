// Selects the classes that take part in a step: the targets of its rows, then classes of the targets' lists of nearest
// neighbours, then others drawn at random. Only labels, lists, seed and step determine them, so every shard, rank and
// micro-batch has the same ones. Time grows with the active classes, the rows and the entries of their lists, not with
// the number of classes (docs/internals/algorithms.md, "Active classes").
// Source: An et al., "Partial FC: Training 10 Million Identities on a Single Machine", ICCVW 2021; Song et al.,
// "Large-Scale Training System for 100-Million Classification at Alibaba", KDD 2020.
#pragma once

#include <cstdint>
#include <span>

#include "ops/head.h"

namespace xrun::ops {

// Selects the active classes of one shard. The head has shape.active of them, or all targets if these are more. Labels
// outside of 0..C-1 are ignored.
//   lists   [classes of the head][shape.neighbours], as KnnGraph writes them; entries outside of 0..C-1 are skipped.
//           The lists of the targets are read in turn, position by position, as long as there is space; each step
//           begins with another list. Null: no neighbours are selected.
//   memory  head_selection of the shape; holds the result, which HeadCounts::common compares with the selection of the
//           last step. REQUIRES: zeros before the first step, else its `common` is meaningless.
// With shape.log_q, the correction of a drawn class is -log(share), where share is the drawn part of its block's
// classes without targets and neighbours. That of targets and neighbours is 0.
// REQUIRES: labels of shape.step_rows rows.
ActiveClasses select_classes(const HeadShape& shape, std::span<const int32_t> labels, uint64_t seed, int64_t step,
                             std::byte* memory, Workers& workers, const int32_t* lists = nullptr);
// The last selection in `memory`.
ActiveClasses selected_classes(const HeadShape& shape, const std::byte* memory);

// The counts of the last selection in `memory`.
const HeadCounts& counts_of(const std::byte* memory);

// The number of class `label` of the head among the active classes of the shard, or -1.
int32_t number_of(const ActiveClasses& active, const HeadShape& shape, int32_t label);

// The number of classes in both of two ascending lists: a shard's selections of this step and of the last one.
int64_t count_common(std::span<const int32_t> left, std::span<const int32_t> right);

}  // namespace xrun::ops
