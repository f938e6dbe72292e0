// Tests: tests/runtime/device/cpu/stage_runner_test.cpp
#include "runtime/device/cpu/cpu_backend.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <new>
#include <vector>

#include "graph/base/check.h"
#include "ops/compute_modes.h"
#include "runtime/device/cpu/compress_runner.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cpu/head_runner.h"
#include "runtime/device/cpu/stage_runner.h"
#include "runtime/device/cpu/update_runner.h"
#include "runtime/device/gradient_sums.h"
#include "runtime/device/non_finite.h"

namespace xrun::runtime {
namespace {

using planner::Buffer;
using planner::Instruction;
using planner::Kind;
using planner::Operand;
using planner::Purpose;
using planner::Role;

class CpuBackend final : public Backend {
 public:
  CpuBackend(const Module& module, const planner::Program& program, const BoundMemory& memory, const DeviceSet& devices,
             KernelSet kernels, ops::Isa isa, const ops::OptimizerForm& form);

  void begin_step(const StepContext& step) override {
    step_ = step;
    skipped_.store(false, std::memory_order_relaxed);
  }
  void start(const Instruction& instruction, InstructionEvents& events) override;
  Status run(const Instruction& instruction) override;
  Status prepare_weights() override;
  double grad_norm() const override { return grad_norm_.load(std::memory_order_relaxed); }
  bool skipped() const override { return skipped_.load(std::memory_order_relaxed); }

 private:
  // Runs the instruction; empty for exchanges and for devices of other ranks.
  using Bound = std::function<Status(ops::Workers& workers)>;
  struct Entry {
    CpuBackend* self = nullptr;
    const Instruction* instruction = nullptr;
    InstructionEvents* events = nullptr;
    Bound bound;
    bool guards_rows = false;  // the instruction itself calls ChangeGuard::before_rows
  };

  static void run_task(void* entry, int32_t argument);
  static Status run_within_memory(Entry& entry, ops::Workers& workers);
  Status run_bound(Entry& entry, ops::Workers& workers) const;
  Bound bind(const Instruction& instruction);
  Bound bind_update(const Instruction& instruction);
  Bound bind_copy(const Instruction& instruction) const;
  Status prepare_device(int device, ops::Workers& workers);
  // The sums of squares of the gradients; empty if the instruction does not need them.
  std::span<const double> norms_of(const Instruction& instruction) const;
  // Decides about an update from the sums of squares.
  Result<UpdateDecision> decide(std::span<const double> sums);

