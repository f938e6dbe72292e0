// Decodes a plan, whose bytes may be damaged or forged.
// Tests: tests/planner/plan_file_test.cpp
#include <algorithm>
#include <cmath>

#include "plan_generated.h"
#include "planner/codec/counted_reader.h"
#include "planner/codec/kept_codec.h"
#include "planner/codec/plan_codec.h"
#include "planner/codec/reason_codec.h"

namespace xrun::planner {
namespace {

using flatbuffers::Offset;

// Limits of the FlatBuffers verifier; a file that exceeds them is rejected. The tables of a plan are not nested deeply.
constexpr flatbuffers::uoffset_t kMaxDepth = 16;
constexpr flatbuffers::uoffset_t kMaxTables = 16'000'000;

// Whether the times of the nodes of a stage are missing, as in files of earlier versions, or add up to those of the
// stage.
bool has_sound_times(const Stage& stage) {
  if (stage.forward_times.empty() && stage.backward_times.empty()) {
    return true;
  }
  if (stage.forward_times.size() != stage.forward.size() || stage.backward_times.size() != stage.forward.size()) {
    return false;
  }
  const std::vector<bool> again = stage.runs_again();
  Seconds forward = 0;
  Seconds backward = 0;
  for (size_t i = 0; i < again.size(); ++i) {
    forward += stage.forward_times[i];
    backward += stage.backward_times[i] + (again[i] ? stage.forward_times[i] : 0);
  }
  const auto are_times = [](const std::vector<Seconds>& times) {
    return std::ranges::all_of(times, [](Seconds time) { return std::isfinite(time) && time >= 0; });
  };
  constexpr double kRounding = 1e-9;
  return are_times(stage.forward_times) && are_times(stage.backward_times) &&
         std::abs(forward - stage.forward_time) <= kRounding * forward &&
         std::abs(backward - stage.backward_time) <= kRounding * backward;
}

class Reader : public CountedReader {
 public:
  using CountedReader::CountedReader;

  Plan read(const fb::Plan& in) {
    Plan plan;
    plan.id = text(in.id());
    plan.model = text(in.model());
    if (const fb::Machine* machine = in.machine()) {
      plan.machine = get(*machine);
    } else {
      ok_ = false;
    }
    if (in.training() == nullptr || in.inference() == nullptr || in.predicted() == nullptr) {
      ok_ = false;
      return plan;
    }
    plan.training = get(*in.training());
    plan.inference = get(*in.inference());
    plan.training.device_nodes = plan.inference.device_nodes = plan.machine.device_nodes;
    plan.training.gpu = plan.inference.gpu = plan.machine.gpu;
    ok_ = ok_ && plan.training.devices == plan.machine.devices && plan.inference.devices == plan.machine.devices;
    each(in.options(), [&](const fb::Option& one) { plan.options.emplace_back(text(one.name()), text(one.value())); });
    each(in.sources(), [&](const fb::SourceDigest& one) {
      plan.sources.push_back({text(one.path()), text(one.sha256())});
    });
    plan.math_digest = text(in.math_digest());
    plan.facts_digest = text(in.facts_digest());
    plan.isa = text(in.isa());
    const fb::Prediction& predicted = *in.predicted();
    plan.predicted = {predicted.step(),      predicted.images_per_second(), predicted.bubble(),
                      predicted.imbalance(), predicted.exposed_comm(),      in.loader()};
    const ReadText read_text = [&](const flatbuffers::String* value) { return text(value); };
    each(in.why(), [&](const fb::Reason& one) { add(plan.why, decode_reason(one, read_text)); });
    for (const auto& [list, to] :
         {std::pair(in.alternatives(), &plan.alternatives), std::pair(in.other_kinds(), &plan.other_kinds)}) {
      each(list, [&](const fb::Alternative& one) { add(*to, decode_alternative(one, read_text)); });
    }
    const ReadNumbers read_numbers = [&](const flatbuffers::Vector<int32_t>* list) { return ids<int>(list); };
    ok_ = decode_certificate(in.certificate(), read_numbers, plan.certificate) && ok_;
    plan.samples = std::max<int64_t>(0, in.samples());
    if (in.layer_times() != nullptr) {
      plan.layer_times = get(*in.layer_times());
      ok_ = ok_ && plan.layer_times.has_value();
    }
    return plan;
  }

