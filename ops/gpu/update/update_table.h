// The tables from which one launch updates, or sums the gradients of, all tensors of a device
// (ops/gpu/update/update_table.cu, ops/gpu/update/fold_table.cu), and the table of the norms of tensors
// (ops/gpu/update/tensor_norms.cu).
#pragma once

#include <cstdint>

namespace xrun::ops::gpu {

inline constexpr int64_t kUpdateThreads = 256;
inline constexpr int64_t kUpdateElements = 1024;  // elements of a thread block

// One tensor. Addresses are those of the device; states that a rule does not have are 0.
struct UpdateEntry {
  uint64_t weight = 0;  // f32
  uint64_t gradient = 0;
  uint64_t states[2] = {};
  uint64_t mean = 0;     // running mean of the weight; 0 if none is kept
  uint64_t scalars = 0;  // KnownScalars of the tensor (ops/optimizer/update_scalars.h)
  uint64_t touched = 0;  // f32 for each row: 0 if the row is not updated; 0: all rows are updated
  int64_t row = 1;       // numbers in a row
  int64_t elements = 0;
  int64_t first_block = 0;  // index of the first thread block of the tensor: the sum of those of the entries before
  float take = 0;           // step of the running mean, 1 - ema
  float unused = 0;
};

// A sum of tensors of f32. One launch adds up to kFoldTerms of them.
inline constexpr int kFoldTerms = 16;
struct FoldEntry {
  uint64_t terms[kFoldTerms] = {};
  uint64_t sum = 0;   // may be the memory of a term
  int64_t count = 0;  // number of terms
  int64_t elements = 0;
  int64_t first_block = 0;  // like that of UpdateEntry
};

// The norms of one tensor that an update reads. Sums of squares of the norms of a level, f64, follow one another
// `stride` bytes apart.
struct NormEntry {
  uint64_t squares = 0;
  uint64_t norms = 0;    // f64 for each norm of the rule, then one for each node of the program: working memory
  uint64_t results = 0;  // f32 for each result of the program
  int64_t stride = 0;
  int64_t pieces = 0;  // number of sums of a norm
};

#ifdef __CUDACC__
// The entry of a thread block in a table in ascending order of `first_block`.
template <class Entry>
__device__ const Entry& entry_of_block(const Entry* entries, int64_t count) {
  int64_t at = 0, end = count;
  while (end - at > 1) {
    const int64_t middle = at + (end - at) / 2;
    if (entries[middle].first_block <= static_cast<int64_t>(blockIdx.x)) {
      at = middle;
    } else {
      end = middle;
    }
  }
  return entries[at];
}
#endif

}  // namespace xrun::ops::gpu
