// The steps of an emission: find the values of each stage; make the persistent buffers; go through the action lists of
// the schedule, in an order in which every value is made before it is read, and emit the instructions of each action;
// emit the update at the end of the step; place the buffers in memory; derive the dependencies of instructions.
#include "planner/emit/emit.h"

#include <algorithm>
#include <map>
#include <set>

#include "graph/base/check.h"
#include "graph/layouts/verification_spec.h"
#include "planner/emit/dependences.h"
#include "planner/emit/emitter.h"
#include "planner/emit/memory.h"
#include "planner/program/replica_sums.h"

namespace xrun::planner {
namespace {

Error indivisible(std::string what, std::string help) {
  return {ErrorKind::kInfeasible, "XG0605", std::move(what), std::move(help)};
}

}  // namespace

Emitter::Emitter(const EmitRequest& request)
    : request_(request), graph_(request.module.graph), decision_(request.decision) {}

Status Emitter::check_request() const {
  const Decision& d = decision_;
  const int64_t blocks = d.norm_rows > 0 ? d.batch / d.norm_rows : 0;
  if (blocks <= 0 || d.batch % d.norm_rows != 0) {
    return indivisible(
        "a batch of " + std::to_string(d.batch) + " rows is not a run of row blocks of " + std::to_string(d.norm_rows),
        "choose `norm_rows` among the divisors of the batch");
  }
  if (d.micro_batches < 1 || blocks % d.micro_batches != 0) {
    return indivisible(
        std::to_string(blocks) + " row blocks do not make " + std::to_string(d.micro_batches) + " equal micro-batches",
        "choose `micro_batches` among the divisors of " + std::to_string(blocks));
  }
  if (d.replicas < 1 || d.micro_batches % d.replicas != 0 || d.partials < 1 || d.partials % d.replicas != 0 ||
      d.partials > blocks) {
    return indivisible(std::to_string(d.replicas) + " replicas do not divide " + std::to_string(d.micro_batches) +
                           " micro-batches and " + std::to_string(d.partials) + " partials",
                       "choose `replicas` among the divisors of `micro_batches`");
  }
  std::map<int, int> used;  // the replica of each device that has stages
  for (const Stage& one : d.stages) {
    XRUN_CHECK(static_cast<int>(one.devices.size()) == d.replicas, "a stage has one device for each replica");
    for (int r = 0; r < d.replicas; ++r) {
      const int device = one.devices[static_cast<size_t>(r)];
      XRUN_CHECK(device >= 0 && device < request_.machine.devices && used.try_emplace(device, r).first->second == r,
                 "a device has stages of one replica");
    }
  }
  for (const HeadPlan& head : d.heads) {
    XRUN_CHECK(head.rows == d.batch || head.rows == d.batch / d.micro_batches * d.replicas,
               "a head pass takes the batch, or one micro-batch of every replica");
    XRUN_CHECK((head.rows == d.batch ? 1 : d.micro_batches / d.replicas) == d.schedule.head_passes,
               "the schedule has as many head passes as the heads need");
    for (const HeadShard& shard : head.shards) {
      XRUN_CHECK(shard.device >= 0 && shard.device < request_.machine.devices, "a shard lies on a device");
    }
  }
  return {};
}

std::vector<ValueId> result_values(const Module& module, const Decision& decision) {
  const Graph& graph = module.graph;
  std::set<ValueId> heads;
  for (const HeadPlan& head : decision.heads) {
    heads.insert(graph.node(head.node).outputs[0]);
    if (head.loss.valid()) {
      heads.insert(graph.node(head.loss).outputs[0]);
    }
    for (const NodeId metric : head.metrics) {
      heads.insert(graph.node(metric).outputs.begin(), graph.node(metric).outputs.end());
    }
  }
  std::vector<ValueId> results;
  const auto add = [&](ValueId value) {
    if (value.valid() && graph.value(value).producer.valid() && heads.insert(value).second) {
      results.push_back(value);
    }
  };
  for (const LossTerm& term : graph.loss) {
    add(term.rows);
  }
  for (const MetricSpec& metric : module.train.metrics) {
    if (!compares_samples(graph, metric) || !decision.training) {
      add(metric.value);
    }
  }
  if (!decision.training) {
    for (const MetricSpec& metric : module.train.eval) {
      add(metric.value);
    }
    for (const NamedValue& output : graph.outputs) {
      add(output.value);
    }
  }
  return results;
}

bool Emitter::is_ready(int replica, const Action& action) const {
  const auto s = static_cast<size_t>(action.stage);
  const auto r = static_cast<size_t>(replica);
  const auto i = static_cast<size_t>(action.index);
  const bool is_forward = action.kind == ActionKind::kForward;
  for (const Crossing& crossing : flow_.crossings) {
    if (crossing.to == action.stage && crossing.backward != is_forward) {
      const auto from = static_cast<size_t>(crossing.from);
      if (!(is_forward ? forward_ : backward_)[from][r][i]) {
        return false;
      }
    }
  }
  if (is_forward) {
    return true;
  }
  return forward_[s][r][i] &&
         (flow_.stages[s].head_gradients.empty() || heads_done_[static_cast<size_t>(pass_of(action.index))]);
}

bool Emitter::is_head_ready(int pass) const {
  for (size_t rank = 0; rank < next_.size(); ++rank) {
    for (const size_t at : next_[rank]) {
      const auto& order = decision_.schedule.orders[rank];
      if (at >= order.size() || order[at] != Action{ActionKind::kHead, pass}) {
        return false;
      }
    }
  }
  for (const HeadPlan& head : program_.heads) {
    for (const ValueId operand : {head.feature, head.label}) {
      const int maker = operand.valid() ? flow_.maker[static_cast<size_t>(operand.index)] : -1;
      for (int i = 0; maker >= 0 && i < per_replica(); ++i) {
        for (const auto& done : forward_[static_cast<size_t>(maker)]) {
          if (pass_of(i) == pass && !done[static_cast<size_t>(i)]) {
            return false;
          }
        }
      }
    }
  }
  return true;
}

void Emitter::take(int replica, const Action& action) {
  const int stage_index = action.stage;
  const bool backward = action.kind != ActionKind::kForward;
  const auto i = static_cast<size_t>(action.index);
  const bool split = action.kind == ActionKind::kInputGradient || action.kind == ActionKind::kWeightGradient;
  const bool cut = backward && stage_index == cut_stage_ && action.index + 1 == per_replica();
  if (split) {
    const bool second = action.kind == ActionKind::kWeightGradient;
    const Segment& part = split_[static_cast<size_t>(stage_index)][second ? 1 : 0];
    if (!part.nodes.empty()) {
      emit_pass(stage_index, replica, action.index, true, part);
    }
    if (second) {
      return;
    }
  } else if (!cut) {  // the segments of a pass are emitted with the exchanges of their gradients
    emit_pass(stage_index, replica, action.index, backward);
  }
  emit_crossings(stage_index, replica, action.index, backward);
  auto& done = (backward ? backward_ : forward_)[static_cast<size_t>(stage_index)];
  done[static_cast<size_t>(replica)][i] = true;
  if (!backward && std::all_of(done.begin(), done.end(), [&](const auto& of_replica) { return of_replica[i]; })) {
    emit_gathers(stage_index, action.index);
    if (program_.training && action.index + 1 == per_replica()) {
      emit_statistics_gather(stage_index);
    }
  }
}

// Goes through the action lists of all ranks. The ranks take turns with one action each, so that the order of the
// emitted instructions is close to the order in which they really run.
Status Emitter::walk_schedule() {
  const auto& orders = decision_.schedule.orders;
  const auto replicas = static_cast<size_t>(decision_.replicas);
  const std::vector<bool> none(static_cast<size_t>(per_replica()), false);
  next_.assign(orders.size(), std::vector<size_t>(replicas, 0));
  forward_.assign(program_.stages.size(), std::vector(replicas, none));
  backward_ = forward_;
  heads_done_.assign(static_cast<size_t>(decision_.schedule.head_passes), false);
  XRUN_CHECK(decision_.schedule.rank_of_stage.size() == program_.stages.size(), "each stage has a rank");
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t rank = 0; rank < orders.size(); ++rank) {
      const std::vector<Action>& order = orders[rank];
      for (size_t r = 0; r < replicas; ++r) {
        size_t& next = next_[rank][r];
        if (next >= order.size() || order[next].kind == ActionKind::kHead ||
            !is_ready(static_cast<int>(r), order[next])) {
          continue;
        }
        take(static_cast<int>(r), order[next++]);
        progress = true;
      }
    }
    if (next_head_ < decision_.schedule.head_passes && is_head_ready(next_head_)) {
      emit_head_pass(next_head_);
      heads_done_[static_cast<size_t>(next_head_++)] = true;
      for (auto& of_rank : next_) {
        std::for_each(of_rank.begin(), of_rank.end(), [](size_t& at) { ++at; });
      }
      progress = true;
    }
  }
  for (size_t rank = 0; rank < orders.size(); ++rank) {
    for (const size_t next : next_[rank]) {
      if (next < orders[rank].size()) {
        const Action& action = orders[rank][next];
        return Error{ErrorKind::kContent, "XG0623",
                     "stage " + std::to_string(action.stage) + " waits for ever before " + to_text(action),
                     "this is a fault of the schedule: choose another `pipeline`"};
      }
    }
  }
  XRUN_CHECK(next_head_ == decision_.schedule.head_passes, "every head pass is run");
  return {};
}

