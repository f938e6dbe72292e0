// Checks the number and the order of passes, the members of groups, and the owner of each class row (verify_passes in
// planner/verify/verify_program.h lists the rules). Each rule has a function that goes through all instructions and
// counts passes; a missing or repeated pass shows in these counts.
// Tests: tests/planner/verify/verify_program_test.cpp
#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "planner/program/buffer_sizes.h"
#include "planner/verify/verify_parts.h"
#include "planner/verify/verify_program.h"

namespace xrun::planner {
namespace {

// The check of a program, with the number of head passes, the shards with rows, and the kind of instruction that
// updates the rows.
class Passes {
 public:
  explicit Passes(const Program& program) : program_(program) {}

  Status run() {
    XRUN_TRY(check_shards());
    XRUN_TRY(check_streams());
    XRUN_TRY(check_groups());
    XRUN_TRY(check_stage_passes());
    return check_head_passes();
  }

 private:
  Status check_shards() const {
    for (size_t h = 0; h < program_.heads.size(); ++h) {
      const HeadPlan& head = program_.heads[h];
      std::map<int, std::vector<const Buffer*>> weights;  // index: shard; buffers with class rows
      for (const Buffer& buffer : program_.buffers) {
        if (buffer.purpose == Purpose::kHeadWeight && buffer.param == head.weight) {
          weights[buffer.shard].push_back(&buffer);
        }
      }
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
        const auto& rows = weights[shard.shard];
        for (const Buffer* buffer : rows) {
          if (buffer->device != shard.device ||
              buffer->bytes != shard_bytes(head, shard, head.weight, Purpose::kHeadWeight)) {
            return wrong("the rows of shard {} of head {} lie in a buffer of {} bytes on device {}", s, h,
                         buffer->bytes, buffer->device);
          }
        }
        if (rows.size() != (shard.row_end > shard.row_begin ? 1U : 0U)) {
          return wrong("the rows of shard {} of head {} lie in {} buffers", s, h, rows.size());
        }
      }
      if (next != head.classes) {
        return wrong("class row {} of head {} is owned by nobody", next, h);
      }
    }
    return {};
  }

  // Checks the streams of instructions: exchanges have a separate stream if the plan overlaps them with computations.
  Status check_streams() const {
    for (const Instruction& one : program_.instructions) {
      const bool beside = program_.overlap && communicates(one.kind);
      if ((one.stream == Stream::kComm) != beside) {
        return wrong("instruction {} ({}) is in the stream of what {}", one.id.index, name_of(one.kind),
                     beside ? "computes" : "communicates");
      }
    }
    return {};
  }

