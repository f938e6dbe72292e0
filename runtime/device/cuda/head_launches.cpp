// Tests: tests/cuda/head_launches_test.cpp
#include "runtime/device/cuda/head_launches.h"

#include <cstddef>
#include <cstring>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "graph/base/check.h"
#include "ops/gpu/launch/head/head_join.h"
#include "ops/gpu/launch/head/head_passes.h"
#include "ops/optimizer/optimizer.h"
#include "runtime/device/tensor_update.h"

namespace xrun::cuda {
namespace {

using ops::KnownScalars;
using ops::gpu::GpuCombine;
using ops::gpu::GpuHeadJoin;
using ops::gpu::GpuHeadOperand;
using ops::gpu::GpuHeadPasses;
using ops::gpu::GpuLaunch;
using planner::Access;
using planner::HeadPlan;
using planner::Instruction;
using planner::Kind;
using planner::Operand;
using planner::Role;

CUdeviceptr address_of(const runtime::Binder& binder, const Operand& operand) {
  const runtime::OperandAddress address = binder.address(operand);
  XRUN_CHECK(address.input < 0, "heads on GPUs have copies of all inputs");
  return reinterpret_cast<CUdeviceptr>(address.base);
}

const Operand* find(const Instruction& instruction, Role role) {
  const auto at = std::ranges::find(instruction.operands, role, &Operand::role);
  return at == instruction.operands.end() ? nullptr : &*at;
}

// The launches of an instruction and, if it updates class rows, the scalars of the step.
class HeadWork final : public BoundWork {
 public:
  void begin_step(const runtime::StepContext& step) override {
    for (size_t i = 0; i < rules.size(); ++i) {
      const KnownScalars scalars = runtime::scalars_of(rules[i], form, step.rate, step.updates(), 1);
      std::memcpy(scalars_of_step->host().data() + i * sizeof scalars, &scalars, sizeof scalars);
    }
  }
  Status queue(const runtime::StepContext& step, Stream& stream) override {
    if (scalars_of_step != nullptr) {
      XRUN_TRY(scalars_of_step->copy(stream));
    }
    return launches.queue(step, stream);
  }

  ops::OptimizerForm form;
  std::vector<runtime::TensorUpdate> rules;  // rules of the class weights, then of the bias
  std::unique_ptr<HostTable> scalars_of_step;
  BoundLaunches launches;
};

class HeadBinder {
 public:
  HeadBinder(const Module& module, const planner::Program& program, const runtime::Binder& binder,
             const StepDecision& decision, const Instruction& instruction, const BoundDevice& device)
      : module_(module),
        program_(program),
        binder_(binder),
        decision_(decision),
        one_(instruction),
        device_(device),
        head_(program.heads[static_cast<size_t>(instruction.head)]) {}

  Status bind(HeadWork& work) const {
    switch (one_.kind) {
      case Kind::kReduceStats:
        return bind_combination(work);
      case Kind::kReduceDx:
      case Kind::kSumDx:
        return bind_dx(work);
      default:
        return bind_pass(work);
    }
  }

 private:
  HeadShape shape_of(const planner::HeadShard& shard) const {
    const int64_t rows = planner::is_head_sweep(one_.kind) ? program_.batch : head_.rows;
    return planner::head_shape(program_, module_.graph, head_, shard, rows);
  }
  CUdeviceptr scratch() const {
    const Operand* const operand = find(one_, Role::kScratch);
    return operand == nullptr ? 0 : address_of(binder_, *operand);
  }
  Status add(HeadWork& work, const std::vector<GpuLaunch>& launches, std::vector<uint64_t> inputs) const {
    return work.launches.add(device_.kernels, launches,
                             {.inputs = std::move(inputs), .scratch = scratch(), .flags = device_.memory.flags()});
  }

  // ---- passes over a shard

  // Stores the address of an operand of a pass; returns whether the instruction changes it.
  bool take(const Operand& operand, std::vector<uint64_t>& inputs) const {
    const bool bias = operand.param.valid() && operand.param == head_.bias;
    const auto set = [&](GpuHeadOperand which, int after = 0) {
      inputs[static_cast<size_t>(which) + static_cast<size_t>(after)] = address_of(binder_, operand);
    };
    using enum GpuHeadOperand;
    switch (operand.role) {
      case Role::kFeature:
        set(kFeatures);
        break;
      case Role::kLabel:
        set(kLabels);
        break;
      case Role::kRowFactor:
        set(kFactors);
        break;
      case Role::kSoftmax:
        set(kSoftmax);
        break;
      case Role::kLogits:
        set(kLogits);
        break;
      case Role::kStats:
        set(kStats);
        break;
      case Role::kDx:
        set(kDx);
        break;
      case Role::kWeight:
        set(bias ? kBias : kWeight);
        return operand.access == Access::kUpdate;
      case Role::kState:
        set(bias ? kBiasStates : kWeightStates, operand.index);
        break;
      case Role::kPrepared:
        set(kInverses);
        break;
      case Role::kNorms:
        if (operand.param.valid()) {
          set(bias ? kBiasSquares : kWeightSquares);
        }
        break;
      case Role::kScratch:
        break;
      default:
        XRUN_CHECK(false, std::string("a head pass of a GPU has no use for ") + name_of(operand.role));
    }
    return false;
  }

