#include "planner/verify/verify_program.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "planner/program/replica_sums.h"
#include "planner/verify/verify_parts.h"

namespace xrun::planner {
namespace {

constexpr int kMostDevices = 4096;
// Limits of the numbers in a program. A product of a size and a number within these limits fits into 64 bits.
constexpr int64_t kMost = int64_t{1} << 40;
constexpr int64_t kMostRows = int64_t{1} << 31;
constexpr int64_t kMostClasses = int64_t{1} << 36;
// The maximum number of ranges of bytes that exchanges name, which bounds the memory and the time of later checks.
constexpr int64_t kMostRanges = int64_t{1} << 25;
// The maximum number of blocks that exchanges name. A run of operands may name many blocks in one range.
constexpr int64_t kMostBlocks = int64_t{1} << 28;

class Structure {
 public:
  Structure(const Program& program, const Graph* graph) : program_(program), graph_(graph) {}

  Status run() {
    XRUN_TRY(check_numbers());
    for (const Stage& stage : program_.stages) {
      XRUN_TRY(check_stage(stage));
      XRUN_TRY(check_states(stage));
    }
    XRUN_TRY(check_nodes());
    XRUN_TRY(verify_pipeline(program_));
    for (const HeadPlan& head : program_.heads) {
      XRUN_TRY(check_head(head));
    }
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      if (program_.buffers[i].id.index != static_cast<int32_t>(i)) {
        return wrong("buffer {} has another number", i);
      }
      XRUN_TRY(check_buffer(program_.buffers[i]));
    }
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      if (program_.instructions[i].id.index != static_cast<int32_t>(i)) {
        return wrong("instruction {} has another number", i);
      }
      XRUN_TRY(check_instruction(program_.instructions[i]));
    }
    return {};
  }

 private:
  Status check_numbers() const {
    const Program& p = program_;
    if (!inside(p.devices, 1, kMostDevices) || p.threads.size() != static_cast<size_t>(p.devices)) {
      return wrong("{} devices with {} thread counts", p.devices, p.threads.size());
    }
    for (const int threads : p.threads) {
      if (!inside(threads, 1, 65536)) {
        return wrong("a device with {} threads", threads);
      }
    }
    if (!p.device_nodes.empty() && p.device_nodes.size() != static_cast<size_t>(p.devices)) {
      return wrong("{} devices on nodes of {}", p.devices, p.device_nodes.size());
    }
    if (!inside(p.batch, 1, kMostRows) || !inside(p.norm_rows, 1, p.batch + 1) || p.batch % p.norm_rows != 0) {
      return wrong("batch {} in row blocks of {}", p.batch, p.norm_rows);
    }
    const int64_t blocks = p.batch / p.norm_rows;
    if (!inside(p.micro_batches, 1, blocks + 1) || blocks % p.micro_batches != 0 ||
        !inside(p.replicas, 1, std::min<int64_t>(blocks, kMostReplicas) + 1) || p.micro_batches % p.replicas != 0 ||
        !inside(p.partials, 1, blocks + 1) || p.partials % p.replicas != 0 || p.partials / p.replicas > kMostPartials) {
      return wrong("{} micro-batches, {} replicas and {} partials of {} row blocks", p.micro_batches, p.replicas,
                   p.partials, blocks);
    }
    if (!inside(p.node_replicas, 1, p.replicas + 1) || p.replicas % p.node_replicas != 0) {
      return wrong("{} replicas, {} of them on a node", p.replicas, p.node_replicas);
    }
    if (p.arenas.size() != static_cast<size_t>(p.devices) + 1) {
      return wrong("{} arenas for {} devices and the host", p.arenas.size(), p.devices);
    }
    for (size_t i = 0; i < p.arenas.size(); ++i) {
      if (p.arenas[i].device != static_cast<int>(i) - 1 || !inside(p.arenas[i].bytes, 0, int64_t{1} << 50)) {
        return wrong("arena {} is of device {} and has {} bytes", i, p.arenas[i].device, p.arenas[i].bytes);
      }
    }
    return {};
  }

