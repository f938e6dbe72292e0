#include "runtime/executor/exchanges.h"

#include <cstring>

#include "graph/base/check.h"
#include "runtime/executor/executor.h"
#include "runtime/executor/row_offsets.h"
#include "runtime/fold.h"

namespace xrun::runtime {
namespace {

using planner::Buffer;
using planner::HeadPlan;
using planner::Instruction;
using planner::InstructionId;
using planner::Kind;
using planner::Pass;
using planner::Purpose;

// The micro-batch, counted globally, of the rows that a member gives or takes.
int micro_batch_of(const planner::Program& program, const Instruction& instruction, const Buffer& buffer) {
  if (buffer.micro_batch >= 0) {
    return buffer.micro_batch;
  }
  return instruction.kind == Kind::kSend || instruction.kind == Kind::kRecv
             ? instruction.micro_batch
             : instruction.replica * micro_batches_of_replica(program) + instruction.micro_batch;
}

}  // namespace

Exchanges::Exchanges(const Graph& graph, const planner::Program& program, const BoundMemory& memory,
                     const Binder& binder, const HeadSet& heads, const NormLayout& norms)
    : graph_(graph),
      program_(program),
      memory_(memory),
      binder_(binder),
      heads_(heads),
      norms_(norms),
      bound_(program.instructions.size()),
      pieces_(program.instructions.size()) {
  for (const auto& members : groups_of(program)) {
    for (const InstructionId id : members) {
      publish(program.instruction(id));
    }
    for (const InstructionId id : members) {
      place(program.instruction(id), members);
    }
  }
}

void Exchanges::prepare(const Instruction& instruction, std::span<std::byte* const> inputs, Exchange& exchange) {
  BoundExchange& bound = bound_[static_cast<size_t>(instruction.id.index)];
  for (const BoundExchange::FromInput& from : bound.from_input) {
    std::span<std::byte>& piece = bound.send[static_cast<size_t>(from.piece)];
    piece = {inputs[static_cast<size_t>(from.input)] + from.offset, piece.size()};
  }
  exchange.send = bound.send;
  exchange.recv = {};
  exchange.context = &bound;
  const bool takes = !bound.copies.empty() || !bound.reduces.empty();
  exchange.combine = bound.sums ? &sum_f32 : takes ? &Exchanges::copy : nullptr;
}

Status Exchanges::copy(void* context, const Exchange& /*exchange*/, Published parts) {
  BoundExchange& bound = *static_cast<BoundExchange*>(context);
  for (const BoundExchange::Copy& copy : bound.copies) {
    const std::span<std::byte> piece = parts[static_cast<size_t>(copy.member)][static_cast<size_t>(copy.piece)];
    std::memcpy(copy.to, piece.data(), piece.size());
  }
  for (BoundExchange::Reduce& reduce : bound.reduces) {
    for (size_t shard = 0; shard < reduce.shards.size(); ++shard) {
      const BoundExchange::Copy& from = reduce.shards[shard];
      reduce.gradients[shard] =
          from.member < 0 ? nullptr : parts[static_cast<size_t>(from.member)][static_cast<size_t>(from.piece)].data();
    }
    reduce.join->reduce_dx(reduce.gradients, reduce.features, reduce.row_begin, reduce.row_end,
                           reinterpret_cast<float*>(reduce.out));
  }
  return {};
}

void Exchanges::add(const Instruction& instruction, std::byte* data, Bytes bytes, Piece piece) {
  const auto at = static_cast<size_t>(instruction.id.index);
  bound_[at].send.push_back({data, static_cast<size_t>(bytes)});
  pieces_[at].push_back(piece);
}

void Exchanges::publish(const Instruction& instruction) {
  for (const planner::BufferId id : instruction.reads) {
    const Buffer& buffer = program_.buffer(id);
    switch (buffer.purpose) {
      case Purpose::kActivation:
      case Purpose::kInput:
      case Purpose::kResult:
        if (instruction.kind != Kind::kReduceScatter) {
          publish_value(instruction, buffer);
        }
        break;
      case Purpose::kGradient:
        if (instruction.kind == Kind::kAllReduce) {
          bound_[static_cast<size_t>(instruction.id.index)].sums = true;
          add(instruction, memory_.at(buffer), graph_.value(graph_.param(buffer.param).value).type.bytes(0, 0),
              {.value = buffer.value, .purpose = buffer.purpose});
        } else {
          publish_value(instruction, buffer);
        }
        break;
      case Purpose::kHeadStats:
      case Purpose::kHeadGradient:
        for (const planner::HeadShard& shard : program_.heads[static_cast<size_t>(instruction.head)].shards) {
          const bool stats = buffer.purpose == Purpose::kHeadStats;
          const Bytes bytes = stats ? heads_.stats_bytes(instruction.head, shard.shard)
                                    : heads_.gradient_bytes(instruction.head, shard.shard);
          const Bytes offset = stats ? heads_.stats_offset(instruction.head, shard.shard)
                                     : heads_.gradient_offset(instruction.head, shard.shard);
          if (shard.device == instruction.device && bytes > 0) {
            add(instruction, memory_.at(buffer) + offset, bytes, {.purpose = buffer.purpose, .first = shard.shard});
          }
        }
        break;
      case Purpose::kNorms:
        publish_norms(instruction, buffer);
        break;
      default:
        break;
    }
  }
}

void Exchanges::publish_value(const Instruction& instruction, const Buffer& buffer) {
  const TensorType& type = graph_.value(buffer.value).type;
  const bool statistics = type.per_block() && instruction.kind == Kind::kAllGather;
  const int micro_batch = micro_batch_of(program_, instruction, buffer);
  const int64_t begin = first_row(program_, buffer);
  const int64_t first = statistics ? begin : micro_batch * program_.micro_batch_rows();
  const int64_t rows = statistics ? program_.batch / program_.replicas : program_.micro_batch_rows();
  const Piece piece{
      .value = buffer.value, .purpose = buffer.purpose, .first = first, .micro_batch = statistics ? -1 : micro_batch};
  const Bytes bytes = type.bytes(rows, program_.block_rows);
  if (buffer.purpose == Purpose::kInput) {
    BoundExchange& bound = bound_[static_cast<size_t>(instruction.id.index)];
    bound.from_input.push_back({static_cast<int32_t>(bound.send.size()), binder_.input_of(buffer.value),
                                type.bytes(first, program_.block_rows)});
    add(instruction, nullptr, bytes, piece);
    return;
  }
  add(instruction, memory_.at(buffer) + type.bytes(first - begin, program_.block_rows), bytes, piece);
}

// What this device has made: sums of the gradients that its kNorm read (of replica 0, where replicas agree), and of the
// shards that its kHeadNorms swept.
void Exchanges::publish_norms(const Instruction& instruction, const Buffer& buffer) {
  const auto publish_range = [&](ParamId param, int64_t skip, int64_t count) {
    const auto at = static_cast<size_t>(param.index);
    if (param.valid() && norms_.first[at] >= 0 && count > 0) {
      const int64_t first = norms_.first[at] + skip;
      add(instruction, memory_.at(buffer) + first * static_cast<Bytes>(sizeof(double)),
          count * static_cast<Bytes>(sizeof(double)), {.purpose = Purpose::kNorms, .first = first});
    }
  };
  for (const Instruction& made : program_.instructions) {
    if (made.device != instruction.device) {
      continue;
    }
    if (made.pass == Pass::kNorm) {
      for (const planner::BufferId id : made.reads) {
        const Buffer& gradient = program_.buffer(id);
        if (gradient.purpose == Purpose::kGradient && gradient.replica == 0) {
          publish_range(gradient.param, 0, norms_.count[static_cast<size_t>(gradient.param.index)]);
        }
      }
    } else if (made.pass == Pass::kHeadNorms) {
      const HeadPlan& head = program_.heads[static_cast<size_t>(made.head)];
      const planner::HeadShard& shard = head.shards[static_cast<size_t>(made.shard)];
      const BlockRange blocks = blocks_of(head.classes, {shard.row_begin, shard.row_end});
      publish_range(head.weight, blocks.begin, blocks.size());
      publish_range(head.bias, blocks.begin, blocks.size());
    }
  }
}

void Exchanges::place(const Instruction& instruction, const std::vector<InstructionId>& members) {
  BoundExchange& bound = bound_[static_cast<size_t>(instruction.id.index)];
  if (bound.sums) {
    return;
  }
  for (const planner::BufferId id : instruction.writes) {
    const Buffer& buffer = program_.buffer(id);
    if (instruction.kind == Kind::kReduceScatter) {
      bind_reduce(instruction, buffer, members);
      continue;
    }
    for (size_t m = 0; m < members.size(); ++m) {
      const auto& pieces = pieces_[static_cast<size_t>(members[m].index)];
      for (size_t p = 0; p < pieces.size(); ++p) {
        std::byte* to = place_of(instruction, buffer, pieces[p]);
        if (to != nullptr && to != bound_[static_cast<size_t>(members[m].index)].send[p].data()) {
          bound.copies.push_back({static_cast<int32_t>(m), static_cast<int32_t>(p), to});
        }
      }
    }
  }
}

// Where a published piece goes in `buffer`; null when it does not belong there.
std::byte* Exchanges::place_of(const Instruction& instruction, const Buffer& buffer, const Piece& piece) const {
  if (buffer.purpose == Purpose::kHeadStats || buffer.purpose == Purpose::kNorms) {
    if (piece.purpose != buffer.purpose) {
      return nullptr;
    }
    const Bytes offset = buffer.purpose == Purpose::kNorms
                             ? piece.first * static_cast<Bytes>(sizeof(double))
                             : heads_.stats_offset(instruction.head, static_cast<int>(piece.first));
    return memory_.at(buffer) + offset;
  }
  if (!piece.value.valid() || piece.value != buffer.value) {
    return nullptr;
  }
  const TensorType& type = graph_.value(buffer.value).type;
  int64_t row = piece.first - first_row(program_, buffer);
  if (buffer.purpose == Purpose::kGathered && piece.micro_batch >= 0) {
    row = head_place(program_, program_.heads[static_cast<size_t>(instruction.head)], buffer, piece.micro_batch);
  }
  return memory_.at(buffer) + type.bytes(row, program_.block_rows);
}

void Exchanges::bind_reduce(const Instruction& instruction, const Buffer& out,
                            const std::vector<InstructionId>& members) {
  const HeadPlan& head = program_.heads[static_cast<size_t>(instruction.head)];
  if (out.value != head.feature_grad) {
    return;
  }
  const Buffer* feature = find_value(program_, instruction, head.feature);
  XRUN_CHECK(feature != nullptr, "the gradient of a feature is made where the feature is");
  const TensorType& type = graph_.value(head.feature).type;
  const int micro_batch = micro_batch_of(program_, instruction, out);
  const int64_t first = micro_batch * program_.micro_batch_rows();
  BoundExchange::Reduce reduce;
  reduce.join = &heads_.join(instruction.head);
  reduce.row_begin = place_in_pass(program_, head, micro_batch);
  reduce.row_end = reduce.row_begin + program_.micro_batch_rows();
  // The feature of the micro-batch lies in a buffer of its own; the join counts from row 0 of the pass.
  const int64_t at = first - first_row(program_, *feature) - reduce.row_begin;
  reduce.features = reinterpret_cast<const std::byte*>(reinterpret_cast<intptr_t>(memory_.at(*feature)) +
                                                       at * type.bytes(1, program_.block_rows));
  reduce.out =
      memory_.at(out) + graph_.value(out.value).type.bytes(first - first_row(program_, out), program_.block_rows);
  reduce.shards.assign(head.shards.size(), {.member = -1});
  reduce.gradients.assign(head.shards.size(), nullptr);
  for (size_t m = 0; m < members.size(); ++m) {
    const auto& pieces = pieces_[static_cast<size_t>(members[m].index)];
    for (size_t p = 0; p < pieces.size(); ++p) {
      if (pieces[p].purpose == Purpose::kHeadGradient) {
        reduce.shards[static_cast<size_t>(pieces[p].first)] = {static_cast<int32_t>(m), static_cast<int32_t>(p),
                                                               nullptr};
      }
    }
  }
  bound_[static_cast<size_t>(instruction.id.index)].reduces.push_back(std::move(reduce));
}

}  // namespace xrun::runtime