  Status bind_pass(HeadWork& work) const {
    std::vector<uint64_t> inputs(static_cast<size_t>(GpuHeadOperand::kCount));
    bool updates = false;
    for (const Operand& operand : one_.operands) {
      updates = take(operand, inputs) || updates;
    }
    const GpuHeadPasses passes(shape_of(head_.shards[static_cast<size_t>(one_.shard)]), device_.target);
    const bool factors = find(one_, Role::kRowFactor) != nullptr;
    if (one_.kind == Kind::kHeadForward) {
      return add(work, passes.forward(find(one_, Role::kLabel) != nullptr), std::move(inputs));
    }
    if (one_.kind == Kind::kHeadNorms) {
      return add(work, passes.gradient_norms(factors), std::move(inputs));
    }
    if (!updates) {
      return add(work, passes.backward(factors, nullptr), std::move(inputs));
    }
    XRUN_ASSIGN(const bool reads_scale, bind_update(work, inputs));
    const ops::gpu::GpuHeadRule rule{.form = work.form, .reads_scale = reads_scale};
    return add(work, one_.kind == Kind::kHeadBackward ? passes.backward(factors, &rule) : passes.update(factors, rule),
               std::move(inputs));
  }

  // Sets the addresses of the scalars. Returns whether the factor on the gradients is that of the decision, which the
  // instruction then makes before the update.
  Result<bool> bind_update(HeadWork& work, std::vector<uint64_t>& inputs) const {
    XRUN_ASSIGN(work.form, ops::optimizer_form(module_.train.optimizer, {}, module_.train.ema));
    for (const ParamId param : {head_.weight, head_.bias}) {
      if (param.valid()) {
        work.rules.push_back(runtime::rule_of(module_.train, work.form, module_.graph, param));
      }
    }
    const auto bytes = static_cast<Bytes>(work.rules.size() * sizeof(KnownScalars));
    XRUN_ASSIGN(work.scalars_of_step, HostTable::make(device_.device.context(), bytes));
    const auto set = [&](GpuHeadOperand which, uint64_t address) { inputs[static_cast<size_t>(which)] = address; };
    set(GpuHeadOperand::kWeightScalars, work.scalars_of_step->address());
    set(GpuHeadOperand::kBiasScalars, work.scalars_of_step->address() + sizeof(KnownScalars));
    const Operand* const norms = find(one_, Role::kNorms);
    if (norms != nullptr) {
      XRUN_TRY(decision_.add(work.launches, device_.kernels, one_, binder_));
      set(GpuHeadOperand::kGradScale, decision_.address() + offsetof(ops::gpu::GpuDecision, head_scale));
    }
    return norms != nullptr;
  }

  // ---- sums over shards

  Status bind_combination(HeadWork& work) const {
    const Graph& graph = module_.graph;
    GpuCombine what{.labels = find(one_, Role::kLabel) != nullptr,
                    .factors = find(one_, Role::kRowFactor) != nullptr,
                    .softmax = find(one_, Role::kSoftmax) != nullptr,
                    .loss = find(one_, Role::kLoss) != nullptr};
    what.checks_loss = program_.training && what.labels && head_.loss.valid();
    std::map<NodeId, size_t> lists;  // positions of the lists of best classes
    for (const Operand& operand : one_.operands) {
      if (operand.role == Role::kHits) {
        const Node& metric = graph.node(operand.node);
        what.hits.push_back(metric.op->metric_k(metric.attrs));
      } else if (operand.role == Role::kBestClasses) {
        lists[operand.node] = what.best.size();
        what.best.push_back({.k = operand.bytes / head_.rows / static_cast<Bytes>(sizeof(int32_t)),
                             .by_class = graph.node(operand.node).attrs.flag("by_class", false)});
      }
    }
    std::vector<ClassRange> shards;
    for (const planner::HeadShard& shard : head_.shards) {
      shards.push_back({shard.row_begin, shard.row_end});
    }
    std::vector<uint64_t> inputs(static_cast<size_t>(what.stats(shards.size())));
    size_t hits = 0;
    for (const Operand& operand : one_.operands) {
      const int position = operand.role == Role::kLabel         ? GpuCombine::kLabels
                           : operand.role == Role::kRowFactor   ? GpuCombine::kFactors
                           : operand.role == Role::kSoftmax     ? GpuCombine::kSoftmax
                           : operand.role == Role::kLoss        ? GpuCombine::kLoss
                           : operand.role == Role::kHits        ? what.hit(hits++)
                           : operand.role == Role::kBestClasses ? what.best_classes(lists.at(operand.node))
                           : operand.role == Role::kBestScores  ? what.best_scores(lists.at(operand.node))
                           : operand.role == Role::kStats       ? what.stats(static_cast<size_t>(operand.index))
                                                                : -1;
      XRUN_CHECK(position >= 0 || operand.role == Role::kScratch, "an operand that statistics do not have");
      if (position >= 0) {
        inputs[static_cast<size_t>(position)] = address_of(binder_, operand);
      }
    }
    const GpuHeadJoin join(shape_of(head_.shards.front()), std::move(shards), device_.target);
    return add(work, join.combine_stats(what), std::move(inputs));
  }

