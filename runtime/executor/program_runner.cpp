#include "runtime/executor/program_runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/base/check.h"
#include "runtime/executor/row_offsets.h"

namespace xrun::runtime {
namespace {

using planner::Buffer;
using planner::HeadPlan;
using planner::Instruction;
using planner::Kind;
using planner::Pass;
using planner::Purpose;

}  // namespace

ProgramRunner::ProgramRunner(const Module& module, const planner::Program& program, const BoundMemory& memory,
                             const KernelSet& kernels, ops::Isa isa, const ops::OptimizerForm& form)
    : module_(module),
      program_(program),
      memory_(memory),
      kernels_(kernels),
      norms_(norm_layout(module)),
      binder_(module.graph, program, memory, kernels),
      heads_(module.graph, program, isa),
      stage_runner_(module.graph, program, *std::max_element(program.threads.begin(), program.threads.end())),
      head_runner_(module, program, memory, binder_, heads_, norms_, form),
      update_runner_(module, program, memory, kernels, binder_, norms_, isa, form),
      exchanges_(module.graph, program, memory, binder_, heads_, norms_) {
  bound_.reserve(program.instructions.size());
  for (const Instruction& instruction : program.instructions) {
    bound_.push_back(bind(instruction));
  }
}

ProgramRunner::Bound ProgramRunner::bind(const Instruction& instruction) const {
  if (instruction.kind == Kind::kUpdate) {
    return update_runner_.bind(instruction);
  }
  if (instruction.kind == Kind::kCopy) {
    return bind_copy(instruction);
  }
  if (instruction.kind != Kind::kRun) {
    return {};
  }
  switch (instruction.pass) {
    case Pass::kForward:
    case Pass::kBackward:
      return binder_.bind(instruction);
    case Pass::kHeadForward:
    case Pass::kHeadBackward:
    case Pass::kHeadUpdate:
    case Pass::kHeadNorms:
    case Pass::kReduceStats:
      return head_runner_.bind(instruction);
    case Pass::kFoldPartials:
    case Pass::kNorm:
      return update_runner_.bind(instruction);
    case Pass::kNone:
      break;
  }
  return {};
}

BoundCopy ProgramRunner::bind_copy(const Instruction& instruction) const {
  const HeadPlan& head = program_.heads[static_cast<size_t>(instruction.head)];
  BoundCopy copy;
  XRUN_CHECK(instruction.reads.size() == instruction.writes.size(), "a copy has as many sources as targets");
  for (size_t i = 0; i < instruction.reads.size(); ++i) {
    const Buffer& from = program_.buffer(instruction.reads[i]);
    const Buffer& to = program_.buffer(instruction.writes[i]);
    // Best classes of logits are two tensors one after the other; everything else is one.
    const bool best = from.value.valid() && from.value == head.logits;
    const Bytes row = best ? head.top_k * 4
                      : from.purpose == Purpose::kHeadSoftmax
                          ? static_cast<Bytes>(sizeof(ops::RowSoftmax))
                          : module_.graph.value(from.value).type.bytes(1, program_.block_rows);
    const auto rows_of = [&](const Buffer& buffer) { return buffer.micro_batch >= 0 ? head.rows : program_.batch; };
    for (int part = 0; part < (best ? 2 : 1); ++part) {
      for (int replica = 0; replica < program_.replicas; ++replica) {
        const int micro_batch = replica * micro_batches_of_replica(program_) + instruction.micro_batch;
        const auto offset = [&](const Buffer& buffer) {
          return (head_place(program_, head, buffer, micro_batch) + part * rows_of(buffer)) * row;
        };
        BoundCopy::Segment segment;
        if (from.purpose == Purpose::kInput) {
          segment.from = {.input = binder_.input_of(from.value), .offset = offset(from)};
        } else {
          segment.from = {.base = memory_.at(from) + offset(from)};
        }
        segment.to = memory_.at(to) + offset(to);
        segment.bytes = program_.micro_batch_rows() * row;
        copy.segments.push_back(segment);
      }
    }
  }
  return copy;
}

Result<double> ProgramRunner::grad_scale(const Instruction& instruction) {
  const ClipSpec& clip = module_.train.clip;
  const Buffer* buffer = find_purpose(program_, instruction, Purpose::kNorms);
  if (clip.kind != ClipSpec::kNorm || buffer == nullptr) {
    return 1;
  }
  const auto* sums = reinterpret_cast<const double*>(memory_.at(*buffer));
  double total = 0;
  for (int64_t i = 0; i < norms_.total; ++i) {
    total += sums[i];
  }
  const double norm = std::sqrt(total);
  grad_norm_.store(norm, std::memory_order_relaxed);
  if (!std::isfinite(norm)) {
    return Error{ErrorKind::kNonFinite, "XG0810",
                 "the gradients of step " + std::to_string(step_.step + 1) + " are not finite: their norm is " +
                     std::to_string(norm),
                 "lower `train.lr`, or lengthen its warmup", module_.train.span};
  }
  return norm > clip.limit ? clip.limit / norm : 1;
}

Status ProgramRunner::run(const Instruction& instruction, ops::Workers& workers) {
  Bound& bound = bound_[static_cast<size_t>(instruction.id.index)];
  if (auto* pass = std::get_if<BoundPass>(&bound)) {
    return stage_runner_.run(*pass, instruction.pass == Pass::kForward, step_, workers);
  }
  if (auto* head = std::get_if<BoundHead>(&bound)) {
    const bool clipped = instruction.pass == Pass::kHeadUpdate && module_.train.clip.heads;
    double scale = 1;
    if (clipped) {
      XRUN_ASSIGN(scale, grad_scale(instruction));
    }
    return head_runner_.run(instruction, *head, step_, scale, workers);
  }
  if (auto* update = std::get_if<BoundUpdate>(&bound)) {
    if (instruction.pass == Pass::kFoldPartials) {
      update_runner_.fold_partials(*update, workers);
      return {};
    }
    if (instruction.pass == Pass::kNorm) {
      update_runner_.add_squares(*update, workers);
      return {};
    }
    XRUN_ASSIGN(const double scale, grad_scale(instruction));
    return update_runner_.apply(*update, step_, scale, workers);
  }
  if (auto* copy = std::get_if<BoundCopy>(&bound)) {
    for (const BoundCopy::Segment& segment : copy->segments) {
      std::memcpy(segment.to, segment.from.at(step_), static_cast<size_t>(segment.bytes));
    }
  }
  return {};
}

Status ProgramRunner::prepare(const Instruction& instruction, Exchange& exchange) {
  exchanges_.prepare(instruction, step_.inputs, exchange);
  return {};
}

Status ProgramRunner::prepare_weights() {
  ops::InlineWorkers workers;
  BoundUpdate all;
  for (const Buffer& buffer : program_.buffers) {
    if (buffer.purpose != Purpose::kPrepared) {
      continue;
    }
    all.prepares = {update_runner_.bind_prepare(buffer)};
    // Between steps all scratch is free; every slice holds what the kernels of its device ask for.
    const Buffer* scratch = nullptr;
    for (const Buffer& one : program_.buffers) {
      const bool mine = one.purpose == Purpose::kScratch && one.device == buffer.device;
      scratch = mine && (scratch == nullptr || one.bytes > scratch->bytes) ? &one : scratch;
    }
    all.scratch = scratch == nullptr ? nullptr : memory_.at(*scratch);
    XRUN_TRY(update_runner_.prepare(all, workers));
  }
  head_runner_.prepare(workers);
  return {};
}

}  // namespace xrun::runtime