 private:
  // Rejects a list of nodes that is neither empty nor as long as the number of devices, since device numbers index it.
  Machine get(const fb::Machine& in) {
    Machine machine{.name = text(in.name()),
                    .cores = in.cores(),
                    .devices = in.devices(),
                    .threads = in.threads(),
                    .memory = in.memory(),
                    .node_memory = in.node_memory(),
                    .ranks = in.ranks(),
                    .device_nodes = ids<int>(in.device_nodes()),
                    .network = {.name = text(in.network()), .rate = in.network_rate(), .latency = in.network_latency()},
                    .filling_workers = in.filling_workers(),
                    .gpu = in.gpu() != nullptr ? text(in.gpu()) : "",
                    .device_memory = in.device_memory(),
                    .device_link = in.device_link()};
    const auto is_node = [&](int node) { return node >= 0 && node < machine.devices; };
    const auto is_measure = [](double value) { return std::isfinite(value) && value >= 0; };
    const bool sized = machine.device_nodes.empty() ||
                       machine.device_nodes.size() == static_cast<size_t>(std::max(0, machine.devices));
    ok_ = ok_ && machine.devices >= 1 && machine.ranks >= 1 && machine.ranks <= machine.devices && sized &&
          std::ranges::all_of(machine.device_nodes, is_node) && is_measure(machine.network.rate) &&
          is_measure(machine.network.latency) && is_measure(machine.device_link) &&
          is_measure(machine.filling_workers) && (!machine.has_gpus() || machine.device_memory > 0);
    return machine;
  }

  std::optional<UsedTimes> get(const fb::LayerTimes& in) {
    UsedTimes times{text(in.file()), text(in.sha256()), in.rows(), in.layers(), in.nodes(), in.all_nodes()};
    const bool sound =
        times.rows >= 1 && times.layers >= 1 && times.nodes >= times.layers && times.all_nodes >= times.nodes;
    return sound ? std::optional(std::move(times)) : std::nullopt;
  }

  Stage get(const fb::Stage& in) {
    Stage stage;
    stage.index = in.index();
    stage.devices = ids<int>(in.devices());
    stage.forward = ids<NodeId>(in.forward());
    stage.backward = ids<NodeId>(in.backward());
    stage.recomputed = ids<NodeId>(in.recomputed());
    stage.saved = ids<ValueId>(in.saved());
    stage.received = ids<ValueId>(in.received());
    stage.forward_time = in.forward_time();
    stage.backward_time = in.backward_time();
    stage.forward_times = numbers(in.forward_times());
    stage.backward_times = numbers(in.backward_times());
    ok_ = ok_ && has_sound_times(stage);
    stage.parameter_bytes = in.parameter_bytes();
    stage.activation_bytes = in.activation_bytes();
    return stage;
  }

