// Copies from global to shared memory that run while a kernel computes (cp.async). Only nvcc reads this header.
#pragma once

#include <cstdint>

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

// Runs a block over `k` terms, kDepth at a time, with two stages in shared memory: copy(term, stage) begins the copies
// of the terms from `term` on into a stage, and add(stage) reads them. The next stage is copied while one is read.
template <int kDepth, class Copy, class Add>
__device__ void for_each_stage(int64_t k, const Copy& copy, const Add& add) {
  if (k > 0) {
    copy(int64_t{0}, 0);
    commit_copies();
  }
  int stage = 0;
#pragma unroll 1
  for (int64_t term = 0; term < k; term += kDepth, stage ^= 1) {
    if (term + kDepth < k) {
      copy(term + kDepth, stage ^ 1);
      commit_copies();
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    __syncthreads();
    add(stage);
    __syncthreads();
  }
}

}  // namespace xrun::ops