  // Checks the numbers of replicas that share a node against the nodes of the devices.
  Status check_nodes() const {
    const Program& p = program_;
    std::vector<std::vector<int>> devices;  // index: stage
    for (const Stage& stage : p.stages) {
      devices.push_back(stage.devices);
    }
    const int together = longest_runs(p.device_nodes, devices);
    if (p.sender_replicas != 1 && p.sender_replicas != together) {
      return wrong("{} replicas compress together, but {} share a node", p.sender_replicas, together);
    }
    if (const int of_node = replicas_of_node(p.device_nodes, devices); p.node_replicas != of_node) {
      return wrong("{} replicas sum on a node first, but {} have their devices on one node", p.node_replicas, of_node);
    }
    return {};
  }

  bool is_node(NodeId id) const { return id.index >= 0 && (!graph_ || inside(id.index, 0, count(graph_->nodes))); }
  bool is_value(ValueId id) const { return id.index >= 0 && (!graph_ || inside(id.index, 0, count(graph_->values))); }
  bool is_param(ParamId id) const { return id.index >= 0 && (!graph_ || inside(id.index, 0, count(graph_->params))); }

  Status check_stage(const Stage& stage) {
    if (&stage != &program_.stages[0] + stage.index || stage.devices.size() != static_cast<size_t>(program_.replicas)) {
      return wrong("stage {} has {} devices for {} replicas", stage.index, stage.devices.size(), program_.replicas);
    }
    for (size_t r = 0; r < stage.devices.size(); ++r) {
      const int device = stage.devices[r];
      if (!inside(device, 0, program_.devices) || replicas_.try_emplace(device, r).first->second != r) {
        return wrong("stage {} is on device {}, which does not exist or has stages of another replica", stage.index,
                     device);
      }
    }
    for (const auto* nodes : {&stage.forward, &stage.backward, &stage.recomputed}) {
      for (const NodeId id : *nodes) {
        if (!is_node(id)) {
          return wrong("stage {} has node {}", stage.index, id.index);
        }
      }
    }
    for (const auto* values : {&stage.saved, &stage.received}) {
      for (const ValueId id : *values) {
        if (!is_value(id)) {
          return wrong("stage {} has value {}", stage.index, id.index);
        }
      }
    }
    return {};
  }

  // Checks that the states that a stage updates are not read in any other stage.
  Status check_states(const Stage& stage) const {
    if (!graph_ || !program_.training) {
      return {};
    }
    const std::set<NodeId> own(stage.forward.begin(), stage.forward.end());
    std::set<ValueId> states;
    for (const NodeId id : stage.forward) {
      const Node& node = graph_->node(id);
      for (const ValueId input : node.inputs) {
        const ParamId param = graph_->value(input).param;
        if (node.op->folds_states && param.valid() && !graph_->param(param).trained) {
          states.insert(input);
        }
      }
    }
    for (size_t i = 0; i < graph_->nodes.size(); ++i) {
      const Node& node = graph_->nodes[i];
      const auto read = std::ranges::find_if(node.inputs, [&](ValueId input) { return states.contains(input); });
      if (node.phase == Phase::kForward && read != node.inputs.end() && !own.contains(NodeId(i))) {
        return wrong("node {} reads a state that stage {} updates", i, stage.index);
      }
    }
    return {};
  }

  // Whether the head's class block size is the size for some number of active classes.
  static bool is_class_block(const HeadPlan& head) {
    const int64_t smallest = class_block(head.classes, head.classes);
    return inside(head.class_block, smallest, 2 * std::max(head.classes, smallest)) &&
           std::has_single_bit(static_cast<uint64_t>(head.class_block));
  }

