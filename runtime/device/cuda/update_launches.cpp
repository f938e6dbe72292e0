// Tests: tests/cuda/update_launches_test.cpp
#include "runtime/device/cuda/update_launches.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "graph/layouts/norm_layout.h"
#include "ops/gpu/launch/gradient_launches.h"
#include "ops/gpu/launch/updates.h"
#include "ops/optimizer/update_norms.h"
#include "runtime/device/cuda/bound_launches.h"
#include "runtime/device/cuda/update_operands.h"

namespace xrun::cuda {
namespace {

using ops::UpdateScalars;
using ops::gpu::FoldEntry;
using ops::gpu::GpuLaunch;
using ops::gpu::GpuUpdate;
using ops::gpu::NormEntry;
using ops::gpu::UpdateEntry;
using planner::Instruction;
using planner::Kind;

template <class T>
Result<CUdeviceptr> store(StepMemory& memory, const std::vector<T>& values) {
  return memory.store(std::as_bytes(std::span(values)));
}

// ---- sums

class LaunchWork final : public BoundWork {
 public:
  Status queue(const runtime::StepContext& step, Stream& stream) override { return launches.queue(step, stream); }
  BoundLaunches launches;
};

// The tables of sums, in the order of their launches.
class Sums {
 public:
  // A launch adds up to kFoldTerms terms. More of them are first added in groups, each of which is a subtree; the sum
  // of a group takes the place of its first term.
  void add(std::vector<CUdeviceptr> terms, CUdeviceptr sum, int64_t elements) {
    constexpr auto kMost = static_cast<size_t>(ops::gpu::kFoldTerms);
    size_t level = 0;
    for (; terms.size() > kMost; ++level) {
      std::vector<CUdeviceptr> sums;
      for (size_t i = 0; i < terms.size(); i += kMost) {
        const auto group = std::span(terms).subspan(i, std::min(kMost, terms.size() - i));
        add_entry(level, group, group[0], elements);
        sums.push_back(group[0]);
      }
      terms = std::move(sums);
    }
    add_entry(level, terms, sum, elements);
  }

  Status bind(const BoundDevice& device, BoundLaunches& launches) {
    for (std::vector<FoldEntry>& level : levels_) {
      const int64_t blocks = ops::gpu::number_blocks(std::span(level));
      XRUN_ASSIGN(const CUdeviceptr table, store(device.memory, level));
      const GpuLaunch launch = ops::gpu::fold_launch(device.target, std::ssize(level), blocks);
      XRUN_TRY(launches.add(device.kernels, {&launch, 1}, {.inputs = {table}}));
    }
    return {};
  }

 private:
  void add_entry(size_t level, std::span<const CUdeviceptr> terms, CUdeviceptr sum, int64_t elements) {
    levels_.resize(std::max(levels_.size(), level + 1));
    FoldEntry& entry = levels_[level].emplace_back();
    std::ranges::copy(terms, entry.terms);
    entry.sum = sum;
    entry.count = std::ssize(terms);
    entry.elements = elements;
  }

  std::vector<std::vector<FoldEntry>> levels_;
};

Sums sums_of_partials(const std::vector<UpdateTensor>& tensors, int64_t partials) {
  Sums sums;
  for (const UpdateTensor& tensor : tensors) {
    std::vector<CUdeviceptr> terms;
    for (int64_t partial = 0; partial < partials; ++partial) {
      terms.push_back(tensor.gradient + static_cast<CUdeviceptr>(partial * tensor.partial));
    }
    sums.add(std::move(terms), tensor.gradient, tensor.elements);
  }
  return sums;
}

Sums sums_of_terms(const std::vector<TermSum>& of) {
  Sums sums;
  for (const TermSum& one : of) {
    sums.add(one.terms, one.sum, one.elements);
  }
  return sums;
}

Status bind_squares(const std::vector<UpdateTensor>& tensors, const BoundDevice& device, BoundLaunches& launches) {
  for (const UpdateTensor& tensor : tensors) {
    const GpuLaunch launch = ops::gpu::squares_launch(device.target, tensor.elements, kNormChunk);
    XRUN_TRY(launches.add(device.kernels, {&launch, 1}, {.inputs = {tensor.gradient}, .outputs = {tensor.norms}}));
  }
  return {};
}

// ---- updates

class UpdateWork final : public BoundWork {
 public:
  UpdateWork(const Module& module, const planner::Program& program, const NodeKernels& kernels,
             const BoundDevice& device)
      : module_(module), program_(program), kernels_(kernels), device_(device) {}

  Status bind(const runtime::Binder& binder, const StepDecision& decision, const Instruction& instruction);
  void begin_step(const runtime::StepContext& step) override;
  Status queue(const runtime::StepContext& step, Stream& stream) override;