Result<Program> Emitter::run() {
  XRUN_TRY(check_request());
  program_.training = decision_.training;
  program_.deterministic = decision_.deterministic;
  program_.devices = request_.machine.devices;
  program_.device_nodes = request_.machine.device_nodes;
  program_.gpu = request_.machine.gpu;
  for (int device = 0; device < program_.devices; ++device) {
    program_.threads.push_back(request_.machine.threads_of(device));
  }
  program_.batch = decision_.batch;
  program_.norm_rows = decision_.norm_rows;
  program_.micro_batches = decision_.micro_batches;
  program_.replicas = decision_.replicas;
  program_.partials = decision_.partials;
  program_.schedule = decision_.pipeline;
  program_.warm_up = decision_.warm_up;
  program_.overlap = decision_.overlap;
  program_.stages = decision_.stages;
  std::vector<std::vector<int>> devices;  // index: stage
  for (const Stage& stage : program_.stages) {
    devices.push_back(stage.devices);
  }
  program_.node_replicas = replicas_of_node(program_.device_nodes, devices);
  if (program_.training) {
    program_.sender_replicas = replicas_of_sender(request_.module.train.compress, request_.machine, devices);
  }
  owners_ = CompressionOwners(program_, request_.module);
  program_.heads = decision_.heads;
  for (const HeadPlan& head : program_.heads) {
    shard_parts_.push_back(shard_parts(program_, graph_, head));
    std::map<int, int64_t> rows;  // key: device
    most_rows_.push_back(1);
    for (const HeadShard& shard : head.shards) {
      const int64_t own = rows[shard.device] += shard.row_end - shard.row_begin;
      most_rows_.back() = std::max(most_rows_.back(), own);
    }
  }
  for (Stage& stage : program_.stages) {
    if (stage.backward.empty()) {
      stage.recomputed.clear();
    }
  }
  Decision completed = decision_;
  completed.stages = program_.stages;
  XRUN_ASSIGN(flow_, trace_values(graph_, completed, result_values(request_.module, decision_)));
  fill_stages();
  add_inputs();
  add_parameters();
  add_row_buffers();
  add_head_buffers();
  emit_selections();
  XRUN_TRY(walk_schedule());
  if (program_.training) {
    emit_update();
  }
  emit_masses();
  place_buffers(program_);
  derive_dependences(program_);
  return std::move(program_);
}

