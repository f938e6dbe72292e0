// Encodes a plan.
// Tests: tests/planner/plan_file_test.cpp
#include "plan_generated.h"
#include "planner/codec/kept_codec.h"
#include "planner/codec/plan_codec.h"
#include "planner/codec/reason_codec.h"

namespace xrun::planner {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

class Writer {
 public:
  std::vector<std::byte> write(const Plan& plan, uint32_t schema, const PlanTexts& texts) {
    const auto machine = put(plan.machine);
    const auto training = put(plan.training);
    const auto inference = put(plan.inference);
    std::vector<Offset<fb::Option>> options;
    for (const auto& [name, value] : plan.options) {
      options.push_back(fb::CreateOption(builder_, text(name), text(value)));
    }
    std::vector<Offset<fb::SourceDigest>> sources;
    for (const SourceDigest& source : plan.sources) {
      sources.push_back(fb::CreateSourceDigest(builder_, text(source.path), text(source.sha256)));
    }
    std::vector<Offset<fb::Reason>> why;
    for (const Reason& reason : plan.why) {
      why.push_back(encode_reason(builder_, reason, texts));
    }
    const auto alternatives = put(plan.alternatives, texts);
    const auto other_kinds = put(plan.other_kinds, texts);
    const auto certificate =
        plan.certificate ? encode_certificate(builder_, *plan.certificate) : Offset<fb::Certificate>();
    const auto times = plan.layer_times ? put(*plan.layer_times) : Offset<fb::LayerTimes>();
    const fb::Prediction predicted(plan.predicted.step, plan.predicted.images_per_second, plan.predicted.bubble,
                                   plan.predicted.imbalance, plan.predicted.exposed_comm);
    const auto kept = plan.kept ? encode_kept(builder_, *plan.kept) : Offset<fb::Model>();
    const auto graphs = put(plan.graphs);
    const auto sizes = put(plan.smaller);
    const auto root = fb::CreatePlan(builder_, schema, text(XRUN_VERSION), text(plan.id), text(plan.model), machine,
                                     training, inference, builder_.CreateVector(options),
                                     builder_.CreateVector(sources), text(plan.math_digest), text(plan.facts_digest),
                                     text(plan.isa), &predicted, builder_.CreateVector(why), alternatives, plan.samples,
                                     plan.predicted.loader, times, other_kinds, certificate, kept, graphs, sizes);
    fb::FinishPlanBuffer(builder_, root);
    const auto* data = reinterpret_cast<const std::byte*>(builder_.GetBufferPointer());
    return {data, data + builder_.GetSize()};
  }

 private:
  Offset<flatbuffers::Vector<Offset<fb::Alternative>>> put(const std::vector<Alternative>& list,
                                                           const PlanTexts& texts) {
    std::vector<Offset<fb::Alternative>> offsets;
    for (const Alternative& one : list) {
      offsets.push_back(encode_alternative(builder_, one, texts));
    }
    return builder_.CreateVector(offsets);
  }

  Offset<flatbuffers::Vector<const fb::GraphBuild*>> put(const std::vector<GraphBuild>& builds) {
    std::vector<fb::GraphBuild> list;
    for (const GraphBuild& build : builds) {
      list.emplace_back(build.head, build.is_exact, build.exact, build.approximate);
    }
    return builder_.CreateVectorOfStructs(list);
  }

  Offset<flatbuffers::Vector<const fb::StepSize*>> put(const std::vector<StepProgram>& smaller) {
    std::vector<fb::StepSize> list;
    for (const StepProgram& one : smaller) {
      Bytes used = 0;
      for (const Arena& arena : one.program.arenas) {
        used += arena.live_max;
      }
      list.emplace_back(one.units, one.program.batch, used, one.step);
    }
    return builder_.CreateVectorOfStructs(list);
  }

  Offset<flatbuffers::String> text(const std::string& value) { return builder_.CreateString(value); }

  template <typename Tag>
  Offset<flatbuffers::Vector<int32_t>> ids(const std::vector<Id<Tag>>& list) {
    std::vector<int32_t> numbers;
    for (const Id<Tag> id : list) {
      numbers.push_back(id.index);
    }
    return builder_.CreateVector(numbers);
  }

  Offset<fb::Machine> put(const Machine& machine) {
    const auto gpu = machine.has_gpus() ? text(machine.gpu) : Offset<flatbuffers::String>();
    return fb::CreateMachine(builder_, text(machine.name), machine.cores, machine.devices, machine.threads,
                             machine.memory, machine.node_memory, machine.ranks,
                             builder_.CreateVector(machine.device_nodes), text(machine.network.name),
                             machine.network.rate, machine.network.latency, gpu, machine.device_memory,
                             machine.device_link, machine.filling_workers);
  }

