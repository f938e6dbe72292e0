// The text of a program:
//   program training devices 2 (2 + 2 threads) batch 64 blocks of 8 micro-batches 4 replicas 1 partials 1 gpipe
//   stage 0 on 0: forward #0..#3, backward #9..#12; saves %4 %5; receives
//   head id on 1: 1000 x 64, pass of 64 rows, shards [0, 1000) @1
//   buffer b3 @0 0x1c0 + 4 096 activation layer0.relu m0  [3, 9]
//   i7 @0 compute forward stage 0 m1: b0 b2 -> b7 b8 | after i3
//     #0 b0+2048,512/block b2 -> b7,512/block
//      scratch b8,4096/worker (1024)
// Tests: tests/planner/emit/emit_test.cpp, tests/planner/report/text_test.cpp
#include <fmt/format.h>
#include <iterator>

#include "planner/program/program.h"

namespace xrun::planner {
namespace {

const char* name_of(Purpose purpose) {
  constexpr const char* kNames[] = {
      "weight",         "state",         "optimizer",     "prepared",       "gradient",  "head-weight",
      "head-optimizer", "head-prepared", "input",         "activation",     "gathered",  "terms",
      "head-lists",     "head-snapshot", "head-build",    "head-selection", "head-mass", "head-statistics",
      "head-softmax",   "head-logits",   "head-gradient", "head-scratch",   "scratch",   "norms",
      "result",         "head-scales",   "head-last",     "residual",       "pairs",     "head-sums"};
  static_assert(std::size(kNames) == static_cast<size_t>(Purpose::kHeadSums) + 1);
  return kNames[static_cast<size_t>(purpose)];
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

std::string to_line(const HeadPlan& head, const Graph& graph) {
  std::string text = fmt::format("head {}: {} x {}, passes of {} rows{}, top {}, shards",
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
  return text + "\n";
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
// with each row block, "b3+64,512/device" if it advances by 512 bytes with each other device of an exchange.
std::string to_text(const Operand& operand) {
  constexpr const char* kSteps[] = {"subtree", "block", "partial", "worker"};
  std::string text = fmt::format("b{}", operand.buffer.index);
  text += operand.offset > 0 ? fmt::format("+{}", operand.offset) : "";
  const char* const by = operand.count > 1 ? "device" : kSteps[static_cast<int>(operand.by)];
  return text + (operand.step == 0 ? "" : fmt::format(",{}/{}", operand.step, by));
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
    others += operand.count > 1 ? fmt::format("..{}/{}", operand.device(operand.count - 1), operand.stride) : "";
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

std::string print(const Program& program, const Graph& graph) {
  std::string text = fmt::format(
      "program {} devices {} ({} threads) batch {} blocks of {} micro-batches {} replicas {}{}"
      "{} partials {} {}{}\n",
      program.training ? "training" : "inference", program.devices, numbers(program.threads, " + "), program.batch,
      program.norm_rows, program.micro_batches, program.replicas,
      program.node_replicas > 1 ? fmt::format(", {} a node,", program.node_replicas) : "",
      program.sender_replicas > 1 ? fmt::format(", {} a sender,", program.sender_replicas) : "", program.partials,
      name_of(program.schedule), program.deterministic ? " deterministic" : "");
  for (const Stage& stage : program.stages) {
    text += fmt::format("stage {} on {}: forward {}; backward {}", stage.index, numbers(stage.devices, ", "),
                        list(stage.forward, "#"), list(stage.backward, "#"));
    if (!stage.recomputed.empty()) {
      text += "; again " + list(stage.recomputed, "#");
    }
    text += fmt::format("; saves {}; receives {}\n", list(stage.saved, "%"), list(stage.received, "%"));
  }
  for (const HeadPlan& head : program.heads) {
    text += to_line(head, graph);
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
