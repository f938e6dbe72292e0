// The classes that take part in a step: the targets of its rows, then classes of the targets' lists of nearest
// neighbours, then others drawn at random. They follow from labels, lists, seed and step alone, so that every shard,
// rank and micro-batch has the same ones. Time grows with the active classes, the rows and the entries of their lists,
// not with the classes (docs/algorithms.md, "Active classes").
// Source: An et al., "Partial FC: Training 10 Million Identities on a Single Machine", ICCVW 2021; Song et al.,
// "Large-Scale Training System for 100-Million Classification at Alibaba", KDD 2020.
#pragma once

#include <cstdint>
#include <span>

#include "ops/head.h"

namespace xrun::ops {

// Selects for one shard: shape.active classes of the head, or all targets where these are more. Targets outside of
// 0..C-1 are of no class.
//   lists   [classes of the head][shape.neighbours], as KnnGraph writes them; entries outside of 0..C-1 are of no
//           class. The lists of the targets are read position by position, in each step from another list on, as long
//           as there is room. Null: none join.
//   memory  head_selection of the shape; the result lies in it, and what the last step selected there is compared with
//           it. REQUIRES: zeros before the first step, or its `common` counts nothing in particular.
// With shape.log_q, a drawn class is corrected by -log of the share of its block's classes, chosen ones left out, that
// were drawn, and a chosen one by 0.
// REQUIRES: labels of shape.step_rows rows.
ActiveClasses select_classes(const HeadShape& shape, std::span<const int32_t> labels, uint64_t seed, int64_t step,
                             std::byte* memory, Workers& workers, const int32_t* lists = nullptr);
// What was selected there last.
ActiveClasses selected_classes(const HeadShape& shape, const std::byte* memory);

// Of a selection of any shard.
const HeadCounts& counts_of(const std::byte* memory);

// Of a class of the head: its number among the active ones of the shard, or -1.
int32_t number_of(const ActiveClasses& active, const HeadShape& shape, int32_t label);

// How many classes two selections of a shard have in common: of this step and of the last one. Both ascend.
int64_t count_common(std::span<const int32_t> left, std::span<const int32_t> right);

}  // namespace xrun::ops
