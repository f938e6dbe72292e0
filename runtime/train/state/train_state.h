// All values that a run has learned, by name: weights, running statistics and optimizer states, with the buffers that
// contain them. Checkpoints save them; a digest identifies the weights. With several ranks, each rank has the rows of
// its own devices.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/module.h"
#include "graph/settings/group_rules.h"
#include "graph/settings/moved.h"
#include "planner/program/program.h"
#include "runtime/device/bound_memory.h"
#include "runtime/device/device.h"
#include "runtime/device/mapped_rows.h"
#include "runtime/train/state/loss_scale.h"
#include "runtime/train/state/state_tensor.h"

namespace xrun::ops {
class IdleSteps;  // ops/head/catch_up.h
}

namespace xrun::runtime {

// Class rows of a head that will be mapped from a file: HeadPlan::mapped.
struct MappedHead {
  size_t head = 0;    // index in Program::heads
  std::string name;   // name of the head
  RowsLayout layout;  // the sections that the program needs
};

// The digest of a range of rows. The ranges do not depend on the plan: each class block of a head's tensors is a range,
// and every other tensor is a single range. Ranges are numbered over all trained weights in name order.
struct RangeDigest {
  int64_t range = 0;
  std::string digest;  // XXH3-128 over the bytes of the range, 32 hex digits
  bool operator==(const RangeDigest&) const = default;
};

// Computes the digest of all trained weights: XXH3-128 over the digests of all ranges in order. `ranges` may come from
// several ranks, in any order and with repetitions.
std::string digest_of(std::vector<RangeDigest> ranges);

// Threads: one, between steps only.
class TrainState {
 public:
  // All arguments outlive the state; `memory` belongs to `program` on `devices`.
  TrainState(const Module& module, const planner::Program& program, const BoundMemory& memory,
             const DeviceSet& devices);

  // Sets the initial values of weights and states from the seed (docs/internals/determinism.md, "Random numbers").
  // Class weights are rounded to the nearest value of their format, and optimizer states get the initial value that the
  // optimizer defines. The memory of a device is filled by the device's own tasks, so that its pages are first accessed
  // on its NUMA node.
  //   wanted  sets only the tensors that it accepts, so that tensors that a checkpoint fills can be skipped; empty: all
  //   moved   renamings: a renamed tensor gets the values of its first name
  void initialise(uint64_t seed, const std::function<bool(const StateTensor&)>& wanted = {},
                  std::span<const Moved> moved = {});

  // Sets the running means of weights to the weights.
  void begin_means();

  const std::vector<StateTensor>& tensors() const { return tensors_; }  // in name order
  const StateTensor* find(std::string_view name) const;
  // Sets StateTensor::kept. REQUIRES: the tensor belongs to this state.
  void keep(const StateTensor& tensor, bool kept) {
    tensors_[static_cast<size_t>(&tensor - tensors_.data())].kept = kept;
  }
  // The weight or state of the model that the tensor is; for an optimizer state, the weight that it belongs to.
  const Parameter& parameter(const StateTensor& tensor) const { return module_.graph.param(tensor.param); }

  const Graph& graph() const { return module_.graph; }

