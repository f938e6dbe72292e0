// NormProgram: the numbers of an update that depend on norms of tensors, as data from which a GPU computes them
// (ops/gpu/update/tensor_norms.cu).
#pragma once

#include <cstddef>
#include <vector>

#include "graph/settings/update_rule.h"
#include "ops/gpu/launch/launch_list.h"
#include "ops/gpu/update/update_table.h"

namespace xrun::ops::gpu {

class NormProgram {
 public:
  NormProgram() = default;
  explicit NormProgram(const UpdateRule& rule);

  // The program, which the caller copies to memory of the device.
  const std::vector<std::byte>& bytes() const { return bytes_; }
  // Size of NormEntry::norms for one tensor. REQUIRES: this memory is zeros before the first launch.
  Bytes value_bytes() const { return (norms_ + nodes_) * 8; }
  // Offset of NormEntry::results in the UpdateScalars of the tensor.
  Bytes result_offset() const { return result_offset_; }

  // The launch after the sums of squares of a level: sets the norms of the level, and then all numbers that depend on
  // norms, for each of `entries` tensors. Inputs: a table of NormEntry, and the bytes of the program. REQUIRES:
  // entries > 0.
  GpuLaunch launch(GpuTarget target, int level, int64_t entries) const;

 private:
  std::vector<std::byte> bytes_;   // nodes, indices of the results, and for each level indices of its norms
  std::vector<int64_t> level_at_;  // offset of the indices of a level, and the end
  int64_t norms_ = 0;
  int64_t nodes_ = 0;
  int64_t results_ = 0;
  Bytes result_offset_ = 0;
};

}  // namespace xrun::ops::gpu