 private:
  Status add(const GpuLaunch& launch, const CallAddresses& at) {
    return launches_.add(device_.kernels, {&launch, 1}, at);
  }
  CUdeviceptr scalars_at(size_t tensor) const { return scalars_->address() + tensor * sizeof(UpdateScalars); }
  Status bind_touched();
  Status bind_table(const StepDecision& decision);
  Status bind_norms(const GpuUpdate& update, const std::vector<CallAddresses>& calls);
  Status bind_tensors(const StepDecision& decision);
  Status bind_prepares(const UpdateOperands& operands);

  const Module& module_;
  const planner::Program& program_;
  const NodeKernels& kernels_;
  const BoundDevice device_;
  ops::OptimizerForm form_;
  std::vector<UpdateTensor> tensors_;
  std::vector<CUdeviceptr> touched_;    // index: tensor; 0: all rows are updated
  std::unique_ptr<HostTable> scalars_;  // UpdateScalars of each tensor; null without tensors
  BoundLaunches launches_;
};

Status UpdateWork::bind(const runtime::Binder& binder, const StepDecision& decision, const Instruction& instruction) {
  XRUN_ASSIGN(form_, ops::optimizer_form(module_.train.optimizer, {}, module_.train.ema));
  UpdateOperands operands = update_operands(module_, binder, form_, instruction);
  tensors_ = std::move(operands.tensors);
  XRUN_TRY(decision.add(launches_, device_.kernels, instruction, binder));
  if (!tensors_.empty()) {
    const auto bytes = static_cast<Bytes>(tensors_.size() * sizeof(UpdateScalars));
    XRUN_ASSIGN(scalars_, HostTable::make(device_.device.context(), bytes));
    XRUN_TRY(bind_touched());
    XRUN_TRY(form_.kind == ops::OptimizerKind::kOwn ? bind_tensors(decision) : bind_table(decision));
  }
  return bind_prepares(operands);
}

// Finds the rows of tensors of which only some rows are updated.
Status UpdateWork::bind_touched() {
  for (const UpdateTensor& tensor : tensors_) {
    touched_.push_back(0);
    if (tensor.row > 0) {
      const int64_t rows = tensor.elements / tensor.row;
      XRUN_ASSIGN(touched_.back(), device_.memory.allocate(rows * static_cast<Bytes>(sizeof(float))));
      XRUN_TRY(add(ops::gpu::touched_launch(device_.target, rows, tensor.row),
                   {.inputs = {tensor.gradient}, .outputs = {touched_.back()}}));
    }
  }
  return {};
}

// One launch updates all tensors.
Status UpdateWork::bind_table(const StepDecision& decision) {
  XRUN_ASSIGN(const GpuUpdate update, GpuUpdate::make(module_.train.optimizer, form_.ema, device_.target, true));
  std::vector<UpdateEntry> entries;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const UpdateTensor& tensor = tensors_[i];
    UpdateEntry& entry = entries.emplace_back();
    entry.weight = tensor.weight;
    entry.gradient = tensor.gradient;
    std::copy_n(tensor.states.begin(), form_.states, entry.states);
    entry.mean = form_.ema > 0 ? tensor.states[static_cast<size_t>(form_.states)] : 0;
    entry.scalars = scalars_at(i);
    entry.touched = touched_[i];
    entry.row = std::max<int64_t>(tensor.row, 1);
    entry.elements = tensor.elements;
    entry.take = static_cast<float>(1 - form_.ema);
  }
  const int64_t blocks = ops::gpu::number_blocks(std::span(entries));
  XRUN_ASSIGN(const CUdeviceptr table, store(device_.memory, entries));
  return add(update.of_table(std::ssize(entries), blocks), {.inputs = {table, decision.address()}});
}

// Each tensor has a launch of its own. The norms of all tensors are known before it.
Status UpdateWork::bind_tensors(const StepDecision& decision) {
  std::map<int64_t, GpuUpdate> updates;  // key: numbers in a row
  XRUN_ASSIGN(const CUdeviceptr take, store(device_.memory, std::vector{static_cast<float>(1 - form_.ema)}));
  std::vector<CallAddresses> calls;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const UpdateTensor& tensor = tensors_[i];
    if (!updates.contains(tensor.row)) {
      XRUN_ASSIGN(GpuUpdate update,
                  GpuUpdate::make(module_.train.optimizer, form_.ema, device_.target, true, tensor.row));
      updates.emplace(tensor.row, std::move(update));
    }
    CallAddresses& call = calls.emplace_back();
    call.inputs = {scalars_at(i), tensor.gradient, decision.address(), take, touched_[i]};
    call.outputs = {tensor.weight};
    call.outputs.insert(call.outputs.end(), tensor.states.begin(), tensor.states.begin() + form_.kept_states());
  }
  XRUN_TRY(bind_norms(updates.begin()->second, calls));
  for (size_t i = 0; i < tensors_.size(); ++i) {
    XRUN_TRY(add(updates.at(tensors_[i].row).of_tensor(tensors_[i].elements), calls[i]));
  }
  return {};
}

