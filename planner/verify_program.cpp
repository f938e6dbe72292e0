#include "planner/verify_program.h"

#include <fmt/format.h>
#include <map>
#include <set>

namespace xrun::planner {
namespace {

constexpr int kMostDevices = 4096;
// Products of these with sizes stay inside 64 bits.
constexpr int64_t kMost = int64_t{1} << 40;
constexpr int64_t kMostRows = int64_t{1} << 31;
constexpr int64_t kMostClasses = int64_t{1} << 36;

template <typename... Args>
Error wrong(fmt::format_string<Args...> what, Args&&... args) {
  return {ErrorKind::kContent, "XG0622", "the program is not sound: " + fmt::format(what, std::forward<Args>(args)...),
          "make the plan again with `xrun plan`"};
}

bool inside(int64_t value, int64_t low, int64_t end) { return value >= low && value < end; }

class Structure {
 public:
  Structure(const Program& program, const Graph* graph) : program_(program), graph_(graph) {}

  Status run() const {
    XRUN_TRY(check_numbers());
    for (const Stage& stage : program_.stages) {
      XRUN_TRY(check_stage(stage));
    }
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
    if (!inside(p.batch, 1, kMostRows) || !inside(p.block_rows, 1, p.batch + 1) || p.batch % p.block_rows != 0) {
      return wrong("batch {} in row blocks of {}", p.batch, p.block_rows);
    }
    const int64_t blocks = p.batch / p.block_rows;
    if (!inside(p.micro_batches, 1, blocks + 1) || blocks % p.micro_batches != 0 ||
        !inside(p.replicas, 1, blocks + 1) || p.micro_batches % p.replicas != 0 || !inside(p.lanes, 1, blocks + 1) ||
        p.lanes % p.replicas != 0) {
      return wrong("{} micro-batches, {} replicas and {} lanes of {} row blocks", p.micro_batches, p.replicas, p.lanes,
                   blocks);
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

  bool is_node(NodeId id) const { return id.index >= 0 && (!graph_ || inside(id.index, 0, count(graph_->nodes))); }
  bool is_value(ValueId id) const { return id.index >= 0 && (!graph_ || inside(id.index, 0, count(graph_->values))); }
  bool is_param(ParamId id) const { return id.index >= 0 && (!graph_ || inside(id.index, 0, count(graph_->params))); }
  template <typename T>
  static int64_t count(const std::vector<T>& list) {
    return static_cast<int64_t>(list.size());
  }

  Status check_layout(const Stage& stage, const BlockLayout& layout) const {
    if (!inside(layout.bytes, 0, kMost) || !inside(layout.kernel_offset, 0, layout.bytes + 1)) {
      return wrong("stage {} has a slice of {} bytes, kernels from {}", stage.index, layout.bytes,
                   layout.kernel_offset);
    }
    for (const LocalValue& local : layout.locals) {
      if (!is_value(local.value) || !inside(local.bytes, 0, kMost) ||
          !inside(local.offset, 0, layout.kernel_offset - local.bytes + 1) || local.offset % kAlignment != 0) {
        return wrong("stage {} has a local value outside of its slice", stage.index);
      }
    }
    return {};
  }

  Status check_stage(const Stage& stage) const {
    if (&stage != &program_.stages[0] + stage.index || stage.devices.size() != static_cast<size_t>(program_.replicas)) {
      return wrong("stage {} has {} devices for {} replicas", stage.index, stage.devices.size(), program_.replicas);
    }
    for (const int device : stage.devices) {
      if (!inside(device, 0, program_.devices)) {
        return wrong("stage {} lies on device {}", stage.index, device);
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
    XRUN_TRY(check_layout(stage, stage.forward_layout));
    return check_layout(stage, stage.backward_layout);
  }

  Status check_head(const HeadPlan& head) const {
    const auto optional_value = [&](ValueId id) { return !id.valid() || is_value(id); };
    const auto optional_node = [&](NodeId id) { return !id.valid() || is_node(id); };
    if (!is_node(head.node) || !optional_node(head.loss) || !is_value(head.feature) ||
        !optional_value(head.feature_grad) || !is_value(head.logits) || !optional_value(head.label) ||
        !is_param(head.weight) || (head.bias.valid() && !is_param(head.bias))) {
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
    if (graph_) {
      const Node& node = graph_->node(head.node);
      const TensorType& weight = graph_->value(graph_->param(head.weight).value).type;
      if (node.op->head == nullptr || node.outputs.empty() || node.outputs[0] != head.logits || node.inputs.empty() ||
          node.inputs[0] != head.feature || weight.dims != std::vector<int64_t>{head.classes, head.dim}) {
        return wrong("node {} is not the classifier of a head of {} classes", head.node.index, head.classes);
      }
      if (head.loss.valid()) {
        const Node& loss = graph_->node(head.loss);
        if (loss.op->margin == nullptr || !loss.op->margin(loss.attrs).ok()) {
          return wrong("node {} is not a loss on a head", head.loss.index);
        }
      }
      for (const NodeId metric : head.metrics) {
        if (graph_->node(metric).op->metric_k == nullptr) {
          return wrong("node {} is not a metric on a head", metric.index);
        }
      }
    }
    if (!inside(head.classes, 1, kMostClasses) || !inside(head.dim, 1, int64_t{1} << 20) ||
        head.class_block != class_block(head.classes) ||
        !inside(head.top_k, 0, std::min<int64_t>(head.classes, 65536) + 1)) {
      return wrong("a head of {} classes in blocks of {}, {} wide", head.classes, head.class_block, head.dim);
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
        static_cast<uint8_t>(buffer.purpose) > static_cast<uint8_t>(Purpose::kResult) ||
        !inside(buffer.first_use, 0, end) || !inside(buffer.last_use, buffer.first_use, end) ||
        !inside(buffer.micro_batch, -1, program_.micro_batches) || !inside(buffer.replica, -1, program_.replicas) ||
        !inside(buffer.head, -1, count(program_.heads)) || buffer.slot < 0 || buffer.shard < -1) {
      return wrong("buffer {} ({}) has a number out of range", buffer.id.index, buffer.name);
    }
    return {};
  }

  Status check_instruction(const Instruction& instruction) const {
    const auto out_of_range = [&] { return wrong("instruction {} has a number out of range", instruction.id.index); };
    if (!inside(instruction.device, 0, program_.devices) ||
        static_cast<uint8_t>(instruction.kind) > static_cast<uint8_t>(Kind::kUpdate) ||
        static_cast<uint8_t>(instruction.pass) > static_cast<uint8_t>(Pass::kNorm) ||
        static_cast<uint8_t>(instruction.stream) > static_cast<uint8_t>(Stream::kComm) ||
        !inside(instruction.stage, -1, count(program_.stages)) || !inside(instruction.replica, -1, program_.replicas) ||
        !inside(instruction.micro_batch, -1, program_.micro_batches) ||
        !inside(instruction.head, -1, count(program_.heads)) || instruction.shard < -1 ||
        !inside(instruction.group, -1, count(program_.instructions))) {
      return out_of_range();
    }
    for (const NodeId id : instruction.nodes) {
      if (!is_node(id)) {
        return out_of_range();
      }
    }
    for (const auto* list : {&instruction.reads, &instruction.writes}) {
      for (const BufferId id : *list) {
        if (!inside(id.index, 0, count(program_.buffers))) {
          return out_of_range();
        }
        const Buffer& buffer = program_.buffer(id);
        if (buffer.device != instruction.device && (buffer.device != kHost || list == &instruction.writes)) {
          return wrong("instruction {} on device {} touches buffer {} of device {}", instruction.id.index,
                       instruction.device, id.index, buffer.device);
        }
      }
    }
    for (const InstructionId dep : instruction.deps) {
      if (!inside(dep.index, 0, instruction.id.index)) {
        return wrong("instruction {} waits for instruction {}, which is not before it", instruction.id.index,
                     dep.index);
      }
    }
    const bool stage_pass =
        instruction.kind == Kind::kRun && (instruction.pass == Pass::kForward || instruction.pass == Pass::kBackward);
    if (stage_pass && (instruction.stage < 0 || instruction.replica < 0 || instruction.micro_batch < 0)) {
      return wrong("instruction {} is a pass of no stage", instruction.id.index);
    }
    if (instruction.kind == Kind::kRun && instruction.pass == Pass::kNone) {
      return wrong("instruction {} runs nothing", instruction.id.index);
    }
    return {};
  }

  const Program& program_;
  const Graph* graph_;
};

// Which head passes there are, which shards have rows, and who updates.
class Passes {
 public:
  explicit Passes(const Program& program) : program_(program) {}

  Status run() {
    XRUN_TRY(check_shards());
    XRUN_TRY(check_groups());
    XRUN_TRY(check_stage_passes());
    return check_head_passes();
  }

 private:
  Status check_shards() const {
    for (size_t h = 0; h < program_.heads.size(); ++h) {
      const HeadPlan& head = program_.heads[h];
      int64_t next = 0;
      for (size_t s = 0; s < head.shards.size(); ++s) {
        const HeadShard& shard = head.shards[s];
        if (shard.shard != static_cast<int>(s) || shard.row_begin != next) {
          return wrong("class row {} of head {} is owned twice or by nobody", std::min(next, shard.row_begin), h);
        }
        next = shard.row_end;
        if (next % head.class_block != 0 && next != head.classes) {
          return wrong("shard {} of head {} ends at row {}, inside a class block", s, h, next);
        }
        int weights = 0;
        for (const Buffer& buffer : program_.buffers) {
          if (buffer.purpose == Purpose::kHeadWeight && buffer.param == head.weight && buffer.shard == shard.shard) {
            ++weights;
            if (buffer.device != shard.device || buffer.bytes != (shard.row_end - shard.row_begin) * head.dim * 4) {
              return wrong("the rows of shard {} of head {} lie in a buffer of {} bytes on device {}", s, h,
                           buffer.bytes, buffer.device);
            }
          }
        }
        if (weights != (shard.row_end > shard.row_begin ? 1 : 0)) {
          return wrong("the rows of shard {} of head {} lie in {} buffers", s, h, weights);
        }
      }
      if (next != head.classes) {
        return wrong("class row {} of head {} is owned by nobody", next, h);
      }
    }
    return {};
  }

  static bool communicates(Kind kind) {
    return kind == Kind::kSend || kind == Kind::kRecv || kind == Kind::kAllGather || kind == Kind::kReduceScatter ||
           kind == Kind::kAllReduce;
  }

  // Members stand together in the list. Since all streams and dependencies follow the list, the groups then have one
  // order on all devices: no two devices can wait for one another.
  Status check_groups() const {
    std::set<int> closed;
    const auto& all = program_.instructions;
    for (size_t begin = 0; begin < all.size();) {
      const Instruction& first = all[begin];
      if (communicates(first.kind) != (first.group >= 0)) {
        return wrong("instruction {} has group {}", begin, first.group);
      }
      if (first.group < 0) {
        ++begin;
        continue;
      }
      if (!closed.insert(first.group).second) {
        return wrong("group {} is not in one place", first.group);
      }
      size_t end = begin;
      std::set<int> devices;
      for (; end < all.size() && all[end].group == first.group; ++end) {
        if (!devices.insert(all[end].device).second) {
          return wrong("device {} is in group {} twice", all[end].device, first.group);
        }
        if (end > begin && first.kind != Kind::kSend &&
            (all[end].kind != first.kind || all[end].micro_batch != first.micro_batch || all[end].head != first.head)) {
          return wrong("group {} has members of two kinds", first.group);
        }
      }
      if (first.kind == Kind::kSend || first.kind == Kind::kRecv) {
        if (end - begin != 2 || first.kind != Kind::kSend || all[begin + 1].kind != Kind::kRecv) {
          return wrong("group {} is not one send with its receive", first.group);
        }
        XRUN_TRY(check_pair(first, all[begin + 1]));
      }
      if (first.kind == Kind::kAllReduce && end - begin != static_cast<size_t>(program_.replicas)) {
        return wrong("group {} sums over {} of {} replicas", first.group, end - begin, program_.replicas);
      }
      begin = end;
    }
    return {};
  }

  Status check_pair(const Instruction& send, const Instruction& recv) const {
    if (send.reads.size() != 1 || !send.writes.empty() || recv.writes.size() != 1 || !recv.reads.empty()) {
      return wrong("group {} does not carry one value", send.group);
    }
    const Buffer& from = program_.buffer(send.reads[0]);
    const Buffer& to = program_.buffer(recv.writes[0]);
    if (from.value != to.value || send.micro_batch != recv.micro_batch || send.replica != recv.replica ||
        to.micro_batch != recv.micro_batch || (from.micro_batch >= 0 && from.micro_batch != to.micro_batch) ||
        (from.micro_batch == to.micro_batch && from.bytes != to.bytes)) {
      return wrong("group {} sends one thing and receives another", send.group);
    }
    return {};
  }

  // Each micro-batch once forward and, in training, once backward on every stage, backward in ascending order.
  Status check_stage_passes() const {
    std::map<std::tuple<int, int, int, int>, int> seen;  // (pass, stage, replica, micro-batch)
    std::map<std::pair<int, int>, int> last;             // (stage, replica): micro-batch of the last backward
    std::map<std::pair<int, int>, int> updates;
    const int per_replica = program_.micro_batches / program_.replicas;
    bool changes = false;
    for (const Instruction& one : program_.instructions) {
      if (one.kind == Kind::kUpdate) {
        if (++updates[{one.stage, one.replica}] > 1) {
          return wrong("stage {} is updated twice", one.stage);
        }
        changes = true;
      }
      if (one.kind != Kind::kRun || (one.pass != Pass::kForward && one.pass != Pass::kBackward)) {
        continue;
      }
      const Stage& stage = program_.stages[static_cast<size_t>(one.stage)];
      const bool backward = one.pass == Pass::kBackward;
      if (++seen[{backward, one.stage, one.replica, one.micro_batch}] > 1 ||
          one.device != stage.devices[static_cast<size_t>(one.replica)] ||
          one.micro_batch / per_replica != one.replica) {
        return wrong("instruction {} runs micro-batch {} of stage {} once more or elsewhere", one.id.index,
                     one.micro_batch, one.stage);
      }
      std::vector<NodeId> nodes = backward ? stage.recomputed : stage.forward;
      if (backward) {
        nodes.insert(nodes.end(), stage.backward.begin(), stage.backward.end());
      }
      if (nodes != one.nodes) {
        return wrong("instruction {} does not run the nodes of its stage", one.id.index);
      }
      if (backward) {
        const auto [at, fresh] = last.try_emplace({one.stage, one.replica}, one.micro_batch);
        if (!fresh && at->second >= one.micro_batch) {
          return wrong("micro-batch {} of stage {} is folded after a later one", one.micro_batch, one.stage);
        }
        at->second = one.micro_batch;
      }
      if (changes) {
        return wrong("instruction {} runs a pass after an update", one.id.index);
      }
    }
    for (const Stage& stage : program_.stages) {
      for (int m = 0; m < program_.micro_batches; ++m) {
        const int replica = m / per_replica;
        for (const bool backward : {false, true}) {
          const bool wanted = backward ? program_.training && !stage.backward.empty() : !stage.forward.empty();
          if (seen.contains({backward, stage.index, replica, m}) != wanted) {
            return wrong("micro-batch {} of stage {} has {} {} pass", m, stage.index, wanted ? "no" : "a",
                         backward ? "backward" : "forward");
          }
        }
      }
    }
    return {};
  }

  // Passes of heads: each shard once in each pass, passes ascending and alike on all devices, weights changed once.
  Status check_head_passes() const {
    std::map<std::tuple<Pass, int, int, int>, int> seen;  // (pass, head, shard, j)
    std::map<std::pair<int, int>, int> last;              // (device, head): j
    std::map<std::pair<int, int>, int> changed;           // (head, shard)
    for (const Instruction& one : program_.instructions) {
      const bool of_pass =
          one.kind == Kind::kRun &&
          (one.pass == Pass::kHeadForward || one.pass == Pass::kHeadBackward || one.pass == Pass::kReduceStats);
      const bool of_step = one.kind == Kind::kRun && (one.pass == Pass::kHeadUpdate || one.pass == Pass::kHeadNorms);
      if (!of_pass && !of_step) {
        continue;
      }
      if (one.head < 0 || (of_pass && one.micro_batch < 0)) {
        return wrong("instruction {} is a pass of no head", one.id.index);
      }
      const HeadPlan& head = program_.heads[static_cast<size_t>(one.head)];
      if (one.pass != Pass::kReduceStats) {
        if (!inside(one.shard, 0, count(head.shards)) ||
            head.shards[static_cast<size_t>(one.shard)].device != one.device) {
          return wrong("instruction {} runs shard {} of head {} on device {}", one.id.index, one.shard, one.head,
                       one.device);
        }
        if (++seen[{one.pass, one.head, one.shard, one.micro_batch}] > 1) {
          return wrong("shard {} of head {} runs pass {} twice", one.shard, one.head, one.micro_batch);
        }
      }
      if (of_pass) {
        int& at = last.try_emplace({one.device, one.head}, one.micro_batch).first->second;
        if (one.micro_batch < at) {
          return wrong("head pass {} comes after a later one on device {}", one.micro_batch, one.device);
        }
        at = one.micro_batch;
      }
      for (const BufferId id : one.writes) {
        const Buffer& buffer = program_.buffer(id);
        if (buffer.purpose == Purpose::kHeadWeight && buffer.param == head.weight &&
            (buffer.shard != one.shard || ++changed[{one.head, one.shard}] > 1)) {
          return wrong("the rows of shard {} of head {} are updated twice", buffer.shard, one.head);
        }
      }
    }
    for (size_t h = 0; h < program_.heads.size(); ++h) {
      const HeadPlan& head = program_.heads[h];
      const bool trained = program_.training && head.loss.valid();
      const bool wanted = !program_.training || trained || !head.metrics.empty();
      const int passes = head.rows == program_.batch ? 1 : program_.micro_batches / program_.replicas;
      for (const HeadShard& shard : head.shards) {
        const bool rows = shard.row_end > shard.row_begin;
        const std::pair<int, int> key{static_cast<int>(h), shard.shard};
        if (changed.contains(key) != (trained && rows)) {
          return wrong("the rows of shard {} of head {} are {} updated", shard.shard, h, trained ? "never" : "wrongly");
        }
        for (int j = 0; j < passes; ++j) {
          if (seen.contains({Pass::kHeadForward, key.first, key.second, j}) != (wanted && rows) ||
              seen.contains({Pass::kHeadBackward, key.first, key.second, j}) != (trained && rows)) {
            return wrong("pass {} of head {} leaves out shard {}", j, h, shard.shard);
          }
        }
      }
    }
    return {};
  }

  template <typename T>
  static int64_t count(const std::vector<T>& list) {
    return static_cast<int64_t>(list.size());
  }

  const Program& program_;
};

}  // namespace

Status verify_structure(const Program& program, const Graph* graph) { return Structure(program, graph).run(); }

Status verify_passes(const Program& program) { return Passes(program).run(); }

Status verify_program(const Program& program, const Graph& graph, Bytes memory) {
  XRUN_TRY(verify_structure(program, &graph));
  XRUN_TRY(verify_passes(program));
  XRUN_TRY(verify_order(program));
  XRUN_TRY(verify_memory(program, memory));
  return verify_operands(program, graph);
}

}  // namespace xrun::planner