  Status check_head(const HeadPlan& head) const {
    const auto optional_value = [&](ValueId id) { return !id.valid() || is_value(id); };
    const auto optional_node = [&](NodeId id) { return !id.valid() || is_node(id); };
    if (!is_node(head.node) || !optional_node(head.loss) || !is_value(head.feature) ||
        !optional_value(head.feature_grad) || !is_value(head.logits) || !optional_value(head.label) ||
        !optional_value(head.row_factor) || !is_param(head.weight) || (head.bias.valid() && !is_param(head.bias))) {
      return wrong("a head refers to what is not in the graph");
    }
    for (const NodeId metric : head.metrics) {
      if (!is_node(metric)) {
        return wrong("a metric of a head is not in the graph");
      }
    }
    if (head.head < 0 || (graph_ && !inside(head.head, 0, count(graph_->heads)))) {
      return wrong("head {} is not in the graph", head.head);
    }
    if (!inside(head.classes, 1, kMostClasses) || !inside(head.dim, 1, int64_t{1} << 20) || !is_class_block(head) ||
        !inside(head.top_k, 0, std::min<int64_t>(head.classes, 65536) + 1)) {
      return wrong("a head of {} classes in blocks of {}, {} wide", head.classes, head.class_block, head.dim);
    }
    if (!inside(head.active, 0, head.classes) || !inside(head.neighbours, 0, kMostNeighbours + 1) ||
        !inside(head.probes, 1, kMostProbes + 1) || head.states == RowFormat::kFp8) {
      return wrong("a head of {} classes, {} of them active", head.classes, head.active);
    }
    if (head.mapped && (head.classes < kLeastMappedClasses || (program_.training && head.active == 0))) {
      return wrong("the rows of a head of {} classes, {} of them active, lie in a file", head.classes, head.active);
    }
    if (head.rows != program_.batch && head.rows != program_.batch / program_.micro_batches * program_.replicas) {
      return wrong("a head pass of {} rows", head.rows);
    }
    for (const HeadShard& shard : head.shards) {
      if (!inside(shard.device, 0, program_.devices) || !inside(shard.row_begin, 0, head.classes + 1) ||
          !inside(shard.row_end, shard.row_begin, head.classes + 1)) {
        return wrong("shard {} has rows {} to {} on device {}", shard.shard, shard.row_begin, shard.row_end,
                     shard.device);
      }
      const bool backward = program_.training && head.loss.valid();
      if (!inside(shard.kept_blocks, 0, backward ? head.blocks().count() + 1 : 1)) {
        return wrong("shard {} keeps the logits of {} class blocks", shard.shard, shard.kept_blocks);
      }
    }
    return {};
  }

  Status check_buffer(const Buffer& buffer) const {
    const bool ids = (!buffer.value.valid() || is_value(buffer.value)) &&
                     (!buffer.param.valid() || is_param(buffer.param)) &&
                     (!buffer.node.valid() || is_node(buffer.node));
    const auto end = static_cast<int64_t>(program_.instructions.size());
    if (!ids || !inside(buffer.device, kHost, program_.devices) || !inside(buffer.bytes, 0, int64_t{1} << 50) ||
        !inside(buffer.offset, 0, int64_t{1} << 50) || buffer.offset % kAlignment != 0 ||
        static_cast<uint8_t>(buffer.purpose) > static_cast<uint8_t>(Purpose::kHeadSums) ||
        !inside(buffer.first_use, 0, end) || !inside(buffer.last_use, buffer.first_use, end) ||
        !inside(buffer.micro_batch, -1, program_.micro_batches) || !inside(buffer.replica, -1, program_.replicas) ||
        !inside(buffer.head, -1, count(program_.heads)) || !inside(buffer.head_pass, -1, program_.micro_batches) ||
        buffer.state < -1 || buffer.ring < -1 || buffer.node_input < -1 || buffer.shard < -1) {
      return wrong("buffer {} ({}) has a number out of range", buffer.id.index, buffer.name);
    }
    return {};
  }

  Status check_instruction(const Instruction& instruction) {
    const auto out_of_range = [&] { return wrong("instruction {} has a number out of range", instruction.id.index); };
    if (!inside(instruction.device, 0, program_.devices) ||
        static_cast<uint8_t>(instruction.kind) > static_cast<uint8_t>(Kind::kSumDx) ||
        static_cast<uint8_t>(instruction.stream) > static_cast<uint8_t>(Stream::kComm) ||
        !inside(instruction.stage, -1, count(program_.stages)) || !inside(instruction.replica, -1, program_.replicas) ||
        !inside(instruction.micro_batch, -1, program_.micro_batches) ||
        !inside(instruction.head, -1, count(program_.heads)) || instruction.shard < -1 ||
        !inside(instruction.head_pass, -1, program_.micro_batches) ||
        !inside(instruction.gather, -1, program_.micro_batches) ||
        !inside(instruction.group, -1, count(program_.instructions))) {
      return out_of_range();
    }
    for (const NodeId id : instruction.nodes) {
      if (!is_node(id)) {
        return out_of_range();
      }
    }
    XRUN_TRY(check_operands(instruction));
    for (const auto* list : {&instruction.deps, &instruction.releases}) {
      for (const InstructionId dep : *list) {
        if (!inside(dep.index, 0, instruction.id.index)) {
          return wrong("instruction {} waits for instruction {}, which is not before it", instruction.id.index,
                       dep.index);
        }
        const Instruction& before = program_.instruction(dep);
        if (before.device != instruction.device) {
          return wrong("instruction {} waits for instruction {} of another device", instruction.id.index, dep.index);
        }
        if (list == &instruction.releases && !communicates(before.kind)) {
          return wrong("instruction {} waits until instruction {} releases a block, but that one sends none",
                       instruction.id.index, dep.index);
        }
      }
    }
    if (is_stage_pass(instruction.kind) &&
        (instruction.stage < 0 || instruction.replica < 0 || instruction.micro_batch < 0)) {
      return wrong("instruction {} is a pass of no stage", instruction.id.index);
    }
    return {};
  }