// Tensors that do not decay have norms of 0.
Status UpdateWork::bind_norms(const GpuUpdate& update, const std::vector<CallAddresses>& calls) {
  if (update.norm_levels() == 0) {
    return {};
  }
  std::vector<NormEntry> entries;
  std::vector<size_t> with_norms;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const int64_t elements = tensors_[i].elements;
    if (tensors_[i].rule.decays) {
      NormEntry& entry = entries.emplace_back();
      XRUN_ASSIGN(entry.squares, device_.memory.allocate(update.norm_scratch(elements)));
      XRUN_ASSIGN(entry.norms, device_.memory.allocate(update.program().value_bytes()));
      entry.results = scalars_at(i) + static_cast<CUdeviceptr>(update.program().result_offset());
      entry.stride = GpuUpdate::norm_bytes(elements);
      entry.pieces = ops::gpu::pieces_of(elements, GpuUpdate::kNormPiece);
      with_norms.push_back(i);
    }
  }
  if (entries.empty()) {
    return {};
  }
  XRUN_ASSIGN(const CUdeviceptr table, store(device_.memory, entries));
  XRUN_ASSIGN(const CUdeviceptr program, device_.memory.store(update.program().bytes()));
  for (int level = 0; level < update.norm_levels(); ++level) {
    for (size_t e = 0; e < entries.size(); ++e) {
      CallAddresses call = calls[with_norms[e]];
      call.scratch = entries[e].squares;
      XRUN_TRY(add(update.of_norms(level, tensors_[with_norms[e]].elements), call));
    }
    XRUN_TRY(add(update.program().launch(device_.target, level, std::ssize(entries)), {.inputs = {table, program}}));
  }
  return {};
}

// Prepares the updated weights, and combines running statistics.
Status UpdateWork::bind_prepares(const UpdateOperands& operands) {
  for (const UpdatePrepare& prepare : operands.prepares) {
    XRUN_TRY(launches_.add(device_.kernels, kernels_.of(prepare.node)->prepare(prepare.input),
                           {.inputs = {prepare.plain}, .outputs = {prepare.prepared}}));
  }
  for (const UpdateFold& fold : operands.folds) {
    const CallAddresses at{.inputs = fold.inputs, .outputs = fold.outputs, .flags = device_.memory.flags()};
    XRUN_TRY(
        launches_.add(device_.kernels, kernels_.of(fold.node)->fold_states(program_.batch / program_.norm_rows), at));
  }
  return {};
}

void UpdateWork::begin_step(const runtime::StepContext& step) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const UpdateScalars scalars = runtime::scalars_of(tensors_[i].rule, form_, step.rate, step.updates(), 1);
    std::memcpy(scalars_->host().data() + i * sizeof scalars, &scalars, sizeof scalars);
  }
}

Status UpdateWork::queue(const runtime::StepContext& step, Stream& stream) {
  if (scalars_ != nullptr) {
    XRUN_TRY(scalars_->copy(stream));
  }
  return launches_.queue(step, stream);
}

}  // namespace

bool ends_step(Kind kind) {
  return kind == Kind::kFoldPartials || kind == Kind::kSumReplicas || kind == Kind::kSumTied || kind == Kind::kNorm ||
         kind == Kind::kUpdate;
}

Result<std::unique_ptr<BoundWork>> bind_update(const Module& module, const planner::Program& program,
                                               const runtime::Binder& binder, const NodeKernels& kernels,
                                               const StepDecision& decision, const Instruction& instruction,
                                               const BoundDevice& device) {
  if (instruction.kind == Kind::kUpdate) {
    auto work = std::make_unique<UpdateWork>(module, program, kernels, device);
    XRUN_TRY(work->bind(binder, decision, instruction));
    return std::unique_ptr<BoundWork>(std::move(work));
  }
  auto work = std::make_unique<LaunchWork>();
  if (instruction.kind == Kind::kSumReplicas || instruction.kind == Kind::kSumTied) {
    XRUN_TRY(sums_of_terms(term_sums(binder, instruction)).bind(device, work->launches));
  } else {
    const UpdateOperands operands = update_operands(module, binder, {}, instruction);
    XRUN_TRY(instruction.kind == Kind::kNorm
                 ? bind_squares(operands.tensors, device, work->launches)
                 : sums_of_partials(operands.tensors, program.partials_of_replica()).bind(device, work->launches));
  }
  return std::unique_ptr<BoundWork>(std::move(work));
}

}  // namespace xrun::cuda
