// The text of a program:
//   program training devices 2 (2 + 2 threads) batch 64 blocks of 8 micro-batches 4 replicas 1 partials 1 gpipe
//   stage 0 on 0: forward #0..#3, backward #9..#12; saves %4 %5; receives
//   head id on 1: 1000 x 64, pass of 64 rows, shards [0, 1000) @1
//   buffer b3 @0 0x1c0 + 4 096 activation layer0.relu m0  [3, 9]
//   i7 @0 compute forward stage 0 m1: b0 b2 -> b7 b8 | after i3
#include "planner/program.h"

#include <fmt/format.h>

#include "graph/base/check.h"

namespace xrun::planner {
namespace {

const char* name_of(Purpose purpose) {
  switch (purpose) {
    case Purpose::kWeight:
      return "weight";
    case Purpose::kState:
      return "state";
    case Purpose::kOptimizer:
      return "optimizer";
    case Purpose::kPrepared:
      return "prepared";
    case Purpose::kGradient:
      return "gradient";
    case Purpose::kHeadWeight:
      return "head-weight";
    case Purpose::kHeadOptimizer:
      return "head-optimizer";
    case Purpose::kHeadPrepared:
      return "head-prepared";
    case Purpose::kInput:
      return "input";
    case Purpose::kActivation:
      return "activation";
    case Purpose::kGathered:
      return "gathered";
    case Purpose::kHeadStats:
      return "head-statistics";
    case Purpose::kHeadSoftmax:
      return "head-softmax";
    case Purpose::kHeadGradient:
      return "head-gradient";
    case Purpose::kHeadScratch:
      return "head-scratch";
    case Purpose::kScratch:
      return "scratch";
    case Purpose::kNorms:
      return "norms";
    case Purpose::kResult:
      return "result";
  }
  return "";
}

const char* name_of(Pass pass) {
  switch (pass) {
    case Pass::kNone:
      return "nothing";
    case Pass::kForward:
      return "forward";
    case Pass::kBackward:
      return "backward";
    case Pass::kHeadForward:
      return "head-forward";
    case Pass::kReduceStats:
      return "reduce-statistics";
    case Pass::kHeadBackward:
      return "head-backward";
    case Pass::kHeadNorms:
      return "head-norms";
    case Pass::kHeadUpdate:
      return "head-update";
    case Pass::kFoldPartials:
      return "fold-partials";
    case Pass::kNorm:
      return "norm";
  }
  return "";
}

template <typename T>
std::string list(const std::vector<T>& ids, const char* prefix) {
  std::string text;
  for (const T& id : ids) {
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", prefix, id.index);
  }
  return text;
}

std::string numbers(const std::vector<int>& values, const char* between) {
  return fmt::format("{}", fmt::join(values, between));
}

std::string to_line(const Buffer& buffer) {
  std::string line = fmt::format("buffer b{} @{} {:#x} + {} {} {}", buffer.id.index,
                                 buffer.device == kHost ? "host" : std::to_string(buffer.device), buffer.offset,
                                 buffer.bytes, name_of(buffer.purpose), buffer.name);
  if (buffer.micro_batch >= 0) {
    line += fmt::format(" m{}", buffer.micro_batch);
  }
  if (buffer.replica > 0) {
    line += fmt::format(" r{}", buffer.replica);
  }
  if (buffer.shard >= 0) {
    line += fmt::format(" shard {}", buffer.shard);
  }
  return line + (buffer.persistent ? "" : fmt::format(" [{}, {}]", buffer.first_use, buffer.last_use)) + "\n";
}

std::string to_line(const Instruction& instruction) {
  std::string line =
      fmt::format("i{} @{} {} {}", instruction.id.index, instruction.device,
                  instruction.stream == Stream::kCompute ? "compute" : "comm",
                  instruction.kind == Kind::kRun ? name_of(instruction.pass) : name_of(instruction.kind));
  if (instruction.group >= 0) {
    line += fmt::format(" g{}", instruction.group);
  }
  if (instruction.stage >= 0) {
    line += fmt::format(" stage {}", instruction.stage);
  }
  if (instruction.head >= 0) {
    line += fmt::format(" head {}", instruction.head);
  }
  if (instruction.shard >= 0) {
    line += fmt::format(" shard {}", instruction.shard);
  }
  if (instruction.replica > 0) {
    line += fmt::format(" r{}", instruction.replica);
  }
  if (instruction.micro_batch >= 0) {
    line += fmt::format(" m{}", instruction.micro_batch);
  }
  line += fmt::format(": {} -> {}", list(instruction.reads, "b"), list(instruction.writes, "b"));
  return line + (instruction.deps.empty() ? "" : " | after " + list(instruction.deps, "i")) + "\n";
}

}  // namespace

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kRun:
      return "run";
    case Kind::kSend:
      return "send";
    case Kind::kRecv:
      return "recv";
    case Kind::kAllGather:
      return "all_gather";
    case Kind::kReduceScatter:
      return "reduce_scatter";
    case Kind::kAllReduce:
      return "all_reduce";
    case Kind::kCopy:
      return "copy";
    case Kind::kFree:
      return "free";
    case Kind::kUpdate:
      return "update";
  }
  return "";
}

