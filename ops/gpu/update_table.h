// The table from which one launch updates all tensors of a device (ops/gpu/update_table.cu).
#pragma once

#include <cstdint>

namespace xrun::ops::gpu {

// One tensor. Addresses are those of the device; states that a rule does not have are 0.
struct UpdateEntry {
  uint64_t weight = 0;  // f32
  uint64_t gradient = 0;
  uint64_t states[2] = {};
  uint64_t mean = 0;     // running mean of the weight; 0 if none is kept
  uint64_t scalars = 0;  // KnownScalars of the tensor's group (ops/optimizer/update_scalars.h)
  int64_t elements = 0;
  int64_t first_block = 0;  // index of the first thread block of the tensor: the sum of those of the entries before
  float take = 0;           // step of the running mean, 1 - ema
  float unused = 0;
};

inline constexpr int64_t kUpdateThreads = 256;
inline constexpr int64_t kUpdateElements = 1024;  // elements of a thread block

}  // namespace xrun::ops::gpu
