// Tests: tests/cuda/cuda_backend_test.cpp, tests/cuda/gpu_models_test.cpp
#include "runtime/device/cuda/cuda_backend.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <utility>
#include <vector>

#include "graph/base/check.h"
#include "runtime/device/bound_memory.h"
#include "runtime/device/cuda/bound_launches.h"
#include "runtime/device/cuda/head_launches.h"
#include "runtime/device/cuda/instruction_queue.h"
#include "runtime/device/cuda/stage_launches.h"
#include "runtime/device/cuda/step_decision.h"
#include "runtime/device/cuda/update_launches.h"

namespace xrun::cuda {
namespace {

using planner::Buffer;
using planner::Instruction;
using planner::Kind;
using planner::Operand;
using planner::Purpose;
using planner::Role;

// PTX for compute_90 serves every GPU since Hopper.
ops::GpuTarget target_of(const Context& context) {
  return context.capability() >= 90 ? ops::GpuTarget::kSm90 : ops::GpuTarget::kSm80;
}

// One device of a backend.
struct Part {
  Part(const Module& module, const planner::Program& program, CudaDevice& of)
      : device(of), watched(module, program, of.index()), kernels(of.context()) {}

  CudaDevice& device;
  const WatchedWords watched;
  KernelStore kernels;
  std::unique_ptr<StepMemory> memory;
  std::unique_ptr<StepDecision> decision;
  BoundLaunches prepares;            // prepared forms of all weights of stages
  std::optional<Operand> all_norms;  // the sums of squares of all gradients on this device
};

class CudaBackend final : public runtime::Backend {
 public:
  CudaBackend(const Module& module, const planner::Program& program, const runtime::BoundMemory& memory,
              const CudaDevices& devices)
      : module_(module),
        program_(program),
        memory_(memory),
        devices_(devices),
        binder_(module.graph, program, memory),
        queue_(program, devices, [this](const Instruction& instruction, Stream& stream) {
          return work_[static_cast<size_t>(instruction.id.index)]->queue(step_, stream);
        }) {}
  ~CudaBackend() override;

  Status bind();
  void begin_step(const runtime::StepContext& step) override;
  bool orders() const override { return true; }
  void measure(bool wanted) override { queue_.measure(wanted); }
  void start(const Instruction& instruction, runtime::InstructionEvents& events) override {
    queue_.start(instruction, events);
  }
  Status run(const Instruction& instruction) override;
  Status end_step() override;
  Status prepare_weights() override;
  double grad_norm() const override { return grad_norm_; }
  bool skipped() const override { return skipped_; }

 private:
  Status bind_device(CudaDevice& device, const NodeKernels& kernels);
  Status bind_prepares(Part& part, const NodeKernels& kernels);
  Result<std::unique_ptr<BoundWork>> bind_work(const Instruction& instruction, Part& part, const NodeKernels& kernels);
  Status end_step_of(Part& part);
  std::vector<double> sums_of(const Part& part) const;
  Part& part_of(int device) const { return *parts_[static_cast<size_t>(device - devices_.first())]; }

