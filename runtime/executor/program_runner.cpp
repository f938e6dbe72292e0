#include "runtime/executor/program_runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "graph/base/check.h"

namespace xrun::runtime {

using planner::Buffer;
using planner::Instruction;
using planner::Kind;
using planner::Operand;
using planner::Purpose;
using planner::Role;

ProgramRunner::ProgramRunner(const Module& module, const planner::Program& program, const BoundMemory& memory,
                             const KernelSet& kernels, ops::Isa isa, const ops::OptimizerForm& form)
    : module_(module),
      program_(program),
      memory_(memory),
      kernels_(kernels),
      binder_(module.graph, program, memory),
      heads_(module.graph, program, isa),
      stage_runner_(module.graph, program, binder_, kernels,
                    *std::max_element(program.threads.begin(), program.threads.end())),
      head_runner_(module, program, binder_, heads_, form),
      update_runner_(module, program, binder_, kernels, isa, form),
      exchanges_(module.graph, program, binder_, heads_) {
  bound_.reserve(program.instructions.size());
  for (const Instruction& instruction : program.instructions) {
    bound_.push_back(communicates(instruction.kind) ? Bound() : bind(instruction));
  }
}

ProgramRunner::Bound ProgramRunner::bind(const Instruction& instruction) {
  if (is_stage_pass(instruction.kind)) {
    return [this, pass = stage_runner_.bind(instruction)](ops::Workers& workers) {
      return stage_runner_.run(pass, step_, workers);
    };
  }
  if (is_head_pass(instruction.kind)) {
    return [this, head = head_runner_.bind(instruction),
            norms = norms_of(instruction)](ops::Workers& workers) mutable -> Status {
      XRUN_ASSIGN(const double scale, grad_scale(norms));
      return head_runner_.run(head, step_, scale, workers);
    };
  }
  return instruction.kind == Kind::kCopy ? bind_copy(instruction) : bind_update(instruction);
}

ProgramRunner::Bound ProgramRunner::bind_update(const Instruction& instruction) {
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
      return [this, update = std::move(update), norms = norms_of(instruction)](ops::Workers& workers) -> Status {
        XRUN_ASSIGN(const double scale, grad_scale(norms));
        return update_runner_.apply(update, step_, scale, workers);
      };
  }
}

ProgramRunner::Bound ProgramRunner::bind_copy(const Instruction& instruction) const {
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
      std::memcpy(segment.to, segment.from.at(step_), segment.bytes);
    }
    return Status();
  };
}

std::span<const double> ProgramRunner::norms_of(const Instruction& instruction) const {
  for (const Operand& operand : instruction.operands) {
    if (operand.role == Role::kNorms && !operand.param.valid()) {
      return {binder_.at<const double>(operand), static_cast<size_t>(operand.bytes) / sizeof(double)};
    }
  }
  return {};
}

Result<double> ProgramRunner::grad_scale(std::span<const double> norms) {
  if (norms.empty()) {
    return 1;
  }
  double total = 0;
  for (const double sum : norms) {
    total += sum;
  }
  const double norm = std::sqrt(total);
  grad_norm_.store(norm, std::memory_order_relaxed);
  if (!std::isfinite(norm)) {
    return Error{ErrorKind::kNonFinite, "XG0810",
                 "the gradients of step " + std::to_string(step_.step + 1) + " are not finite: their norm is " +
                     std::to_string(norm),
                 "lower `train.lr`, or lengthen its warmup", module_.train.span};
  }
  const double limit = module_.train.clip.limit;
  return norm > limit ? limit / norm : 1;
}

Status ProgramRunner::run(const Instruction& instruction, ops::Workers& workers) {
  return bound_[static_cast<size_t>(instruction.id.index)](workers);
}

Status ProgramRunner::prepare(const Instruction& instruction, Exchange& exchange) {
  exchanges_.prepare(instruction, exchange);
  return {};
}

Status ProgramRunner::prepare_weights(int device, ops::Workers& workers) {
  std::map<std::pair<ParamId, int>, std::byte*> weights;  // (parameter, replica)
  const Buffer* scratch = nullptr;                        // the largest: between steps all of it is free
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

}  // namespace xrun::runtime