BufferId Emitter::add_buffer(Buffer buffer) {
  buffer.id = BufferId(program_.buffers.size());
  program_.buffers.push_back(std::move(buffer));
  return program_.buffers.back().id;
}

Instruction& Emitter::add(Instruction instruction) {
  instruction.id = InstructionId(program_.instructions.size());
  if (communicates(instruction.kind)) {
    std::vector<Operand> runs;
    for (const Operand& block : instruction.operands) {
      append_block(runs, block);
    }
    instruction.operands = std::move(runs);
  }
  derive_accesses(instruction);
  program_.instructions.push_back(std::move(instruction));
  return program_.instructions.back();
}

// Returns the operands that send an empty block to each replica of a stage.
std::vector<Operand> Emitter::blocks_to_replicas(int stage_index) const {
  std::vector<Operand> runs;
  for (const int device : stage(stage_index).devices) {
    append_block(runs, {.role = Role::kSent, .index = device});
  }
  return runs;
}

BufferId Emitter::place(ValueId value, int device, int micro_batch) const {
  auto found = places_.find({value.index, device, micro_batch});
  if (found == places_.end()) {
    found = places_.find({value.index, device, -1});
  }
  return found == places_.end() ? BufferId() : found->second;
}

void Emitter::set_place(ValueId value, int device, int micro_batch, BufferId buffer) {
  places_[{value.index, device, micro_batch}] = buffer;
}

std::string Emitter::name_of_value(ValueId value) const {
  const Value& what = graph_.value(value);
  return what.name + (what.output > 0 ? "." + std::to_string(what.output) : "");
}

Result<Program> emit(const EmitRequest& request) { return Emitter(request).run(); }

}  // namespace xrun::planner
