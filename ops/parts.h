// Divides kernel calls into parts: computes which outputs belong to a part (docs/internals/determinism.md, "Parts of a
// row block").
#pragma once

#include <algorithm>

#include "ops/op.h"

namespace xrun::ops {

struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

// Divides `units` units of work among the parts of a call and returns the units of this part. A whole call gets all
// units.
inline Range part_of(const KernelCall& call, int64_t units) {
  return {units * call.part / call.parts, units * (call.part + 1) / call.parts};
}

// Like part_of above, for `elements` elements that are divided at multiples of `run`.
inline int64_t runs_of(int64_t elements, int64_t run) { return (elements + run - 1) / run; }
inline Range part_of(const KernelCall& call, int64_t elements, int64_t run) {
  const Range runs = part_of(call, runs_of(elements, run));
  return {runs.begin * run, std::min(runs.end * run, elements)};
}

// Element-wise kernels are divided into parts at multiples of this many elements, which are whole cache lines of f32
// and of bf16.
inline constexpr int64_t kElementRun = 64;

}  // namespace xrun::ops
