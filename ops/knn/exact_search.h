// The second search for classes whose candidates did not fit into their lists: it compares them with all classes in
// f32.
#pragma once

#include <cstdint>

#include "graph/layouts/knn_layout.h"
#include "ops/head/loops/kernels.h"
#include "ops/knn/candidates.h"
#include "ops/knn/rows.h"
#include "ops/knn/scan.h"

namespace xrun::ops {

// The working memory of a worker; KnnLayout gives the sizes.
struct KnnSlice {
  float* tile;
  int32_t* hits;
  float* direction;
  KnnRounding* rounding;
  uint32_t* left;
  uint32_t* right;
};

// Multiplies one panel of classes by `panels` panels. The scores are z[32][stride].
inline void knn_multiply(const HeadKernels& kernels, const uint32_t* left, const uint32_t* right, int64_t panels,
                         int64_t steps, int64_t stride, float* z) {
  kernels.gemm({.m = kKnnPanel,
                .panels = panels,
                .k = steps,
                .a = left,
                .a_m = 1,
                .a_k = kKnnPanel,
                .b = right,
                .b_panel = steps * kKnnPanel,
                .c = z,
                .c_m = stride});
}

struct KnnExactSearch {
  // Finds the exact neighbours of `count` classes, at most kKnnAgain, and writes them to their lists in `exact`.
  void search(const int32_t* classes, int64_t count, KnnCandidates exact, const KnnSlice& s) const;

  const KnnLayout& at;
  int64_t all_classes = 0;
  const HeadKernels& kernels;  // with products in f32
  KnnScan scan = nullptr;
  const KnnRows& rows;
  const float* no_limits = nullptr;  // [a block]: infinity
};

}  // namespace xrun::ops