  Offset<fb::LayerTimes> put(const UsedTimes& times) {
    return fb::CreateLayerTimes(builder_, text(times.file), text(times.sha256), times.rows, times.layers, times.nodes,
                                times.all_nodes);
  }

  Offset<fb::Stage> put(const Stage& stage) {
    return fb::CreateStage(builder_, stage.index, builder_.CreateVector(stage.devices), ids(stage.forward),
                           ids(stage.backward), ids(stage.recomputed), ids(stage.saved), ids(stage.received),
                           stage.forward_time, stage.backward_time, stage.parameter_bytes, stage.activation_bytes,
                           builder_.CreateVector(stage.forward_times), builder_.CreateVector(stage.backward_times));
  }

  Offset<fb::Head> put(const HeadPlan& head) {
    std::vector<fb::Shard> shards;
    for (const HeadShard& shard : head.shards) {
      shards.emplace_back(shard.shard, shard.device, static_cast<uint64_t>(shard.row_begin),
                          static_cast<uint64_t>(shard.row_end), static_cast<uint64_t>(shard.kept_blocks));
    }
    return fb::CreateHead(
        builder_, head.head, head.node.index, head.loss.index, ids(head.metrics), head.feature.index,
        head.feature_grad.index, head.logits.index, head.label.index, head.weight.index, head.bias.index, head.classes,
        head.dim, head.class_block, head.rows, head.update_sweep, head.top_k, head.bf16, head.row_weight,
        builder_.CreateVectorOfStructs(shards), head.frozen, head.row_factor.index, head.active, head.neighbours,
        head.log_q, static_cast<uint8_t>(head.untouched), static_cast<uint8_t>(head.weights),
        static_cast<uint8_t>(head.states), head.exact_graph, head.mapped, head.probes, head.state_count);
  }

  Offset<fb::Buffer> put(const Buffer& buffer) {
    return fb::CreateBuffer(builder_, buffer.device, static_cast<uint8_t>(buffer.purpose), buffer.bytes, buffer.offset,
                            buffer.first_use, buffer.last_use, buffer.persistent, buffer.value.index,
                            buffer.param.index, buffer.state, buffer.ring, buffer.node.index, buffer.node_input,
                            buffer.micro_batch, buffer.replica, buffer.head, buffer.head_pass, buffer.shard,
                            text(buffer.name));
  }

  Offset<fb::Instruction> put(const Instruction& one) {
    const fb::Span span(one.span.file, one.span.begin, one.span.end);
    std::vector<fb::Operand> operands;
    for (const Operand& o : one.operands) {
      operands.emplace_back(static_cast<uint8_t>(o.role), static_cast<uint8_t>(o.access), static_cast<uint8_t>(o.by),
                            o.buffer.index, o.node.index, o.param.index, o.index, o.count, o.stride, o.offset, o.bytes,
                            o.step);
    }
    return fb::CreateInstruction(builder_, static_cast<uint8_t>(one.kind), one.device, static_cast<uint8_t>(one.stream),
                                 one.stage, one.replica, one.micro_batch, one.head, one.head_pass, one.gather,
                                 one.shard, one.group, ids(one.nodes), builder_.CreateVectorOfStructs(operands),
                                 ids(one.deps), ids(one.releases), one.flops, one.bytes, one.predicted, &span);
  }

  template <typename To, typename From>
  Offset<flatbuffers::Vector<Offset<To>>> tables(const std::vector<From>& list) {
    std::vector<Offset<To>> offsets;
    for (const From& one : list) {
      offsets.push_back(put(one));
    }
    return builder_.CreateVector(offsets);
  }

  Offset<fb::Program> put(const Program& program) {
    std::vector<fb::Arena> arenas;
    for (const Arena& arena : program.arenas) {
      arenas.emplace_back(arena.device, arena.bytes, arena.live_max);
    }
    return fb::CreateProgram(builder_, program.training, program.deterministic, program.devices,
                             builder_.CreateVector(program.threads), program.batch, program.norm_rows,
                             program.micro_batches, program.replicas, program.partials,
                             static_cast<uint8_t>(program.schedule), program.overlap, tables<fb::Stage>(program.stages),
                             tables<fb::Head>(program.heads), tables<fb::Buffer>(program.buffers),
                             tables<fb::Instruction>(program.instructions), builder_.CreateVectorOfStructs(arenas),
                             program.node_replicas, program.sender_replicas, program.warm_up);
  }

  FlatBufferBuilder builder_;
};

}  // namespace

std::vector<std::byte> encode_plan(const Plan& plan, uint32_t schema, const PlanTexts& texts) {
  return Writer().write(plan, schema, texts);
}

}  // namespace xrun::planner
