// The text of a program:
//   program training devices 2 (2 + 2 threads) batch 64 blocks of 8 micro-batches 4 replicas 1 partials 1 gpipe
//   stage 0 on 0: forward #0..#3, backward #9..#12; saves %4 %5; receives
//   head id on 1: 1000 x 64, pass of 64 rows, shards [0, 1000) @1
//   buffer b3 @0 0x1c0 + 4 096 activation layer0.relu m0  [3, 9]
//   i7 @0 compute forward stage 0 m1: b0 b2 -> b7 b8 | after i3
//     #0 b0+2048,512/block b2 -> b7,512/block
//      scratch b8,4096/worker (1024)
// Tests: tests/planner/emit/emit_test.cpp, tests/planner/report/text_test.cpp
#include "planner/program/program.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <set>

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
    case Purpose::kTerms:
      return "terms";
    case Purpose::kHeadLists:
      return "head-lists";
    case Purpose::kHeadSnapshot:
      return "head-snapshot";
    case Purpose::kHeadBuild:
      return "head-build";
    case Purpose::kHeadMass:
      return "head-mass";
    case Purpose::kHeadSelection:
      return "head-selection";
    case Purpose::kHeadStats:
      return "head-statistics";
    case Purpose::kHeadSoftmax:
      return "head-softmax";
    case Purpose::kHeadLogits:
      return "head-logits";
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
    case Purpose::kHeadScale:
      return "head-scales";
    case Purpose::kHeadLast:
      return "head-last";
    case Purpose::kResidual:
      return "residual";
    case Purpose::kPairs:
      return "pairs";
    case Purpose::kHeadSums:
      return "head-sums";
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
  if (buffer.head_pass >= 0) {
    line += fmt::format(" p{}", buffer.head_pass);
  }
  if (buffer.replica > 0) {
    line += fmt::format(" r{}", buffer.replica);
  }
  if (buffer.shard >= 0) {
    line += fmt::format(" shard {}", buffer.shard);
  }
  return line + (buffer.persistent ? "" : fmt::format(" [{}, {}]", buffer.first_use, buffer.last_use)) + "\n";
}

// Returns an operand as text: "b3+64" if its address is fixed, "b3+64,512/block" if the address advances by 512 bytes
// with each row block.
std::string to_text(const Operand& operand) {
  constexpr const char* kSteps[] = {"subtree", "block", "partial", "worker"};
  std::string text = fmt::format("b{}", operand.buffer.index);
  text += operand.offset > 0 ? fmt::format("+{}", operand.offset) : "";
  return text + (operand.step == 0 ? "" : fmt::format(",{}/{}", operand.step, kSteps[static_cast<int>(operand.by)]));
}

// Returns the operands of an instruction as text: one line for each node of a stage pass, and one line for all operands
// that belong to no node.
std::string operand_lines(const Instruction& instruction) {
  std::string nodes;
  std::string others;
  NodeId node;
  for (const Operand& operand : instruction.operands) {
    if (operand.role == Role::kInput || operand.role == Role::kOutput) {
      nodes += operand.node != node ? fmt::format("\n    #{}", operand.node.index) : "";
      nodes += (operand.role == Role::kOutput && operand.index == 0 ? " -> " : " ") + to_text(operand);
      node = operand.node;
      continue;
    }
    others += fmt::format("{} {}", others.empty() ? "    " : "; ", name_of(operand.role));
    others += operand.node.valid() ? fmt::format(" #{}", operand.node.index) : "";
    others += operand.param.valid() ? fmt::format(" w{}", operand.param.index) : "";
    others += operand.index >= 0 ? fmt::format(" {}", operand.index) : "";
    others += fmt::format(" {} ({})", to_text(operand), operand.bytes);
  }
  return nodes + (others.empty() ? "" : "\n" + others) + "\n";
}

std::string to_text(const Instruction& instruction) {
  std::string line =
      fmt::format("i{} @{} {} {}", instruction.id.index, instruction.device,
                  instruction.stream == Stream::kCompute ? "compute" : "comm", name_of(instruction.kind));
  const auto add = [&](const char* name, int number) { line += number >= 0 ? fmt::format(" {}{}", name, number) : ""; };
  add("g", instruction.group);
  add("stage ", instruction.stage);
  add("head ", instruction.head);
  add("shard ", instruction.shard);
  add("r", instruction.replica == 0 ? -1 : instruction.replica);
  add("m", instruction.micro_batch);
  add("p", instruction.head_pass);
  add("gather ", instruction.gather);
  line += fmt::format(": {} -> {}", list(instruction.reads, "b"), list(instruction.writes, "b"));
  line += instruction.deps.empty() ? "" : " | after " + list(instruction.deps, "i");
  line += instruction.releases.empty() ? "" : " | released " + list(instruction.releases, "i");
  return line + operand_lines(instruction);
}

}  // namespace

