// Parts of a kernel call: the outputs that each part computes (docs/internals/determinism.md, "Parts of a row block").
#pragma once

#include <algorithm>

#include "ops/op.h"

namespace xrun::ops {

struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

// The units of work, out of `units`, for the call's part; all of them if the call is whole.
inline Range part_of(const KernelCall& call, int64_t units) {
  return {units * call.part / call.parts, units * (call.part + 1) / call.parts};
}

// Like part_of, for `elements` that are divided between runs of `run`.
inline int64_t runs_of(int64_t elements, int64_t run) { return (elements + run - 1) / run; }
inline Range part_of(const KernelCall& call, int64_t elements, int64_t run) {
  const Range runs = part_of(call, runs_of(elements, run));
  return {runs.begin * run, std::min(runs.end * run, elements)};
}

// Elementwise kernels are divided between runs of this many elements, which are whole cache lines of f32 and of bf16.
inline constexpr int64_t kElementRun = 64;

}  // namespace xrun::ops