  // Checks that the members of a group are adjacent in the list, with one on each device. This excludes deadlocks:
  // streams and dependencies follow the order of the list, and an exchange waits only until all of its members are
  // posted, so the first instruction in the list that has not ended can always continue.
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
        // Stages that read the same tied weight exchange its gradients, separately for each replica.
        const bool of_readers = first.kind == Kind::kAllGather && first.head < 0 && first.stage >= 0 &&
                                all[end].stage >= 0 && all[end].replica == first.replica;
        if (end > begin && first.kind != Kind::kSend &&
            (all[end].kind != first.kind || all[end].gather != first.gather || all[end].head != first.head ||
             all[end].shard != first.shard || all[end].head_pass != first.head_pass ||
             (all[end].stage != first.stage && !of_readers))) {
          return wrong("group {} has members of two kinds", first.group);
        }
      }
      if (first.kind == Kind::kSend || first.kind == Kind::kRecv) {
        if (end - begin != 2 || first.kind != Kind::kSend || all[begin + 1].kind != Kind::kRecv) {
          return wrong("group {} is not one send with its receive", first.group);
        }
        XRUN_TRY(check_pair(first, all[begin + 1]));
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

  // Checks that each micro-batch runs once forward and, in training, once backward on every stage. Several instructions
  // may run a backward pass, each a range of its nodes, and each node runs the micro-batches in ascending order.
  Status check_stage_passes() const {
    std::map<std::tuple<int, int, int, int>, size_t> seen;  // (pass, stage, replica, micro-batch): number of nodes
    const int per_replica = program_.micro_batches / program_.replicas;
    bool changes = false;
    for (const Instruction& one : program_.instructions) {
      changes = changes || one.kind == Kind::kUpdate;
      if (!is_stage_pass(one.kind)) {
        continue;
      }
      const Stage& stage = program_.stages[static_cast<size_t>(one.stage)];
      const bool backward = one.kind == Kind::kBackward;
      std::vector<NodeId> nodes = backward ? stage.recomputed : stage.forward;
      if (backward) {
        nodes.insert(nodes.end(), stage.backward.begin(), stage.backward.end());
      }
      size_t& next = seen[{backward, one.stage, one.replica, one.micro_batch}];
      if (next == nodes.size() || one.device != stage.devices[static_cast<size_t>(one.replica)] ||
          one.micro_batch / per_replica != one.replica) {
        return wrong("instruction {} runs micro-batch {} of stage {} once more or elsewhere", one.id.index,
                     one.micro_batch, one.stage);
      }
      const std::span<const NodeId> left = std::span(nodes).subspan(next);
      if (one.nodes.empty() || one.nodes.size() > left.size() || (!backward && one.nodes.size() < left.size()) ||
          !std::ranges::equal(one.nodes, left.first(one.nodes.size()))) {
        return wrong("instruction {} does not run the nodes of its stage", one.id.index);
      }
      next += one.nodes.size();
      if (backward && one.micro_batch % per_replica > 0) {
        const auto before = seen.find({backward, one.stage, one.replica, one.micro_batch - 1});
        if (before == seen.end() || before->second < next) {
          return wrong("micro-batch {} of stage {} is folded after a later one", one.micro_batch - 1, one.stage);
        }
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
          const size_t nodes = backward ? stage.recomputed.size() + stage.backward.size() : stage.forward.size();
          const auto done = seen.find({backward, stage.index, replica, m});
          if ((done == seen.end() ? 0 : done->second) != (wanted ? nodes : 0)) {
            return wrong("micro-batch {} of stage {} has {} {} pass", m, stage.index, wanted ? "no" : "a",
                         backward ? "backward" : "forward");
          }
        }
      }
    }
    return {};
  }

  // Checks that each shard selects its active classes once a step, on its own device.
  Status check_selection(const Instruction& one, std::set<std::pair<int, int>>& selected) const {
    if (one.head < 0) {
      return wrong("instruction {} selects classes of no head", one.id.index);
    }
    const HeadPlan& head = program_.heads[static_cast<size_t>(one.head)];
    if (!inside(one.shard, 0, count(head.shards)) || head.shards[static_cast<size_t>(one.shard)].device != one.device ||
        !selected.insert({one.head, one.shard}).second) {
      return wrong("instruction {} selects classes of shard {} of head {} once more or elsewhere", one.id.index,
                   one.shard, one.head);
    }
    return {};
  }

  using HeadPasses = std::map<std::tuple<Kind, int, int, int>, int>;  // (kind, head, shard, j): number of instructions

  // Checks a pass of a shard: its device, that its classes are selected, and that it is the first of its kind.
  Status check_shard_pass(const Instruction& one, const std::set<std::pair<int, int>>& selected,
                          HeadPasses& seen) const {
    const HeadPlan& head = program_.heads[static_cast<size_t>(one.head)];
    if (!inside(one.shard, 0, count(head.shards)) || head.shards[static_cast<size_t>(one.shard)].device != one.device) {
      return wrong("instruction {} runs shard {} of head {} on device {}", one.id.index, one.shard, one.head,
                   one.device);
    }
    if (head.active > 0 && !selected.contains({one.head, one.shard})) {
      return wrong("shard {} of head {} runs pass {} before its classes are selected", one.shard, one.head,
                   one.head_pass);
    }
    if (++seen[{one.kind, one.head, one.shard, one.head_pass}] > 1) {
      return wrong("shard {} of head {} runs pass {} twice", one.shard, one.head, one.head_pass);
    }
    return {};
  }