HeadShape head_shape(const Program& program, const Graph& graph, const HeadPlan& head, const HeadShard& shard,
                     int64_t rows) {
  HeadShape shape;
  shape.classes = head.classes;
  shape.dim = head.dim;
  shape.shard = {shard.row_begin, shard.row_end};
  shape.rows = rows;
  shape.block_rows = program.block_rows;
  shape.bf16 = head.bf16;
  shape.bf16_features = graph.value(head.feature).type.dtype == DType::kBF16;
  const Node& node = graph.node(head.node);
  XRUN_CHECK(node.op->head != nullptr, "a head's node is a classifier");
  shape.form = node.op->head(node.attrs);
  if (head.loss.valid()) {
    const Node& loss = graph.node(head.loss);
    XRUN_CHECK(loss.op->margin != nullptr, "a loss on a head has a margin form");
    const auto margin = loss.op->margin(loss.attrs);
    XRUN_CHECK(margin.ok(), "the arguments of a loss were checked");
    shape.margin = *margin;
  }
  shape.row_weight = head.row_weight;
  shape.top_k = head.top_k;
  shape.workers = program.threads[static_cast<size_t>(shard.device)];
  return shape;
}

std::string print(const Program& program, const Graph& graph) {
  std::string text = fmt::format(
      "program {} devices {} ({} threads) batch {} blocks of {} micro-batches {} replicas {}"
      " partials {} {}{}\n",
      program.training ? "training" : "inference", program.devices, numbers(program.threads, " + "), program.batch,
      program.block_rows, program.micro_batches, program.replicas, program.partials,
      program.schedule == PipelineKind::kGpipe ? "gpipe" : "1f1b", program.deterministic ? " deterministic" : "");
  for (const Stage& stage : program.stages) {
    text += fmt::format("stage {} on {}: forward {}; backward {}", stage.index, numbers(stage.devices, ", "),
                        list(stage.forward, "#"), list(stage.backward, "#"));
    if (!stage.recomputed.empty()) {
      text += "; again " + list(stage.recomputed, "#");
    }
    text += fmt::format("; saves {}; receives {}; slices {} {}\n", list(stage.saved, "%"), list(stage.received, "%"),
                        stage.forward_layout.bytes, stage.backward_layout.bytes);
  }
  for (const HeadPlan& head : program.heads) {
    text += fmt::format("head {}: {} x {}, passes of {} rows{}, top {}, shards",
                        graph.heads[static_cast<size_t>(head.head)].name, head.classes, head.dim, head.rows,
                        head.update_sweep ? " and a sweep"
                        : head.frozen     ? ", frozen"
                                          : "",
                        head.top_k);
    for (const HeadShard& shard : head.shards) {
      text += fmt::format(" [{}, {}) @{}", shard.row_begin, shard.row_end, shard.device);
    }
    text += "\n";
  }
  for (const Arena& arena : program.arenas) {
    text += fmt::format("arena @{} {} (live {})\n", arena.device == kHost ? "host" : std::to_string(arena.device),
                        arena.bytes, arena.live_max);
  }
  for (const Buffer& buffer : program.buffers) {
    text += to_line(buffer);
  }
  for (const Instruction& instruction : program.instructions) {
    text += to_line(instruction);
  }
  return text;
}

}  // namespace xrun::planner