  // Checks that the numbers in operands are in their ranges, that buffers are on the device of the instruction or are
  // inputs on the host, which computations of GPUs cannot read, and that `reads` and `writes` follow from the operands.
  Status check_operands(const Instruction& instruction) {
    for (const Operand& operand : instruction.operands) {
      const bool ids = (!operand.node.valid() || is_node(operand.node)) &&
                       (!operand.param.valid() || is_param(operand.param)) &&
                       inside(operand.buffer.index, 0, count(program_.buffers));
      const bool enums = static_cast<uint8_t>(operand.role) <= static_cast<uint8_t>(Role::kPairs) &&
                         static_cast<uint8_t>(operand.access) <= static_cast<uint8_t>(Access::kUpdate) &&
                         static_cast<uint8_t>(operand.by) <= static_cast<uint8_t>(By::kWorker);
      constexpr int64_t kMostBytes = int64_t{1} << 50;
      const bool exchanged = communicates(instruction.kind);
      const bool run = exchanged && operand.count > 1 && operand.stride > 0;
      const bool devices =
          inside(operand.index, 0, program_.devices) && inside(operand.device(operand.count - 1), 0, program_.devices);
      if (!ids || !enums || !inside(operand.offset, 0, kMostBytes) || !inside(operand.bytes, 0, kMostBytes) ||
          !inside(operand.step, 0, kMostBytes) || (!run && (operand.count != 1 || operand.stride != 0)) ||
          (exchanged && !devices)) {
        return wrong("instruction {} has an operand with a number out of range", instruction.id.index);
      }
      for_each_range(operand, [&](Bytes, Bytes) { ranges_ += exchanged ? 1 : 0; });
      blocks_ += exchanged ? operand.count : 0;
      if (ranges_ > kMostRanges || blocks_ > kMostBlocks) {
        return wrong("exchanges name more blocks than can be verified: plan for fewer devices or micro-batches");
      }
      const Buffer& buffer = program_.buffer(operand.buffer);
      const bool from_host = buffer.device == kHost && operand.access == Access::kRead &&
                             (program_.gpu.empty() || instruction.kind == Kind::kCopy);
      if (buffer.device != instruction.device && !from_host) {
        return wrong("instruction {} on device {} touches buffer {} of device {}", instruction.id.index,
                     instruction.device, operand.buffer.index, buffer.device);
      }
    }
    Instruction derived{.kind = instruction.kind, .operands = instruction.operands};
    derive_accesses(derived);
    if (derived.reads != instruction.reads || derived.writes != instruction.writes) {
      return wrong("instruction {} reads and writes other buffers than its operands", instruction.id.index);
    }
    return {};
  }

  const Program& program_;
  const Graph* graph_;
  std::map<int, size_t> replicas_;  // the replica of each device that has stages so far
  int64_t ranges_ = 0;              // ranges of bytes of all exchanges so far
  int64_t blocks_ = 0;              // blocks of all exchanges so far
};

}  // namespace

Status verify_structure(const Program& program, const Graph* graph) { return Structure(program, graph).run(); }

Status verify_program(const Program& program, const Module& module, Bytes memory) {
  XRUN_TRY(verify_structure(program, &module.graph));
  XRUN_TRY(verify_passes(program));
  XRUN_TRY(verify_order(program));
  XRUN_TRY(verify_memory(program, memory));
  return verify_module(program, module);
}

Status verify_module(const Program& program, const Module& module) {
  XRUN_TRY(verify_heads(program, module));
  XRUN_TRY(verify_buffers(program, module));
  XRUN_TRY(verify_head_buffers(program, module));
  XRUN_TRY(verify_nodes(program, module.graph));
  return verify_values(program, module);
}

}  // namespace xrun::planner
