#include "runtime/executor/exchanges.h"

#include <cstring>
#include <map>

#include "graph/base/check.h"
#include "runtime/executor/executor.h"

namespace xrun::runtime {
namespace {

using planner::HeadPlan;
using planner::Instruction;
using planner::InstructionId;
using planner::Kind;
using planner::Operand;
using planner::Role;

bool is_published(Role role) { return role == Role::kSent || role == Role::kSum || role == Role::kDx; }

// The row of a head pass that the member's micro-batch begins at: rows of a pass lie in the order of the replicas.
int64_t row_of_pass(const planner::Program& program, const HeadPlan& head, const Instruction& member) {
  const int all = member.replica * program.micro_batches_of_replica() + member.gather;
  return program.micro_batch_rows() * (head.rows == program.batch ? all : member.replica);
}

}  // namespace

Exchanges::Exchanges(const Graph& graph, const planner::Program& program, const Binder& binder, const HeadSet& heads)
    : graph_(graph), program_(program), binder_(binder), heads_(heads), bound_(program.instructions.size()) {
  for (const Members& members : groups_of(program)) {
    for (const InstructionId id : members) {
      publish(program.instruction(id));
    }
    for (const InstructionId id : members) {
      bind_copies(program.instruction(id), members);
      bind_reduce(program.instruction(id), members);
    }
  }
}

void Exchanges::prepare(const Instruction& instruction, Exchange& exchange) {
  BoundExchange& bound = bound_[static_cast<size_t>(instruction.id.index)];
  exchange.send = bound.send;
  exchange.recv = {};
  exchange.context = &bound;
  const bool takes = !bound.copies.empty() || !bound.reduces.empty();
  exchange.combine = bound.sums ? &sum_f32 : takes ? &Exchanges::combine : nullptr;
}

Status Exchanges::combine(void* context, const Exchange& /*exchange*/, Published parts) {
  BoundExchange& bound = *static_cast<BoundExchange*>(context);
  for (const BoundExchange::Copy& copy : bound.copies) {
    const std::span<std::byte> block = parts[static_cast<size_t>(copy.member)][static_cast<size_t>(copy.block)];
    std::memcpy(copy.to, block.data(), block.size());
  }
  for (BoundExchange::Reduce& reduce : bound.reduces) {
    for (size_t shard = 0; shard < reduce.shards.size(); ++shard) {
      const BoundExchange::Copy& from = reduce.shards[shard];
      reduce.gradients[shard] =
          from.member < 0 ? nullptr : parts[static_cast<size_t>(from.member)][static_cast<size_t>(from.block)].data();
    }
    reduce.join->reduce_dx(reduce.gradients, reduce.features, reduce.row_begin, reduce.row_end,
                           reinterpret_cast<float*>(reduce.out));
  }
  return {};
}

void Exchanges::publish(const Instruction& instruction) {
  BoundExchange& bound = bound_[static_cast<size_t>(instruction.id.index)];
  for (const Operand& operand : instruction.operands) {
    if (is_published(operand.role)) {
      bound.send.push_back({binder_.at(operand), static_cast<size_t>(operand.bytes)});
      bound.sums = bound.sums || operand.role == Role::kSum;
    }
  }
}

// The i-th block that a device has received from another is the i-th that this one sends to it.
void Exchanges::bind_copies(const Instruction& instruction, const Members& members) {
  std::map<int, size_t> next;  // by member: its operand to look at next
  for (const Operand& operand : instruction.operands) {
    if (operand.role != Role::kReceived) {
      continue;
    }
    for (size_t m = 0; m < members.size(); ++m) {
      const Instruction& sender = program_.instruction(members[m]);
      if (sender.device != operand.index) {
        continue;
      }
      size_t& at = next[static_cast<int>(m)];
      while (sender.operands[at].role != Role::kSent || sender.operands[at].index != instruction.device) {
        ++at;
      }
      const auto block = std::count_if(sender.operands.begin(), sender.operands.begin() + static_cast<int64_t>(at),
                                       [](const Operand& one) { return is_published(one.role); });
      XRUN_CHECK(sender.operands[at++].bytes == operand.bytes, "a block is received in another size than it was sent");
      bound_[static_cast<size_t>(instruction.id.index)].copies.push_back(
          {static_cast<int32_t>(m), static_cast<int32_t>(block), binder_.at(operand)});
    }
  }
}

void Exchanges::bind_reduce(const Instruction& instruction, const Members& members) {
  if (instruction.kind != Kind::kReduceScatter || instruction.operands.back().role != Role::kFeatureGradient) {
    return;
  }
  const HeadPlan& head = program_.heads[static_cast<size_t>(instruction.head)];
  BoundExchange::Reduce reduce;
  reduce.join = &heads_.join(instruction.head);
  reduce.row_begin = row_of_pass(program_, head, instruction);
  reduce.row_end = reduce.row_begin + program_.micro_batch_rows();
  // The rows of the micro-batch lie in a buffer of their own; the join counts from row 0 of the pass.
  const Bytes before = graph_.value(head.feature).type.bytes(reduce.row_begin, program_.block_rows);
  reduce.features = reinterpret_cast<const std::byte*>(
      reinterpret_cast<uintptr_t>(binder_.at(instruction.operands.front())) - static_cast<uintptr_t>(before));
  reduce.out = binder_.at(instruction.operands.back());
  reduce.shards.assign(head.shards.size(), {.member = -1});
  reduce.gradients.assign(head.shards.size(), nullptr);
  for (size_t m = 0; m < members.size(); ++m) {
    int32_t block = 0;
    for (const Operand& operand : program_.instruction(members[m]).operands) {
      if (operand.role == Role::kDx) {
        reduce.shards[static_cast<size_t>(operand.index)] = {static_cast<int32_t>(m), block++, nullptr};
      }
    }
  }
  bound_[static_cast<size_t>(instruction.id.index)].reduces.push_back(std::move(reduce));
}

}  // namespace xrun::runtime
