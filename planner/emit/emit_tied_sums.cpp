// Emits the sums of the gradients of tied weights (graph/passes/untie.h). Each stage that reads a tied weight has one
// copy of it, which belongs to the holder: the first reader in that stage. The stages send the gradients of their
// readers to each other, and each stage adds the gradients of all readers.
// Tests: tests/planner/verify/verify_module_test.cpp, tests/runtime/runs/tied_weights_test.cpp
#include <algorithm>
#include <set>

#include "planner/emit/emitter.h"

namespace xrun::planner {

// Returns the holder in a stage for the tied weight that `param` reads; `param` itself if the weight is not tied.
ParamId Emitter::holder(ParamId param, int stage_index) const {
  if (!graph_.param(param).tied.valid()) {
    return param;
  }
  ParamId first = param;
  for (const ParamId other : flow_.stages[static_cast<size_t>(stage_index)].params) {
    if (graph_.param(other).tied == graph_.param(param).tied && other < first) {
      first = other;
    }
  }
  return first;
}

int Emitter::stage_with_gradient(ParamId param) const {
  return flow_.maker[static_cast<size_t>(graph_.param_grads[param].index)];
}

void Emitter::emit_tied_sums() {
  for (size_t p = 0; p < graph_.params.size(); ++p) {
    const ParamId param(p);
    if (graph_.param(param).tied == param && graph_.param_grads[param].valid()) {
      for (int replica = 0; replica < program_.replicas; ++replica) {
        emit_tied_exchange(tied_group(graph_, param), replica);
      }
    }
  }
  for (const Stage& one : program_.stages) {
    for (int replica = 0; replica < program_.replicas; ++replica) {
      Instruction sum = sum_of_readers(one.index, replica);
      if (!sum.operands.empty()) {
        add(std::move(sum));
      }
    }
  }
}

// Emits the exchange in which every stage that reads a tied weight receives the gradients of the readers in other
// stages.
void Emitter::emit_tied_exchange(const std::vector<ParamId>& readers, int replica) {
  std::set<int> stages;
  for (const ParamId reader : readers) {
    stages.insert(stage_with_gradient(reader));
  }
  if (stages.size() < 2) {
    return;
  }
  for (const int one : stages) {
    Instruction exchange{.kind = Kind::kAllGather,
                         .device = device_of(one, replica),
                         .stream = comm_stream(),
                         .stage = one,
                         .replica = replica,
                         .group = groups_};
    for (const ParamId reader : readers) {
      const int from = stage_with_gradient(reader);
      if (from == one) {
        Operand sent = gradient_operand(Role::kSent, Access::kRead, reader, exchange.device);
        sent.param = {};
        exchange.bytes += sent.bytes * (std::ssize(stages) - 1);
        for (const int other : stages) {
          sent.index = device_of(other, replica);
          if (other != one) {
            exchange.operands.push_back(sent);
          }
        }
        continue;
      }
      const Bytes bytes = type(graph_.param_grads[reader]).bytes(0, program_.norm_rows);
      const BufferId terms = add_buffer({.device = exchange.device,
                                         .purpose = Purpose::kTerms,
                                         .bytes = bytes,
                                         .param = reader,
                                         .replica = replica,
                                         .name = graph_.param(reader).name + ".terms"});
      gradient_terms_[{reader, exchange.device}] = terms;
      exchange.operands.push_back({.role = Role::kReceived,
                                   .access = Access::kWrite,
                                   .buffer = terms,
                                   .index = device_of(from, replica),
                                   .bytes = bytes});
    }
    add(std::move(exchange));
  }
  ++groups_;
}

// Returns the instruction that adds, for each tied weight of a stage, all readers' gradients to that of the holder.
Instruction Emitter::sum_of_readers(int stage_index, int replica) const {
  Instruction sum{
      .kind = Kind::kSumTied, .device = device_of(stage_index, replica), .stage = stage_index, .replica = replica};
  std::vector<ParamId> gradients = flow_.stages[static_cast<size_t>(stage_index)].gradients;
  std::sort(gradients.begin(), gradients.end());
  for (const ParamId own : gradients) {
    const std::vector<ParamId> readers = tied_group(graph_, own);
    if (readers.empty() || holder(own, stage_index) != own) {
      continue;
    }
    const auto term = [&](Role role, size_t index) {
      const ParamId reader = readers[index];
      Operand operand = gradient_operand(role, Access::kUpdate, reader, sum.device);
      operand.index = static_cast<int32_t>(index);
      return operand;
    };
    const auto place = static_cast<size_t>(std::ranges::find(readers, own) - readers.begin());
    sum.operands.push_back(term(Role::kSum, place));
    for (size_t i = 0; i < readers.size(); ++i) {
      if (i == place) {
        continue;
      }
      if (stage_with_gradient(readers[i]) == stage_index) {
        sum.operands.push_back(term(Role::kTerm, i));
        continue;
      }
      sum.operands.push_back(whole(Role::kTerm, Access::kUpdate, gradient_terms_.at({readers[i], sum.device})));
      sum.operands.back().param = readers[i];
      sum.operands.back().index = static_cast<int32_t>(i);
    }
  }
  return sum;
}

}  // namespace xrun::planner