  HeadPlan get(const fb::Head& in) {
    HeadPlan head;
    head.head = in.head();
    head.node = NodeId(in.node());
    head.loss = NodeId(in.loss());
    head.metrics = ids<NodeId>(in.metrics());
    head.feature = ValueId(in.feature());
    head.feature_grad = ValueId(in.feature_grad());
    head.logits = ValueId(in.logits());
    head.label = ValueId(in.label());
    head.weight = ParamId(in.weight());
    head.bias = ParamId(in.bias());
    head.classes = in.classes();
    head.dim = in.dim();
    head.class_block = in.class_block();
    head.rows = in.rows();
    head.update_sweep = in.update_sweep();
    head.top_k = in.top_k();
    head.bf16 = in.bf16();
    head.row_weight = in.row_weight();
    head.frozen = in.frozen();
    head.row_factor = ValueId(in.row_factor());
    head.active = in.active();
    head.neighbours = in.neighbours();
    head.log_q = in.log_q();
    head.untouched = value_of(in.untouched(), Untouched::kExact);
    head.weights = value_of(in.weights(), RowFormat::kFp8);
    head.exact_graph = in.exact_graph();
    head.probes = in.probes();
    head.mapped = in.mapped();
    head.states = value_of(in.states(), RowFormat::kFp8);
    head.state_count = in.state_count();
    if (in.shards() != nullptr && take_elements<fb::Shard>(in.shards())) {
      for (const fb::Shard* shard : *in.shards()) {
        head.shards.push_back({head.head, shard->shard(), shard->device(), static_cast<int64_t>(shard->row_begin()),
                               static_cast<int64_t>(shard->row_end()), static_cast<int64_t>(shard->kept_blocks())});
      }
    }
    return head;
  }

  Buffer get(const fb::Buffer& in, size_t index) {
    Buffer buffer;
    buffer.id = BufferId(index);
    buffer.device = in.device();
    buffer.purpose = value_of(in.purpose(), Purpose::kHeadSums);
    buffer.bytes = in.bytes();
    buffer.offset = in.offset();
    buffer.first_use = in.first_use();
    buffer.last_use = in.last_use();
    buffer.persistent = in.persistent();
    buffer.value = ValueId(in.value());
    buffer.param = ParamId(in.param());
    buffer.state = in.state();
    buffer.ring = in.ring();
    buffer.node = NodeId(in.node());
    buffer.node_input = in.node_input();
    buffer.micro_batch = in.micro_batch();
    buffer.replica = in.replica();
    buffer.head = in.head();
    buffer.head_pass = in.head_pass();
    buffer.shard = in.shard();
    buffer.name = text(in.name());
    return buffer;
  }

  Operand get(const fb::Operand& in) {
    return {.role = value_of(in.role(), Role::kPairs),
            .access = value_of(in.access(), Access::kUpdate),
            .by = value_of(in.by(), By::kWorker),
            .buffer = BufferId(in.buffer()),
            .node = NodeId(in.node()),
            .param = ParamId(in.param()),
            .index = in.index(),
            .count = in.count(),
            .stride = in.stride(),
            .offset = in.offset(),
            .bytes = in.bytes(),
            .step = in.step()};
  }

  Instruction get(const fb::Instruction& in, size_t index) {
    Instruction one;
    one.id = InstructionId(index);
    one.kind = value_of(in.kind(), Kind::kSumDx);
    one.device = in.device();
    one.stream = value_of(in.stream(), Stream::kComm);
    one.stage = in.stage();
    one.replica = in.replica();
    one.micro_batch = in.micro_batch();
    one.head = in.head();
    one.head_pass = in.head_pass();
    one.gather = in.gather();
    one.shard = in.shard();
    one.group = in.group();
    one.nodes = ids<NodeId>(in.nodes());
    if (in.operands() != nullptr && take_elements<fb::Operand>(in.operands())) {
      for (const fb::Operand* operand : *in.operands()) {
        one.operands.push_back(get(*operand));
      }
    }
    derive_accesses(one);
    one.deps = ids<InstructionId>(in.deps());
    one.releases = ids<InstructionId>(in.releases());
    one.flops = in.flops();
    one.bytes = in.bytes();
    one.predicted = in.predicted();
    if (const fb::Span* span = in.span()) {
      one.span = {span->file(), span->begin(), span->end()};
    }
    return one;
  }