  const Module& module_;
  const planner::Program& program_;
  const runtime::BoundMemory& memory_;
  const CudaDevices& devices_;
  const runtime::Binder binder_;
  InstructionQueue queue_;
  std::vector<NodeKernels> kernels_;  // one for each kind of PTX text
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<std::unique_ptr<BoundWork>> work_;  // index: instruction; null for exchanges and other ranks
  runtime::StepContext step_;
  double grad_norm_ = 0;
  bool skipped_ = false;
};

// A step that has failed may have left work in the streams, which uses kernels and memory of the parts.
CudaBackend::~CudaBackend() {
  for (const auto& part : parts_) {
    if (part->device.context().make_current().ok()) {
      (void)part->device.context().synchronise();
    }
  }
}

Status CudaBackend::bind() {
  if (program_.gpu.empty()) {
    return Error{ErrorKind::kContent, "XG0625", "the plan is for processors, but its devices are GPUs",
                 "make the plan with `--devices cuda`"};
  }
  work_.resize(program_.instructions.size());
  std::vector<ops::GpuTarget> targets;
  for (int index = devices_.first(); index < devices_.first() + devices_.count(); ++index) {
    const ops::GpuTarget target = target_of(devices_.cuda(index).context());
    if (std::ranges::find(targets, target) == targets.end()) {
      XRUN_ASSIGN(NodeKernels kernels, NodeKernels::make(module_.graph, program_, target));
      kernels_.push_back(std::move(kernels));
      targets.push_back(target);
    }
    const auto known = std::ranges::find(targets, target) - targets.begin();
    XRUN_TRY(bind_device(devices_.cuda(index), kernels_[static_cast<size_t>(known)]));
  }
  return {};
}

Status CudaBackend::bind_device(CudaDevice& device, const NodeKernels& kernels) {
  XRUN_TRY(device.context().make_current());
  Part& part = *parts_.emplace_back(std::make_unique<Part>(module_, program_, device));
  XRUN_ASSIGN(part.memory, StepMemory::make(device.context(), part.watched.count()));
  XRUN_ASSIGN(part.decision,
              StepDecision::make(device.context(), module_, program_, *part.memory, target_of(device.context())));
  for (const Instruction& instruction : program_.instructions) {
    if (instruction.device != device.index()) {
      continue;
    }
    if (!planner::communicates(instruction.kind)) {
      XRUN_ASSIGN(work_[static_cast<size_t>(instruction.id.index)], bind_work(instruction, part, kernels));
    }
    for (const Operand& operand : instruction.operands) {
      if (operand.role == Role::kNorms && !operand.param.valid()) {
        part.all_norms = operand;
      }
    }
  }
  return bind_prepares(part, kernels);
}

Result<std::unique_ptr<BoundWork>> CudaBackend::bind_work(const Instruction& instruction, Part& part,
                                                          const NodeKernels& kernels) {
  const BoundDevice bound{.device = part.device,
                          .kernels = part.kernels,
                          .memory = *part.memory,
                          .target = target_of(part.device.context())};
  if (planner::is_stage_pass(instruction.kind)) {
    return bind_pass(module_, program_, binder_, kernels, part.watched, instruction, bound);
  }
  if (ends_step(instruction.kind)) {
    return bind_update(module_, program_, binder_, kernels, *part.decision, instruction, bound);
  }
  if (is_head_work(instruction.kind)) {
    return bind_head(module_, program_, binder_, *part.decision, instruction, bound);
  }
  if (instruction.kind == Kind::kCopy) {
    return bind_copy(binder_, instruction);
  }
  return Error{ErrorKind::kContent, "XG0633",
               fmt::format("GPUs have no kernels for instructions of kind {}", planner::name_of(instruction.kind)),
               "train on processors"};
}

// Binds the launches that make the prepared forms from the plain weights of the same replica.
Status CudaBackend::bind_prepares(Part& part, const NodeKernels& kernels) {
  const int device = part.device.index();
  for (const Buffer& buffer : program_.buffers) {
    if (buffer.device != device || buffer.purpose != Purpose::kPrepared) {
      continue;
    }
    const auto plain = std::ranges::find_if(program_.buffers, [&](const Buffer& other) {
      return other.device == device && other.purpose == Purpose::kWeight && other.param == buffer.param &&
             other.replica == buffer.replica;
    });
    XRUN_CHECK(plain != program_.buffers.end(), "a prepared weight without its plain form");
    const auto launches = kernels.of(buffer.node)->prepare(buffer.node_input);
    XRUN_TRY(part.prepares.add(part.kernels, launches,
                               {.inputs = {reinterpret_cast<uint64_t>(memory_.at(*plain))},
                                .outputs = {reinterpret_cast<uint64_t>(memory_.at(buffer))}}));
  }
  return bind_head_prepares(module_, program_, memory_, device, target_of(part.device.context()), part.kernels,
                            part.prepares);
}

void CudaBackend::begin_step(const runtime::StepContext& step) {
  step_ = step;
  grad_norm_ = 0;
  skipped_ = false;
  queue_.begin_step(step.guard);
  for (const auto& work : work_) {
    if (work != nullptr) {
      work->begin_step(step_);
    }
  }
}

Status CudaBackend::run(const Instruction& instruction) {
  CudaDevice& device = devices_.cuda(instruction.device);
  Stream& stream = device.worker(runtime::DeviceStream::kCompute).stream();
  XRUN_TRY(device.context().make_current());
  XRUN_TRY(queue_.queue(instruction, stream));
  return stream.synchronise();
}

// Reads the flag words of all devices, also after an error, since each device must clear its own.
Status CudaBackend::end_step() {
  Status first;
  for (const auto& part : parts_) {
    Status status = end_step_of(*part);
    if (first.ok()) {
      first = std::move(status);
    }
  }
  return first;
}

Status CudaBackend::end_step_of(Part& part) {
  XRUN_TRY(part.device.context().make_current());
  XRUN_ASSIGN(const std::vector<uint32_t> flags, part.memory->read_flags());
  if (flags[0] == 0) {
    if (program_.training && module_.train.clip.kind == ClipSpec::kNorm) {
      XRUN_ASSIGN(const ops::gpu::GpuDecision decision, part.decision->read());
      grad_norm_ = std::max(grad_norm_, decision.norm);  // 0 on a device without updates
    }
    return {};
  }
  XRUN_TRY(part.memory->clear_flags());
  if (flags[0] == ops::gpu::kFlagSkips) {
    skipped_ = true;
    return {};
  }
  return part.watched.error_of(flags, sums_of(part), step_);
}

std::vector<double> CudaBackend::sums_of(const Part& part) const {
  if (!part.all_norms) {
    return {};
  }
  std::vector<double> sums(static_cast<size_t>(part.all_norms->bytes) / sizeof(double));
  memory_.read(part.all_norms->buffer, part.all_norms->offset, std::as_writable_bytes(std::span(sums)));
  return sums;
}

Status CudaBackend::prepare_weights() {
  return runtime::run_on_each(devices_, [this](runtime::Device& device) -> Status {
    Stream& stream = devices_.cuda(device.index()).worker(runtime::DeviceStream::kCompute).stream();
    XRUN_TRY(part_of(device.index()).prepares.queue(step_, stream));
    return stream.synchronise();
  });
}

class BoundDevices final : public CudaDevices {
 public:
  explicit BoundDevices(std::vector<std::unique_ptr<runtime::Device>> devices) : CudaDevices(std::move(devices)) {}
  Result<std::unique_ptr<runtime::Backend>> bind(const Module& module, const planner::Program& program,
                                                 const runtime::BoundMemory& memory,
                                                 const runtime::BackendOptions& /*options*/) const override {
    return make_cuda_backend(module, program, memory, *this);
  }
};

}  // namespace

Result<std::unique_ptr<runtime::Backend>> make_cuda_backend(const Module& module, const planner::Program& program,
                                                            const runtime::BoundMemory& memory,
                                                            const CudaDevices& devices) {
  auto backend = std::make_unique<CudaBackend>(module, program, memory, devices);
  XRUN_TRY(backend->bind());
  return std::unique_ptr<runtime::Backend>(std::move(backend));
}

Result<std::unique_ptr<runtime::DeviceSet>> make_cuda_devices(const DriverTable& driver, std::span<const int> gpus,
                                                              int first) {
  XRUN_ASSIGN(auto devices, open_devices(driver, gpus, first));
  return std::unique_ptr<runtime::DeviceSet>(std::make_unique<BoundDevices>(std::move(devices)));
}

}  // namespace xrun::cuda