  Status bind_dx(HeadWork& work) const {
    std::vector<uint64_t> inputs(2);
    std::vector<Bytes> steps;
    Bytes step = 0;
    for (const Operand& operand : one_.operands) {
      if (operand.role == Role::kDx && operand.access == Access::kRead) {
        inputs.push_back(address_of(binder_, operand));
        steps.push_back(operand.step);
      } else if (operand.role == Role::kFeature) {
        inputs[GpuHeadJoin::kFeatures] = address_of(binder_, operand);
      } else if (operand.role != Role::kScratch) {  // the result
        inputs[GpuHeadJoin::kSum] = address_of(binder_, operand);
        step = operand.step;
      }
    }
    const GpuHeadJoin join(shape_of(head_.shards.front()), planner::classes_of_dx_terms(one_, head_), device_.target);
    const int64_t rows = program_.micro_batch_rows();
    return add(work, one_.kind == Kind::kSumDx ? join.sum_dx(steps, rows, step) : join.reduce_dx(steps, rows),
               std::move(inputs));
  }

  const Module& module_;
  const planner::Program& program_;
  const runtime::Binder& binder_;
  const StepDecision& decision_;
  const Instruction& one_;
  const BoundDevice& device_;
  const HeadPlan& head_;
};

}  // namespace

bool is_head_work(Kind kind) {
  return planner::is_head_sweep(kind) || kind == Kind::kHeadForward || kind == Kind::kReduceStats ||
         kind == Kind::kHeadBackward || kind == Kind::kSumDx || kind == Kind::kReduceDx;
}

Result<std::unique_ptr<BoundWork>> bind_head(const Module& module, const planner::Program& program,
                                             const runtime::Binder& binder, const StepDecision& decision,
                                             const Instruction& instruction, const BoundDevice& device) {
  auto work = std::make_unique<HeadWork>();
  XRUN_TRY(HeadBinder(module, program, binder, decision, instruction, device).bind(*work));
  return std::unique_ptr<BoundWork>(std::move(work));
}

Status bind_head_prepares(const Module& module, const planner::Program& program, const runtime::BoundMemory& memory,
                          int device, ops::GpuTarget target, KernelStore& kernels, BoundLaunches& launches) {
  std::map<std::pair<int, int>, std::vector<uint64_t>> shards;  // key: head and shard; value: operands
  for (const planner::Buffer& buffer : program.buffers) {
    const bool weight = buffer.purpose == planner::Purpose::kHeadWeight;
    if (buffer.device != device || (!weight && buffer.purpose != planner::Purpose::kHeadPrepared) ||
        buffer.param != program.heads[static_cast<size_t>(buffer.head)].weight) {
      continue;
    }
    std::vector<uint64_t>& inputs = shards[{buffer.head, buffer.shard}];
    inputs.resize(static_cast<size_t>(GpuHeadOperand::kCount));
    const GpuHeadOperand which = weight ? GpuHeadOperand::kWeight : GpuHeadOperand::kInverses;
    inputs[static_cast<size_t>(which)] = reinterpret_cast<uint64_t>(memory.at(buffer));
  }
  for (auto& [at, inputs] : shards) {
    const HeadPlan& head = program.heads[static_cast<size_t>(at.first)];
    const planner::HeadShard& shard = head.shards[static_cast<size_t>(at.second)];
    const GpuHeadPasses passes(planner::head_shape(program, module.graph, head, shard, head.rows), target);
    XRUN_TRY(launches.add(kernels, passes.prepare(), {.inputs = std::move(inputs)}));
  }
  return {};
}

}  // namespace xrun::cuda
