// All that a run has learned, by name: weights, running statistics and optimizer states, by the buffers that hold
// them. What checkpoints save, what the digest is taken over. A rank of several has the rows of its devices.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/group_rules.h"
#include "graph/module.h"
#include "graph/moved.h"
#include "planner/program.h"
#include "runtime/device/bound_memory.h"
#include "runtime/device/device.h"
#include "runtime/device/mapped_rows.h"
#include "runtime/train/state_tensor.h"

namespace xrun::ops {
class IdleSteps;  // ops/head/catch_up.h
}

namespace xrun::runtime {

// Class rows of a head that are to lie in a file: HeadPlan::mapped.
struct MappedHead {
  size_t head = 0;    // in Program::heads
  std::string name;   // of the head
  RowsLayout layout;  // what the program needs of them
};

// The digest of a fixed range of rows. Ranges are counted over all trained weights in name order: of a head's tensors
// each class block is one, every other tensor is one as a whole.
struct RangeDigest {
  int64_t range = 0;
  std::string digest;  // XXH3-128 over its bytes, 32 hex digits
  bool operator==(const RangeDigest&) const = default;
};

// The digest of all trained weights: XXH3-128 over the digests of all ranges in order. `ranges` may come from several
// ranks, in any order and more than once.
std::string digest_of(std::vector<RangeDigest> ranges);

// Threads: between steps only, one thread.
class TrainState {
 public:
  // All outlive the state; `memory` is of `program` on `devices`.
  TrainState(const Module& module, const planner::Program& program, const BoundMemory& memory,
             const DeviceSet& devices);

  // First values of weights and states from the seed (docs/internals/determinism.md, "Random numbers"), class weights
  // rounded to the nearest of their format; optimizer states have the value that the optimizer gives. Of the tensors
  // that `wanted` takes, where it is given: what a checkpoint fills needs none. Tasks of a device make what lies in its
  // memory, so that its pages are touched first on its own NUMA node. `moved`: a renamed tensor gets the values of its
  // first name.
  void initialise(uint64_t seed, const std::function<bool(const StateTensor&)>& wanted = {},
                  std::span<const Moved> moved = {});

  // Lets the running means of weights begin with the weights.
  void begin_means();

  const std::vector<StateTensor>& tensors() const { return tensors_; }  // in name order
  const StateTensor* find(std::string_view name) const;
  // REQUIRES: a tensor of this state.
  void keep(const StateTensor& tensor, bool kept) {
    tensors_[static_cast<size_t>(&tensor - tensors_.data())].kept = kept;
  }
  // The weight or state of the model that it is, or that the optimizer keeps it for.
  const Parameter& parameter(const StateTensor& tensor) const { return module_.graph.param(tensor.param); }

  const Graph& graph() const { return module_.graph; }

  // Whether this process has any of these rows.
  bool has_rows(const StateTensor& tensor, int64_t row_begin, int64_t row_end) const;
  // Whether a step changes only some rows of the tensors of this head: those of its active classes.
  bool changes_by_rows(std::string_view head) const;
  // Copies rows [row_begin, row_end) out of the first copy, or into all copies. After writing weights, the session
  // prepares them again (Session::weights_changed).
  void read_rows(const StateTensor& tensor, int64_t row_begin, int64_t row_end, std::byte* out) const;
  void write_rows(const StateTensor& tensor, int64_t row_begin, int64_t row_end, const std::byte* in);
  // The same as f32, whatever the format of the tensor, [rows, row_elements()]. Values are rounded to the nearest of a
  // narrow format, and scales of fp8 rows are written with them.
  void read_values(const StateTensor& tensor, int64_t row_begin, int64_t row_end, float* out) const;
  void write_values(const StateTensor& tensor, int64_t row_begin, int64_t row_end, const float* in);
  // The same of weights as the next step would find them: rows that take no part in steps have caught up.
  void read_current(const StateTensor& tensor, int64_t row_begin, int64_t row_end, float* out) const;
  // Heads whose class rows are to lie in a file. Until they are mapped they lie in memory, which no plan counts.
  std::span<const MappedHead> mapped_heads() const { return mapped_; }
  // Maps the file over the buffers of these rows, whose values are then those of the file; of weights that are not
  // trained further, the running means, where it has any. REQUIRES: it has the
  // sections of head.layout, and may have more. Errors: kWorld.
  Status map_rows(const MappedHead& head, std::shared_ptr<MappedRows> rows);
  // Maps the files that `other` has mapped: both then have the same rows. Errors: as above.
  Status share_rows(const TrainState& other);
  // By head of the program; null: in memory.
  std::span<MappedRows* const> rows() const { return rows_; }
  // Whether a file holds the tensor.
  bool lies_in_file(const StateTensor& tensor) const { return rows_of(tensor) != nullptr; }
  // Whether a checkpoint has a copy of the tensor: the run needs it, and no file holds it already.
  bool is_saved(const StateTensor& tensor) const { return tensor.kept && !lies_in_file(tensor); }

  // By which rows catch up. REQUIRES: it outlives the state, and knows the steps that are done.
  void catch_up_by(const ops::IdleSteps* steps) { idle_ = steps; }
  // Copies weights and states of `other`, which may be laid out in another way, by name; optimizer states where both
  // have them, and no residuals. Weights that are not trained further are the running means of `other`, where it has
  // any.
  void copy_from(const TrainState& other);

  // Of the trained weights that this process has.
  std::vector<RangeDigest> range_digests() const;
  // Of all trained weights. Equal for every plan of a run. REQUIRES: they are all here.
  std::string weights_digest() const { return digest_of(range_digests()); }

 private:
  // Of a tensor with shifts.
  void read_shifts(const StateTensor& tensor, int64_t row_begin, int64_t row_end, float* out) const;
  bool catches_up(const StateTensor& tensor) const;
  bool rows_catch_up(ParamId param) const;
  const MappedRows* rows_of(const StateTensor& tensor) const;
  // Calls body(first row, rows) for rows [begin, end), as many at a time as the staging buffer holds.
  template <typename Body>
  void for_chunks(const StateTensor& tensor, int64_t begin, int64_t end, const Body& body) const;

  const Module& module_;
  const planner::Program& program_;
  const BoundMemory& memory_;
  const DeviceSet& devices_;
  std::vector<StateTensor> tensors_;
  std::vector<MappedHead> mapped_;
  std::vector<MappedRows*> rows_;                  // by head of the program
  std::vector<std::shared_ptr<MappedRows>> held_;  // the same, as far as there are any
  const ops::IdleSteps* idle_ = nullptr;
};

}  // namespace xrun::runtime