  Program get(const fb::Program& in) {
    Program program;
    program.training = in.training();
    program.deterministic = in.deterministic();
    program.devices = in.devices();
    program.threads = ids<int>(in.threads());
    program.batch = in.batch();
    program.norm_rows = in.norm_rows();
    program.micro_batches = in.micro_batches();
    program.replicas = in.replicas();
    program.node_replicas = in.node_replicas();
    program.sender_replicas = in.sender_replicas();
    program.partials = in.partials();
    program.schedule = value_of(in.schedule(), PipelineKind::kZeroBubble);
    program.warm_up = in.warm_up();
    program.overlap = in.overlap();
    each(in.stages(), [&](const fb::Stage& one) { program.stages.push_back(get(one)); });
    each(in.heads(), [&](const fb::Head& one) {
      program.heads.push_back(get(one));
      for (HeadShard& shard : program.heads.back().shards) {
        shard.head = program.heads.back().head;
      }
    });
    each(in.buffers(), [&](const fb::Buffer& one) { program.buffers.push_back(get(one, program.buffers.size())); });
    each(in.instructions(),
         [&](const fb::Instruction& one) { program.instructions.push_back(get(one, program.instructions.size())); });
    if (in.arenas() != nullptr && take_elements<fb::Arena>(in.arenas())) {
      for (const fb::Arena* arena : *in.arenas()) {
        program.arenas.push_back({arena->device(), arena->bytes(), arena->live_max()});
      }
    }
    return program;
  }
};

// Reads only the schema and the version, which are in the same place in files of every schema. Other tables may have
// another layout, so the whole file is not verified here.
bool read_schema(std::span<const uint8_t> bytes, DecodedPlan& decoded) {
  flatbuffers::Verifier verifier(bytes.data(), bytes.size());
  const size_t root = verifier.VerifyOffset(0);
  if (root == 0) {
    return false;
  }
  const auto* table = reinterpret_cast<const flatbuffers::Table*>(bytes.data() + root);
  if (!table->VerifyTableStart(verifier) || !table->VerifyField<uint32_t>(verifier, fb::Plan::VT_SCHEMA, 4) ||
      !table->VerifyOffset(verifier, fb::Plan::VT_XRUN_VERSION)) {
    return false;
  }
  decoded.schema = table->GetField<uint32_t>(fb::Plan::VT_SCHEMA, 0);
  const auto* version = table->GetPointer<const flatbuffers::String*>(fb::Plan::VT_XRUN_VERSION);
  if (version != nullptr && !verifier.VerifyString(version)) {
    return false;
  }
  decoded.xrun_version = version != nullptr ? version->str().substr(0, 64) : "";
  return true;
}

}  // namespace

Result<DecodedPlan> decode_plan(std::span<const std::byte> bytes, uint32_t wanted, const std::string& name,
                                const OpRegistry* ops) {
  const auto damaged = [&](const char* what) {
    return Error{ErrorKind::kContent, "XG0621", "`" + name + "` " + what, "make the plan again with `xrun plan`"};
  };
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  if (bytes.size() < 8 || bytes.size() >= FLATBUFFERS_MAX_BUFFER_SIZE || !fb::PlanBufferHasIdentifier(data)) {
    return damaged("is not a plan file");
  }
  DecodedPlan decoded;
  if (!read_schema({data, bytes.size()}, decoded)) {
    return damaged("has a structure that is not a plan's");
  }
  if (decoded.schema != wanted) {
    return decoded;
  }
  flatbuffers::Verifier verifier(data, bytes.size(), kMaxDepth, kMaxTables);
  if (!fb::VerifyPlanBuffer(verifier)) {
    return damaged("has a structure that is not a plan's");
  }
  Reader reader(bytes.size());
  decoded.plan = reader.read(*fb::GetPlan(data));
  if (!reader.ok()) {
    return damaged("has a field out of range or lacks one");
  }
  XRUN_TRY(KeptReader(bytes.size(), ops).read(*fb::GetPlan(data), name, decoded.plan));
  return decoded;
}

}  // namespace xrun::planner