  const Module& module_;
  const planner::Program& program_;
  const BoundMemory& memory_;
  const DeviceSet& devices_;
  KernelSet kernels_;
  Binder binder_;
  HeadSet heads_;
  StageRunner stage_runner_;
  HeadRunner head_runner_;
  UpdateRunner update_runner_;
  CompressRunner compress_runner_;
  std::vector<Entry> entries_;  // index: instruction
  StepContext step_;
  std::atomic<double> grad_norm_{0};
  std::atomic<bool> skipped_{false};
  GradientSums sums_;
};

CpuBackend::CpuBackend(const Module& module, const planner::Program& program, const BoundMemory& memory,
                       const DeviceSet& devices, KernelSet kernels, ops::Isa isa, const ops::OptimizerForm& form)
    : module_(module),
      program_(program),
      memory_(memory),
      devices_(devices),
      kernels_(std::move(kernels)),
      binder_(module.graph, program, memory),
      heads_(module.graph, program, isa),
      stage_runner_(module, program, binder_, kernels_,
                    *std::max_element(program.threads.begin(), program.threads.end())),
      head_runner_(module, program, binder_, heads_, form),
      update_runner_(module, program, binder_, kernels_, isa, form),
      compress_runner_(module, program, binder_, isa, form),
      sums_(module, program) {
  entries_.reserve(program.instructions.size());
  for (const Instruction& instruction : program.instructions) {
    const bool mine = memory.has(instruction.device) && !communicates(instruction.kind);
    const bool rows = is_of_head(instruction.kind) && program.heads[static_cast<size_t>(instruction.head)].active > 0;
    entries_.push_back({this, &instruction, nullptr, mine ? bind(instruction) : Bound(), rows});
  }
}

void CpuBackend::start(const Instruction& instruction, InstructionEvents& events) {
  Entry& entry = entries_[static_cast<size_t>(instruction.id.index)];
  entry.events = &events;
  const auto stream =
      instruction.stream == planner::Stream::kCompute ? DeviceStream::kCompute : DeviceStream::kExchanges;
  devices_.device(instruction.device).start(stream, {&CpuBackend::run_task, &entry, 0});
}

void CpuBackend::run_task(void* context, int32_t /*argument*/) {
  Entry& entry = *static_cast<Entry*>(context);
  XRUN_DCHECK(ops::has_compute_modes(), "an instruction runs without the floating-point modes");
  Status status;
  if (entry.events->begins(*entry.instruction)) {
    auto& device = static_cast<CpuDevice&>(entry.self->devices_.device(entry.instruction->device));
    status = run_within_memory(entry, device);
  }
  entry.events->ended(*entry.instruction, std::move(status));
}

// Runs an instruction and converts exceptions to errors, since no exception may leave a task of a device.
Status CpuBackend::run_within_memory(Entry& entry, ops::Workers& workers) {
  try {
    return entry.self->run_bound(entry, workers);
  } catch (const std::bad_alloc&) {
    return Error{ErrorKind::kWorld, "", "out of memory in a step",
                 "close other programs, or use fewer devices and threads"};
  }
}

Status CpuBackend::run(const Instruction& instruction) {
  const ops::ComputeModes modes;
  ops::InlineWorkers workers;
  return run_bound(entries_[static_cast<size_t>(instruction.id.index)], workers);
}

Status CpuBackend::run_bound(Entry& entry, ops::Workers& workers) const {
  if (step_.guard != nullptr && !entry.guards_rows) {
    step_.guard->before(*entry.instruction, workers);
  }
  return entry.bound(workers);
}

CpuBackend::Bound CpuBackend::bind(const Instruction& instruction) {
  if (is_stage_pass(instruction.kind)) {
    return [this, pass = stage_runner_.bind(instruction)](ops::Workers& workers) {
      return stage_runner_.run(pass, step_, workers);
    };
  }
  if (is_of_head(instruction.kind)) {
    return [this, head = head_runner_.bind(instruction),
            norms = norms_of(instruction)](ops::Workers& workers) mutable -> Status {
      XRUN_ASSIGN(const UpdateDecision decision, decide(norms));
      return decision.skips ? Status() : head_runner_.run(head, step_, decision.of_heads, workers);
    };
  }
  if (instruction.kind == Kind::kSumReplicas || instruction.kind == Kind::kSumTied) {
    return [this, sums = update_runner_.bind_sums(instruction)](ops::Workers& workers) {
      update_runner_.sum(sums, workers);
      return Status();
    };
  }
  if (instruction.kind == Kind::kCompress) {
    return [this, compress = compress_runner_.bind(instruction),
            norms = norms_of(instruction)](ops::Workers& workers) mutable -> Status {
      XRUN_ASSIGN(const UpdateDecision decision, decide(norms));
      return decision.skips ? Status() : compress_runner_.run(compress, step_, workers);
    };
  }
  return instruction.kind == Kind::kCopy ? bind_copy(instruction) : bind_update(instruction);
}

CpuBackend::Bound CpuBackend::bind_update(const Instruction& instruction) {
  BoundUpdate update = update_runner_.bind(instruction);
  switch (instruction.kind) {
    case Kind::kFoldPartials:
      return [this, update = std::move(update)](ops::Workers& workers) {
        update_runner_.fold_partials(update, workers);
        return Status();
      };
    case Kind::kNorm:
      return [this, update = std::move(update)](ops::Workers& workers) {
        update_runner_.add_squares(update, workers);
        return Status();
      };
    default:
      return
          [this, update = std::move(update), norms = norms_of(instruction)](ops::Workers& workers) mutable -> Status {
            XRUN_ASSIGN(const UpdateDecision decision, decide(norms));
            return decision.skips ? Status() : update_runner_.apply(update, step_, decision.of_stages, workers);
          };
  }
}

CpuBackend::Bound CpuBackend::bind_copy(const Instruction& instruction) const {
  struct Segment {
    OperandAddress from;
    std::byte* to = nullptr;
    size_t bytes = 0;
  };
  std::vector<Segment> segments;
  for (size_t i = 0; i + 1 < instruction.operands.size(); i += 2) {
    const Operand& from = instruction.operands[i];
    segments.push_back(
        {binder_.address(from), binder_.at(instruction.operands[i + 1]), static_cast<size_t>(from.bytes)});
  }
  return [this, segments = std::move(segments)](ops::Workers& /*workers*/) {
    for (const Segment& segment : segments) {
      std::copy_n(segment.from.at(step_), segment.bytes, segment.to);
    }
    return Status();
  };
}

std::span<const double> CpuBackend::norms_of(const Instruction& instruction) const {
  for (const Operand& operand : instruction.operands) {
    if (operand.role == Role::kNorms && !operand.param.valid()) {
      return {binder_.at<const double>(operand), static_cast<size_t>(operand.bytes) / sizeof(double)};
    }
  }
  return {};
}

Result<UpdateDecision> CpuBackend::decide(std::span<const double> sums) {
  if (sums.empty()) {
    return UpdateDecision();
  }
  const UpdateDecision decision = sums_.decide(sums, step_.loss_scale);
  grad_norm_.store(module_.train.clip.kind == ClipSpec::kNorm && !decision.skips ? decision.norm : 0,
                   std::memory_order_relaxed);
  if (decision.skips) {
    skipped_.store(true, std::memory_order_relaxed);
  } else if (!decision.finite) {
    return nonfinite_gradient(module_, program_, sums, step_);
  }
  return decision;
}

Status CpuBackend::prepare_weights() {
  return run_on_each(
      devices_, [this](Device& device) { return prepare_device(device.index(), static_cast<CpuDevice&>(device)); });
}

Status CpuBackend::prepare_device(int device, ops::Workers& workers) {
  std::map<std::pair<ParamId, int>, std::byte*> weights;  // key: (parameter, replica)
  const Buffer* scratch = nullptr;                        // the largest scratch buffer; between steps it is free
  for (const Buffer& buffer : program_.buffers) {
    if (buffer.device == device && buffer.purpose == Purpose::kWeight) {
      weights[{buffer.param, buffer.replica}] = memory_.at(buffer);
    } else if (buffer.device == device && buffer.purpose == Purpose::kScratch) {
      scratch = scratch == nullptr || buffer.bytes > scratch->bytes ? &buffer : scratch;
    }
  }
  BoundUpdate all;
  if (scratch != nullptr) {
    all.scratch = memory_.at(*scratch);
    all.slice = scratch->bytes / program_.threads[static_cast<size_t>(device)];
  }
  for (const Buffer& buffer : program_.buffers) {
    if (buffer.device == device && buffer.purpose == Purpose::kPrepared) {
      all.prepares.push_back({kernels_.of(buffer.node),
                              buffer.node_input,
                              {weights.at({buffer.param, buffer.replica})},
                              memory_.at(buffer)});
    }
  }
  XRUN_TRY(update_runner_.prepare(all, workers));
  head_runner_.prepare(memory_, device, workers);
  return {};
}

}  // namespace

Result<std::unique_ptr<Backend>> make_cpu_backend(const Module& module, const planner::Program& program,
                                                  const BoundMemory& memory, const DeviceSet& devices,
                                                  const BackendOptions& options) {
  ops::OptimizerForm form;
  if (program.training) {
    XRUN_ASSIGN(form, ops::optimizer_form(module.train.optimizer, options.isa, module.train.ema));
  }
  XRUN_ASSIGN(KernelSet kernels, KernelSet::make(module.graph, program, options.isa));
  return std::unique_ptr<Backend>(
      std::make_unique<CpuBackend>(module, program, memory, devices, std::move(kernels), options.isa, form));
}

}  // namespace xrun::runtime
