#include "planner/cost/durations.h"

#include <algorithm>
#include <map>
#include <set>

#include "graph/layouts/compression.h"
#include "graph/layouts/row_updates.h"
#include "graph/settings/optimizer_facts.h"
#include "planner/program/links.h"

namespace xrun::planner {
namespace {

Bytes bytes_of(const Program& program, const std::vector<BufferId>& buffers) {
  Bytes sum = 0;
  for (const BufferId id : buffers) {
    sum += program.buffer(id).bytes;
  }
  return sum;
}

Bytes operand_bytes(const Instruction& instruction) {
  Bytes sum = 0;
  for (const Operand& operand : instruction.operands) {
    sum += operand.bytes;
  }
  return sum;
}

// Returns the bytes that a sum of dX reads and writes: all partials of its terms and of its result.
Bytes dx_bytes(const Program& program, const Instruction& sum) {
  const HeadPlan& head = program.heads[static_cast<size_t>(sum.head)];
  const ClassBlocks blocks = head.blocks();
  const auto partials = [&](ClassRange classes) {
    return static_cast<Bytes>(blocks.subtrees(blocks.of_rows(classes)).size());
  };
  const std::vector<ClassRange> terms = classes_of_dx_terms(sum, head);
  auto term = terms.begin();
  Bytes bytes = 0;
  for (const Operand& operand : sum.operands) {
    if (operand.role != Role::kDx) {
      bytes += operand.bytes;
    } else if (operand.access == Access::kRead) {
      bytes += operand.bytes * partials(*term++);
    } else {
      bytes += operand.bytes * partials({terms.front().begin, terms.back().end});
    }
  }
  return bytes;
}

// Returns the time to select the largest elements of the residuals that a compression has updated.
Seconds selection_time(const Instruction& compression, double density, int workers, const CostModel& cost) {
  Seconds sum = 0;
  for (const Operand& operand : compression.operands) {
    if (operand.role == Role::kState && operand.index == 1) {
      const int64_t elements = operand.bytes / 4;
      sum += cost.select_largest(elements, pairs_of(elements, density), workers);
    }
  }
  return sum;
}

Bytes zeroed_bytes(const Instruction& pass) {
  Bytes sum = 0;
  for (const Operand& operand : pass.operands) {
    sum += operand.role == Role::kZeroed ? operand.bytes : 0;
  }
  return sum;
}

// The parts of the weights that updates read and write, for those of which only some rows are updated.
using UpdatedShares = std::map<ParamId, double>;

UpdatedShares updated_shares(const Graph& graph, int64_t batch) {
  UpdatedShares shares;
  for (const ParamId param : params_updated_by_row(graph)) {
    shares[param] = largest_updated_share(graph, param, batch);
  }
  return shares;
}

// Returns the bytes that an update reads and writes. Each buffer counts once. The scratch memory in which kernels
// prepare weights is not counted; prepared forms whose time was measured (prepare_time) are not counted either.
Bytes update_bytes(const Program& program, const UpdatedShares& shares, const Instruction& update,
                   const CostModel& cost) {
  std::set<BufferId> touched(update.reads.begin(), update.reads.end());
  touched.insert(update.writes.begin(), update.writes.end());
  Bytes sum = 0;
  for (const BufferId id : touched) {
    const Buffer& buffer = program.buffer(id);
    const bool timed = buffer.purpose == Purpose::kPrepared && cost.facts().measured;
    const auto share = buffer.purpose == Purpose::kWeight || buffer.purpose == Purpose::kOptimizer
                           ? shares.find(buffer.param)
                           : shares.end();
    if (share != shares.end()) {
      sum += static_cast<Bytes>(share->second * static_cast<double>(buffer.bytes));
    } else {
      sum += timed || buffer.purpose == Purpose::kScratch ? 0 : buffer.bytes;
    }
  }
  return sum;
}

// Returns the time to make the prepared forms of the weights that an update has changed.
Seconds prepare_time(const Instruction& update, const CostModel& cost) {
  Seconds sum = 0;
  for (const Operand& operand : update.operands) {
    if (operand.role == Role::kPrepared && operand.node.valid()) {
      sum += cost.prepare(operand.node, operand.index);
    }
  }
  return sum;
}

// Returns the bytes that an update reads in advance to compute the norms that its optimizer needs. The norm of a
// compressed gradient is that of its pairs, which are few.
Bytes norm_bytes(const Module& module, const Instruction& update) {
  const NormReads norms = norm_reads(module.train.optimizer);
  Bytes sum = 0;
  for (const Operand& operand : update.operands) {
    const bool read = (operand.role == Role::kGradient && operand.access == Access::kRead) ||
                      operand.role == Role::kWeight || (operand.role == Role::kState && norms.states);
    if (read && module.graph.value(module.graph.param(operand.param).value).type.rank() > 1) {
      sum += norms.sweeps * operand.bytes;
    }
  }
  return sum;
}

Seconds communication_time(const Program& program, const Instruction& instruction, int members, const CostModel& cost) {
  const Bytes bytes = instruction.bytes > 0 ? instruction.bytes : bytes_of(program, instruction.writes);
  switch (instruction.kind) {
    case Kind::kSend:
      return cost.copy(bytes);
    case Kind::kCopy:
      return program.buffer(instruction.reads.front()).device == kHost ? cost.copy_from_host(bytes) : cost.copy(bytes);
    case Kind::kAllGather:
      return cost.all_gather(bytes, members);
    case Kind::kReduceScatter:
      return cost.reduce_scatter(bytes, members);
    default:
      return 0;  // a receive takes no time of its own, since it ends together with its send
  }
}

}  // namespace

void predict_durations(Program& program, const Module& module, const CostModel& cost) {
  std::map<int, int> members;
  for (const Instruction& instruction : program.instructions) {
    members[instruction.group] += 1;
  }
  const UpdatedShares shares = updated_shares(module.graph, program.batch);
  const std::map<int, LinkLoad> loads = link_loads(program, cost.machine());
  for (Instruction& instruction : program.instructions) {
    const int workers = std::max(1, cost.machine().threads_of(instruction.device));
    if (instruction.kind == Kind::kUpdate) {
      const Bytes bytes = update_bytes(program, shares, instruction, cost) + norm_bytes(module, instruction);
      instruction.predicted =
          cost.hand_over() + cost.streaming(bytes, workers) + prepare_time(instruction, cost) / workers;
    } else if (instruction.kind == Kind::kCopy || communicates(instruction.kind)) {
      instruction.predicted = communication_time(program, instruction, members[instruction.group], cost);
      if (const auto load = loads.find(instruction.group); load != loads.end()) {
        instruction.predicted = std::max(instruction.predicted, load->second.time());
      }
    } else if (instruction.kind == Kind::kHeadSelect) {
      const HeadPlan& head = program.heads[static_cast<size_t>(instruction.head)];
      const HeadShard& shard = head.shards[static_cast<size_t>(instruction.shard)];
      const int64_t active = head.active * (shard.row_end - shard.row_begin) / head.classes;
      instruction.predicted = cost.hand_over() + cost.selection(active, program.batch);
    } else if (instruction.kind == Kind::kSumDx || instruction.kind == Kind::kReduceDx) {
      instruction.predicted = cost.hand_over() + cost.streaming(dx_bytes(program, instruction), 1);
    } else if (instruction.kind == Kind::kSumReplicas || instruction.kind == Kind::kSumTied) {
      instruction.predicted = cost.hand_over() + cost.streaming(operand_bytes(instruction), workers);
    } else if (instruction.kind == Kind::kFoldPartials || instruction.kind == Kind::kNorm) {
      instruction.predicted = cost.hand_over() + cost.streaming(bytes_of(program, instruction.reads), workers);
    } else if (instruction.kind == Kind::kReduceStats || instruction.kind == Kind::kCompress) {
      instruction.predicted = cost.hand_over() + cost.sweep(bytes_of(program, instruction.reads), workers);
      if (instruction.kind == Kind::kCompress) {
        instruction.predicted += selection_time(instruction, module.train.compress.density, workers, cost);
      }
    } else {
      instruction.predicted += cost.hand_over() + cost.sweep(zeroed_bytes(instruction), workers);
    }
  }
}

}  // namespace xrun::planner