const char* name_of(Kind kind) {
  constexpr const char* kNames[] = {
      "forward",     "backward",  "head-select", "head-forward",  "reduce-statistics", "head-backward", "head-norms",
      "head-update", "head-mass", "reduce-dx",   "fold-partials", "sum-replicas",      "norm",          "update",
      "copy",        "send",      "recv",        "all_gather",    "reduce_scatter",    "compress",      "sum_tied",
      "sum-dx"};
  return kNames[static_cast<size_t>(kind)];
}

const char* name_of(Role role) {
  constexpr const char* kNames[] = {
      "zeroed",     "input",         "output",           "scratch",    "feature", "label", "softmax",
      "statistics", "logits",        "selection",        "lists",      "mass",    "dx",    "loss",
      "hits",       "best classes",  "best scores",      "gradient",   "weight",  "state", "prepared",
      "norms",      "running state", "batch statistics", "from",       "to",      "sent",  "received",
      "sum",        "term",          "feature gradient", "row factor", "scales",  "last",  "pairs"};
  return kNames[static_cast<size_t>(role)];
}

void derive_accesses(Instruction& instruction) {
  instruction.reads.clear();
  instruction.writes.clear();
  // The first read and the first write of each buffer, found in a sorted list of all accesses.
  struct Touch {
    BufferId buffer;
    bool writes = false;
    size_t at = 0;
    auto operator<=>(const Touch&) const = default;
  };
  std::vector<Touch> all;
  all.reserve(instruction.operands.size());
  for (size_t at = 0; at < instruction.operands.size(); ++at) {
    const Operand& operand = instruction.operands[at];
    if (operand.access != Access::kWrite) {
      all.push_back({operand.buffer, false, at});
    }
    if (operand.access != Access::kRead) {
      all.push_back({operand.buffer, true, at});
    }
  }
  std::ranges::sort(all);
  std::vector<size_t> reads;
  std::vector<size_t> writes;
  for (size_t i = 0; i < all.size();) {
    const BufferId buffer = all[i].buffer;
    const size_t none = instruction.operands.size();
    const size_t read = all[i].writes ? none : all[i].at;
    while (i < all.size() && all[i].buffer == buffer && !all[i].writes) {
      ++i;
    }
    const size_t write = i < all.size() && all[i].buffer == buffer ? all[i].at : none;
    while (i < all.size() && all[i].buffer == buffer) {
      ++i;
    }
    // An exchange sends bytes that were written before, even if it also receives other bytes of the same buffer.
    if (read != none && (communicates(instruction.kind) || read <= write)) {
      reads.push_back(read);
    }
    if (write != none) {
      writes.push_back(write);
    }
  }
  for (const bool written : {false, true}) {
    std::vector<size_t>& places = written ? writes : reads;
    std::ranges::sort(places);
    for (const size_t at : places) {
      (written ? instruction.writes : instruction.reads).push_back(instruction.operands[at].buffer);
    }
  }
}

std::vector<ClassRange> classes_of_dx_terms(const Instruction& sum, const HeadPlan& head) {
  std::vector<ClassRange> terms;
  for (const Operand& operand : sum.operands) {
    if (operand.role == Role::kDx && operand.access == Access::kRead) {
      const HeadShard& shard = head.shards[static_cast<size_t>(operand.index)];
      if (!terms.empty()) {
        terms.back().end = shard.row_begin;
      }
      // The last term of a sum on a node is one shard and ends with it. The terms of kReduceDx together have all
      // classes, so its last term ends with the last class.
      terms.push_back({shard.row_begin, sum.kind == Kind::kSumDx ? shard.row_end : head.classes});
    }
  }
  return terms;
}

HeadShape head_shape(const Program& program, const Graph& graph, const HeadPlan& head, const HeadShard& shard,
                     int64_t rows) {
  HeadShape shape;
  shape.blocks = head.blocks();
  shape.dim = head.dim;
  shape.shard = {shard.row_begin, shard.row_end};
  shape.rows = rows;
  shape.norm_rows = program.norm_rows;
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
  } else {
    shape.margin.scale = node.attrs.real("scale", 1);  // set for inference
  }
  shape.row_weight = head.row_weight;
  shape.top_k = head.top_k;
  shape.workers = program.threads[static_cast<size_t>(shard.device)];
  shape.active = head.active;
  shape.step_rows = program.batch;
  shape.neighbours = head.neighbours;
  shape.log_q = head.log_q;
  shape.untouched = head.untouched;
  shape.weights = head.weights;
  shape.states = head.states;
  shape.state_count = head.state_count;
  shape.kept_blocks = shard.kept_blocks;
  return shape;
}

bool is_mapped(const Program& program, const Buffer& buffer) {
  const bool rows = buffer.purpose == Purpose::kHeadWeight || buffer.purpose == Purpose::kHeadOptimizer ||
                    buffer.purpose == Purpose::kHeadScale || buffer.purpose == Purpose::kHeadLast;
  return rows && buffer.head >= 0 && buffer.head < std::ssize(program.heads) &&
         program.heads[static_cast<size_t>(buffer.head)].mapped;
}

