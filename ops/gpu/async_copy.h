// Copies from global to shared memory that run while a kernel computes (cp.async). Only nvcc reads this header.
#pragma once

#include "ops/simd/lane_math.h"

namespace xrun::ops {

__device__ inline uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// Copies 4 bytes, or writes zeros if the element does not exist. `from` must be an address of the matrix also then.
__device__ inline void copy_async_4(void* to, const void* from, bool exists) {
  const uint32_t read = exists ? 4 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)),
               "l"(__cvta_generic_to_global(from)), "r"(read)
               : "memory");
}

// Likewise 16 bytes, of which the first `read` exist. Both addresses are multiples of 16.
__device__ inline void copy_async_16(void* to, const void* from, uint32_t read) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
               "l"(__cvta_generic_to_global(from)), "r"(read)
               : "memory");
}

// Ends a group of copies.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until all groups of this thread but the last kLater have arrived. A barrier must follow before other threads
// read them.
template <int kLater>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLater) : "memory");
}

// Runs a block over the terms from `begin` to `end` - 1, kDepth at a time, with two stages in shared memory: copy(term,
// stage) begins the copies of the terms from `term` on into a stage, and add(stage, term) reads them. The next stage is
// copied while one is read.
template <int kDepth, class Index, class Copy, class Add>
__device__ void for_each_stage(Index begin, Index end, const Copy& copy, const Add& add) {
  int stage = 1;
#pragma unroll 1
  for (Index term = begin - kDepth; term < end; term += kDepth, stage ^= 1) {
    const bool more = term + kDepth < end;
    if (more) {
      copy(term + kDepth, stage ^ 1);
      commit_copies();
    }
    if (term < begin) {
      continue;
    }
    if (more) {
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    __syncthreads();
    add(stage, term);
    __syncthreads();
  }
}

// An operand is read by rows, whose columns are contiguous in memory: row(i) and column(i) describe a row and a column,
// and at(row, column) is the address of an element, or null if the element is zero. Both descriptions also exist beyond
// the operand, where at() is null. The terms of a product are columns of the operand, or rows (kTermsInRows).
//
// The copies of an operand to the stages of a tile, for the places from `first` on. The thread's own places are
// described once.
template <class Tile, bool kTermsInRows, class Operand>
class StageCopies {
 public:
  using Stage = typename Tile::template Stage<kTermsInRows>;

  __device__ StageCopies(const Operand& operand, int64_t first)
      : operand_(operand), first_(first), chunks_(kChunk == 1 || operand.has_chunks(kChunk)) {
    if constexpr (kTermsInRows) {
      column_ = operand.column(first + own_column());
    } else {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        rows_[i] = operand.row(first + own_row(i));
      }
    }
  }

  // Begins the copies of the terms from `term` on.
  __device__ void copy(Stage& stage, int64_t term) const {
    if (!chunks_) {
      copy_elements(stage, term);
      return;
    }
    typename Operand::Column column = column_;
    if constexpr (!kTermsInRows) {
      column = operand_.column(term + own_column());
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const auto* const from = operand_.at(kTermsInRows ? operand_.row(term + own_row(i)) : rows_[i], column);
      Tile::copy(stage.at(own_row(i), own_column()), from != nullptr ? from : operand_.any(), from != nullptr);
    }
  }

 private:
  static constexpr int kChunk = Tile::kChunk;
  static constexpr int kRows = kTermsInRows ? Tile::kDepth : Tile::kTile;
  static constexpr int kChunks = (kTermsInRows ? Tile::kTile : Tile::kDepth) / kChunk;
  static constexpr int kStep = Tile::kThreads / kChunks;  // rows that all threads copy at once
  static constexpr int kEach = kRows / kStep;             // copies of a thread

  __device__ static int own_row(int i) { return static_cast<int>(threadIdx.x) / kChunks + i * kStep; }
  __device__ static int own_column() { return static_cast<int>(threadIdx.x) % kChunks * kChunk; }

  // Copies one element at a time, since chunks do not begin at multiples of 16 bytes.
  __device__ void copy_elements(Stage& stage, int64_t term) const {
    if constexpr (kChunk > 1) {
#pragma unroll 1
      for (int i = 0; i < kEach * kChunk; ++i) {
        const int r = own_row(i / kChunk), c = own_column() + i % kChunk;
        const auto* const from = operand_.at(operand_.row((kTermsInRows ? term : first_) + r),
                                             operand_.column((kTermsInRows ? first_ : term) + c));
        assign(*stage.at(r, c), from != nullptr ? to_float(*from) : 0.0F);
      }
    }
  }

  const Operand operand_;
  int64_t first_;
  bool chunks_;
  typename Operand::Row rows_[kTermsInRows ? 1 : kEach];
  typename Operand::Column column_;
};

}  // namespace xrun::ops
