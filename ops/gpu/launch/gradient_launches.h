// Launches on gradients and losses between the operators of a step: zeros, sums of partials, checks of numbers, and the
// decision about the updates.
#pragma once

#include <span>

#include "graph/settings/specs.h"
#include "ops/gpu/launch/launch_list.h"
#include "ops/gpu/update/update_decision.h"
#include "ops/gpu/update/update_table.h"

namespace xrun::ops::gpu {

// Sets output 0, f32[n], to zeros.
GpuLaunch zeros_launch(GpuTarget target, int64_t n);

// Numbers the thread blocks of a table of entries: sets `first_block` in order and returns the number of all blocks.
template <class Entry>
int64_t number_blocks(std::span<Entry> entries) {
  int64_t blocks = 0;
  for (Entry& entry : entries) {
    entry.first_block = blocks;
    blocks += pieces_of(entry.elements, kUpdateElements);
  }
  return blocks;
}

// Computes the sums of a table of FoldEntry, whose address is input 0, each in the order of a binary tree over its
// terms. REQUIRES: number_blocks has returned `blocks` > 0.
GpuLaunch fold_launch(GpuTarget target, int64_t entries, int64_t blocks);

// Sets bit 0 of the flag word, and that of the word at the address `own`, if a number of input 0 is not finite.
// REQUIRES: `dtype` is f32 or bf16.
GpuLaunch finite_launch(GpuTarget target, DType dtype, int64_t n, const GpuArgument& own = null_address());

// Sets output 0, f64[ceil(n / part)], to the sums of squares of every `part` elements of input 0, f32[n].
GpuLaunch squares_launch(GpuTarget target, int64_t n, int64_t part);

// Sets output 0, a GpuDecision, from the sums of squares of all gradients. Inputs: the sums in the order of
// graph/layouts/norm_layout.h, and their `parts`, a table of GradientPart. Sets bits of the flag word if gradients are
// not finite. Without parts, the decision is that of a step without clipping; it then only holds updates back if the
// flag word is not 0.
GpuLaunch decide_launch(GpuTarget target, const TrainSpec& train, int64_t parts);

}  // namespace xrun::ops::gpu