  // Whether this process has some of these rows.
  bool has_rows(const StateTensor& tensor, int64_t row_begin, int64_t row_end) const;
  // Whether a step changes only some rows of the tensors of this head: the rows of its active classes.
  bool changes_by_rows(std::string_view head) const;
  // Reads rows [row_begin, row_end) from their first copy, or writes them to all their copies. After weights were
  // written, call Session::weights_changed.
  void read_rows(const StateTensor& tensor, int64_t row_begin, int64_t row_end, std::byte* out) const;
  void write_rows(const StateTensor& tensor, int64_t row_begin, int64_t row_end, const std::byte* in);
  // Like read_rows and write_rows, but with values in f32, [rows, row_elements()], whatever the format of the tensor.
  // write_values rounds to the nearest value of a narrow format, and also writes the scales of fp8 rows.
  void read_values(const StateTensor& tensor, int64_t row_begin, int64_t row_end, float* out) const;
  void write_values(const StateTensor& tensor, int64_t row_begin, int64_t row_end, const float* in);
  // Like read_values, but returns the weights that the next step will use: class rows that were idle in earlier steps
  // have caught up (Session::follow).
  void read_current(const StateTensor& tensor, int64_t row_begin, int64_t row_end, float* out) const;
  // Heads whose class rows will be mapped from a file. Until then these rows are in memory that no plan counts.
  std::span<const MappedHead> mapped_heads() const { return mapped_; }
  // Maps the file over the buffers of these rows, which then have the values in the file. If the state is not for
  // training, weights get the values of their running means, if the file has any. REQUIRES: the file has the sections
  // of head.layout; it may have more. Errors: kWorld.
  Status map_rows(const MappedHead& head, std::shared_ptr<MappedRows> rows);
  // Maps the files that `other` has mapped, so that both states have the same rows. Errors: those of map_rows.
  Status share_rows(const TrainState& other);
  // The class rows in files; index: head of the program; null: the rows of the head are in memory.
  std::span<MappedRows* const> rows() const { return rows_; }
  // Whether the tensor is in a mapped file.
  bool lies_in_file(const StateTensor& tensor) const { return rows_of(tensor) != nullptr; }
  // Whether checkpoints contain a copy of the tensor: the run needs it, and it is not in a mapped file.
  bool is_saved(const StateTensor& tensor) const { return tensor.kept && !lies_in_file(tensor); }

  // Sets the object that computes how idle class rows catch up. REQUIRES: it outlives the state, and has the data of
  // all steps done.
  void catch_up_by(const ops::IdleSteps* steps) { idle_ = steps; }
  // The scale of the loss in the next step. The session changes it after each step; a checkpoint restores it.
  const LossScale& loss_scale() const { return loss_scale_; }
  const LossScaleSpec& loss_scale_spec() const { return module_.train.loss_scale; }
  void set_loss_scale(const LossScale& scale) { loss_scale_ = scale; }
  // Copies weights and states of `other` by name; its layout may differ. Optimizer states are copied if both states
  // have them; residuals are not copied. If this state is not for training, its weights get the values of the running
  // means of `other`, if there are any.
  void copy_from(const TrainState& other);

  // Returns the first error of a device's memory. Call it after values were read, before others get them.
  Status status() const { return memory_.status(); }
  // The digests of the trained weights that this process has.
  std::vector<RangeDigest> range_digests() const;
  // The digest of all trained weights, which is equal for every plan of a run. REQUIRES: this process has all
  // weights.
  std::string weights_digest() const { return digest_of(range_digests()); }

 private:
  // Reads the rows of a tensor of shifts (shifts_of).
  void read_shifts(const StateTensor& tensor, int64_t row_begin, int64_t row_end, float* out) const;
  bool catches_up(const StateTensor& tensor) const;
  bool rows_catch_up(ParamId param) const;
  const MappedRows* rows_of(const StateTensor& tensor) const;
  // Calls body(first row, number of rows) for rows [begin, end), in chunks that fit into the staging buffer.
  template <typename Body>
  void for_chunks(const StateTensor& tensor, int64_t begin, int64_t end, const Body& body) const;

  const Module& module_;
  const planner::Program& program_;
  const BoundMemory& memory_;
  const DeviceSet& devices_;
  std::vector<StateTensor> tensors_;
  std::vector<MappedHead> mapped_;
  std::vector<MappedRows*> rows_;                  // index: head of the program; null: in memory
  std::vector<std::shared_ptr<MappedRows>> held_;  // owners of the objects in rows_, without nulls
  const ops::IdleSteps* idle_ = nullptr;
  LossScale loss_scale_;
};

}  // namespace xrun::runtime
