// The classes that take part in a step: the targets of its rows, and others drawn at random until each class block has
// its quota. They follow from labels, seed and step alone, so that every shard, rank and micro-batch has the same ones.
// Time and memory grow with the active classes and the rows, not with the classes (docs/algorithms.md, "Active
// classes").
// Source: An et al., "Partial FC: Training 10 Million Identities on a Single Machine", ICCVW 2021.
#pragma once

#include <cstdint>
#include <span>

#include "ops/head.h"

namespace xrun::ops {

// Selects for one shard: shape.active classes of the head, of which each block has a share in proportion to its
// classes, but never fewer than the targets in it. Targets outside of 0..C-1 are of no class. `memory`:
// head_selection of the shape; the result lies in it. REQUIRES: labels of shape.step_rows rows.
ActiveClasses select_classes(const HeadShape& shape, std::span<const int32_t> labels, uint64_t seed, int64_t step,
                             std::byte* memory, Workers& workers);
// What was selected there last.
ActiveClasses selected_classes(const HeadShape& shape, const std::byte* memory);

// Of a selection of any shard.
const HeadCounts& counts_of(const std::byte* memory);

// Of a class of the head: its number among the active ones of the shard, or -1.
int32_t number_of(const ActiveClasses& active, const HeadShape& shape, int32_t label);

}  // namespace xrun::ops