  // Checks that no pass of a shard with rows is left out, and that the rows of `changed` (head, shard) are those that
  // have to be updated.
  Status check_every_pass(const HeadPasses& seen, const std::map<std::pair<int, int>, int>& changed) const {
    for (size_t h = 0; h < program_.heads.size(); ++h) {
      const HeadPlan& head = program_.heads[h];
      const bool trained = program_.training && head.loss.valid();
      const bool wanted = !program_.training || trained || !head.metrics.empty();
      for (const HeadShard& shard : head.shards) {
        const bool rows = shard.row_end > shard.row_begin;
        const std::pair<int, int> key{static_cast<int>(h), shard.shard};
        const bool updated = trained && !head.frozen;
        if (changed.contains(key) != (updated && rows)) {
          return wrong("the rows of shard {} of head {} are {} updated", shard.shard, h, updated ? "never" : "wrongly");
        }
        for (int j = 0; j < passes_of(head); ++j) {
          if (seen.contains({Kind::kHeadForward, key.first, key.second, j}) != (wanted && rows) ||
              seen.contains({Kind::kHeadBackward, key.first, key.second, j}) != (trained && rows)) {
            return wrong("pass {} of head {} leaves out shard {}", j, h, shard.shard);
          }
        }
      }
    }
    return {};
  }

  // Checks that each shard runs once in each head pass, that the passes are in ascending order on all devices, and that
  // the class rows are updated once.
  Status check_head_passes() const {
    HeadPasses seen;
    std::map<std::pair<int, int>, int> last;     // (device, head): index j of the last pass
    std::map<std::pair<int, int>, int> changed;  // (head, shard): number of updates
    std::set<std::pair<int, int>> selected;      // (head, shard): selections so far
    for (const Instruction& one : program_.instructions) {
      if (one.kind == Kind::kHeadSelect) {
        XRUN_TRY(check_selection(one, selected));
      }
      if (!is_head_pass(one.kind)) {
        continue;
      }
      const bool of_pass = !is_head_sweep(one.kind);
      if (one.head < 0) {
        return wrong("instruction {} is a pass of no head", one.id.index);
      }
      const HeadPlan& head = program_.heads[static_cast<size_t>(one.head)];
      if (of_pass && !inside(one.head_pass, 0, passes_of(head))) {
        return wrong("instruction {} is pass {} of a head that has {}", one.id.index, one.head_pass, passes_of(head));
      }
      if (one.kind != Kind::kReduceStats) {
        XRUN_TRY(check_shard_pass(one, selected, seen));
      }
      if (of_pass) {
        int& at = last.try_emplace({one.device, one.head}, one.head_pass).first->second;
        if (one.head_pass < at) {
          return wrong("head pass {} comes after a later one on device {}", one.head_pass, one.device);
        }
        at = one.head_pass;
      }
      for (const BufferId id : one.writes) {
        const Buffer& buffer = program_.buffer(id);
        if (buffer.purpose == Purpose::kHeadWeight && buffer.param == head.weight &&
            (buffer.shard != one.shard || ++changed[{one.head, one.shard}] > 1)) {
          return wrong("the rows of shard {} of head {} are updated twice", buffer.shard, one.head);
        }
      }
    }
    return check_every_pass(seen, changed);
  }

  int passes_of(const HeadPlan& head) const {
    return head.rows == program_.batch ? 1 : program_.micro_batches / program_.replicas;
  }

  const Program& program_;
};

}  // namespace

Status verify_passes(const Program& program) { return Passes(program).run(); }

}  // namespace xrun::planner