Bytes mapped_bytes(const Program& program, int device) {
  Bytes sum = 0;
  for (const Buffer& buffer : program.buffers) {
    sum += buffer.device == device && is_mapped(program, buffer) ? align_up(buffer.bytes, kMappedAlignment) : 0;
  }
  return sum;
}

RowsLayout rows_layout(const Program& program, const Graph& graph, size_t head) {
  const HeadPlan& plan = program.heads[head];
  RowsLayout layout{.tensor = graph.param(plan.weight).name, .rows = plan.classes};
  for (const Buffer& buffer : program.buffers) {
    const bool known = std::ranges::find(layout.sections, buffer.name, &RowsSection::name) != layout.sections.end();
    if (buffer.head != static_cast<int32_t>(head) || !is_mapped(program, buffer) || known) {
      continue;
    }
    const auto shard = std::ranges::find(plan.shards, buffer.shard, &HeadShard::shard);
    XRUN_CHECK(shard != plan.shards.end() && shard->row_end > shard->row_begin, "class rows of no shard");
    const bool weights = buffer.purpose == Purpose::kHeadWeight && buffer.param == plan.weight;
    const bool states = buffer.purpose == Purpose::kHeadOptimizer && buffer.param == plan.weight;
    const RowFormat format = weights ? plan.weights : states ? plan.states : RowFormat::kF32;
    const DType dtype = buffer.purpose == Purpose::kHeadLast ? DType::kI32
                        : format == RowFormat::kF32          ? DType::kF32
                        : format == RowFormat::kBf16         ? DType::kBF16
                                                             : DType::kF8E4M3;
    layout.sections.push_back({.name = buffer.name,
                               .dtype = std::string(name_of(dtype)),
                               .row_bytes = buffer.bytes / (shard->row_end - shard->row_begin)});
  }
  return layout;
}

KnnShape knn_shape(const Program& program, const HeadPlan& head) {
  return {.classes = head.classes,
          .dim = head.dim,
          .neighbours = head.neighbours,
          .workers = std::accumulate(program.threads.begin(), program.threads.end(), 0)};
}

KnnCellsShape knn_cells_shape(const Program& program, const HeadPlan& head) {
  return {.graph = knn_shape(program, head), .probes = head.probes};
}

int workers_of_rank(const Program& program, int rank) {
  int workers = 0;
  for (int d = 0; d < program.devices; ++d) {
    workers += program.rank_of(d) == rank ? program.threads[static_cast<size_t>(d)] : 0;
  }
  return workers;
}

std::string print(const Program& program, const Graph& graph) {
  std::string text = fmt::format(
      "program {} devices {} ({} threads) batch {} blocks of {} micro-batches {} replicas {}{}"
      "{} partials {} {}{}\n",
      program.training ? "training" : "inference", program.devices, numbers(program.threads, " + "), program.batch,
      program.norm_rows, program.micro_batches, program.replicas,
      program.node_replicas > 1 ? fmt::format(", {} a node,", program.node_replicas) : "",
      program.sender_replicas > 1 ? fmt::format(", {} a sender,", program.sender_replicas) : "", program.partials,
      program.schedule == PipelineKind::kGpipe ? "gpipe" : "1f1b", program.deterministic ? " deterministic" : "");
  for (const Stage& stage : program.stages) {
    text += fmt::format("stage {} on {}: forward {}; backward {}", stage.index, numbers(stage.devices, ", "),
                        list(stage.forward, "#"), list(stage.backward, "#"));
    if (!stage.recomputed.empty()) {
      text += "; again " + list(stage.recomputed, "#");
    }
    text += fmt::format("; saves {}; receives {}\n", list(stage.saved, "%"), list(stage.received, "%"));
  }
  for (const HeadPlan& head : program.heads) {
    text += fmt::format("head {}: {} x {}, passes of {} rows{}, top {}, shards",
                        graph.heads[static_cast<size_t>(head.head)].name, head.classes, head.dim, head.rows,
                        head.update_sweep ? " and a sweep"
                        : head.frozen     ? ", frozen"
                                          : "",
                        head.top_k);
    if (head.weights != RowFormat::kF32 || head.states != RowFormat::kF32) {
      text.insert(text.size() - sizeof(", shards") + 1,
                  fmt::format(", rows {}, states {}", name_of(head.weights), name_of(head.states)));
    }
    if (head.mapped) {
      text.insert(text.size() - sizeof(", shards") + 1, ", in a file");
    }
    for (const HeadShard& shard : head.shards) {
      text += fmt::format(" [{}, {}) @{}", shard.row_begin, shard.row_end, shard.device);
      text += shard.kept_blocks > 0 ? fmt::format(" keeps {}", shard.kept_blocks) : "";
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
    text += to_text(instruction);
  }
  return text;
}

}  // namespace xrun::planner
