// Tests: tests/runtime/train/state/train_state_test.cpp
#include "runtime/train/state/state_tensor.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <optional>

#include "graph/base/check.h"
#include "graph/layouts/compression.h"
#include "graph/layouts/head_shape.h"
#include "graph/settings/optimizer_facts.h"
#include "graph/settings/update_rule.h"

namespace xrun::runtime {
namespace {

using planner::Buffer;
using planner::Purpose;

DType dtype_of(RowFormat format) {
  return format == RowFormat::kF32 ? DType::kF32 : format == RowFormat::kBf16 ? DType::kBF16 : DType::kF8E4M3;
}

// The states that the optimizer has for a weight, in the order of Buffer::state.
struct OptimizerStates {
  std::vector<std::string> names;
  std::vector<double> firsts;  // initial value of each state
};

OptimizerStates optimizer_states(const Module& module) {
  OptimizerStates states{states_beside_weights(module.train), initial_values_of_rule(module.train.optimizer.args)};
  states.firsts.resize(states.names.size());
  return states;
}

// Changes the description of a head's weight to that of another per-row tensor of the head that is no optimizer state.
void describe_rows_of_head(const Buffer& buffer, const planner::HeadPlan& head, StateTensor& one) {
  switch (buffer.purpose) {
    case Purpose::kHeadScale:
      one = scales_of(one);
      break;
    case Purpose::kHeadLast:
      one.name += ".last";
      one.type.dtype = DType::kI32;
      one.type.dims.resize(1);
      break;
    case Purpose::kHeadLists:
    case Purpose::kHeadSnapshot:
      one.role = StateTensor::Role::kGraph;
      one.kept = false;
      one.name += buffer.purpose == Purpose::kHeadLists ? ".lists" : ".snapshot";
      if (buffer.purpose == Purpose::kHeadLists) {
        one.type.dtype = DType::kI32;
        one.type.dims[1] = head.neighbours;
      }
      break;
    default:
      break;
  }
}

// Describes the tensor whose rows are in a buffer, without its pieces. Nullopt if every step computes the buffer anew.
std::optional<StateTensor> tensor_of(const Module& module, const planner::Program& program, const Buffer& buffer,
                                     const OptimizerStates& states) {
  const bool weight = buffer.purpose == Purpose::kWeight || buffer.purpose == Purpose::kHeadWeight;
  const bool state = buffer.purpose == Purpose::kState;
  const bool optimizer = buffer.purpose == Purpose::kOptimizer || buffer.purpose == Purpose::kHeadOptimizer;
  const bool residual = buffer.purpose == Purpose::kResidual;
  const bool of_head = buffer.purpose == Purpose::kHeadScale || buffer.purpose == Purpose::kHeadLists ||
                       buffer.purpose == Purpose::kHeadSnapshot || buffer.purpose == Purpose::kHeadLast;
  if (!weight && !state && !optimizer && !residual && !of_head) {
    return std::nullopt;
  }
  const Parameter& parameter = module.graph.param(buffer.param);
  const planner::HeadPlan* head = head_with(program, buffer.param);
  StateTensor one{.name = parameter.name,
                  .role = weight  ? StateTensor::Role::kWeight
                          : state ? StateTensor::Role::kState
                                  : StateTensor::Role::kOptimizer,
                  .type = module.graph.value(parameter.value).type,
                  .trained = parameter.trained,
                  .head = head == nullptr ? "" : module.graph.heads[static_cast<size_t>(head->head)].name,
                  .param = buffer.param,
                  .pieces = {}};
  one.type.sharded = false;
  const auto of = static_cast<size_t>(buffer.state);
  if (optimizer) {
    XRUN_CHECK(of < states.names.size(), "an optimizer state that the optimizer has not");
    one.name += "." + states.names[of];
    one.first_value = states.firsts[of];
  }
  if (residual) {
    one.role = StateTensor::Role::kResidual;
    one.name += fmt::format(".{}", kResidualStates[of]);
    one.type.dims.insert(one.type.dims.begin(), program.senders());
  }
  if (head != nullptr && head->weight == buffer.param && !of_head) {
    one.type.dtype = dtype_of(optimizer ? head->states : head->weights);
  }
  if (of_head) {
    XRUN_CHECK(head != nullptr, "rows of a head that the program has not");
    describe_rows_of_head(buffer, *head, one);
  }
  return one;
}

void add_piece(const planner::Program& program, const Buffer& buffer, StateTensor& tensor) {
  const int64_t sender = buffer.replica / program.sender_replicas;
  const auto [begin, end] = tensor.role == StateTensor::Role::kResidual
                                ? ClassRange{sender, sender + 1}
                                : shard_rows(head_with(program, buffer.param), buffer.shard, tensor.rows());
  const auto piece = std::ranges::find(tensor.pieces, begin, &TensorPiece::row_begin);
  if (piece != tensor.pieces.end()) {
    piece->copies.push_back(buffer.id);
  } else if (begin < end) {
    tensor.pieces.push_back({begin, end, {buffer.id}});
  }
}

// Sorts the pieces by row. If there are several ranks, the pieces of one rank may have gaps.
void order_pieces(const planner::Program& program, StateTensor& tensor) {
  std::ranges::sort(tensor.pieces, {}, &TensorPiece::row_begin);
  int64_t at = 0;
  for (const TensorPiece& piece : tensor.pieces) {
    XRUN_CHECK(piece.row_begin == at || (piece.row_begin > at && program.ranks > 1),
               "rows of " + tensor.name + " are missing or lie in two places");
    at = piece.row_end;
  }
  XRUN_CHECK(at == tensor.rows() || program.ranks > 1, "rows of " + tensor.name + " are missing");
}

// Describes a tensor with one f32 number for each row of a weight, without pieces.
StateTensor number_a_row(const StateTensor& weight, const char* suffix, StateTensor::Role role) {
  StateTensor numbers = weight;
  numbers.name += suffix;
  numbers.role = role;
  numbers.type = {.dtype = DType::kF32, .dims = {weight.rows()}};
  numbers.pieces.clear();
  return numbers;
}

}  // namespace

const planner::HeadPlan* head_with(const planner::Program& program, ParamId param) {
  for (const planner::HeadPlan& head : program.heads) {
    if (head.weight == param || head.bias == param) {
      return &head;
    }
  }
  return nullptr;
}

ClassRange shard_rows(const planner::HeadPlan* head, int shard, int64_t all) {
  for (size_t i = 0; head != nullptr && i < head->shards.size(); ++i) {
    if (head->shards[i].shard == shard) {
      return {head->shards[i].row_begin, head->shards[i].row_end};
    }
  }
  return {0, all};
}

RowFormat format_of(const StateTensor& tensor) {
  return tensor.type.dtype == DType::kBF16     ? RowFormat::kBf16
         : tensor.type.dtype == DType::kF8E4M3 ? RowFormat::kFp8
                                               : RowFormat::kF32;
}

StateTensor shifts_of(const StateTensor& weight) { return number_a_row(weight, ".shift", StateTensor::Role::kShift); }

StateTensor mean_of(const StateTensor& weight) {
  StateTensor mean = weight;
  mean.name += fmt::format(".{}", kMeanState);
  mean.role = StateTensor::Role::kOptimizer;
  mean.pieces.clear();
  return mean;
}

StateTensor scales_of(const StateTensor& weight) { return number_a_row(weight, ".scale", StateTensor::Role::kScale); }

std::vector<StateTensor> state_tensors(const Module& module, const planner::Program& program,
                                       const BoundMemory& memory) {
  const OptimizerStates states = optimizer_states(module);
  const auto is_here = [&](int device) { return device == planner::kHost || memory.has(device); };
  std::map<std::string, StateTensor> by_name;
  std::map<std::string, int> first_device;  // key: name of a tensor; value: the first device that has it
  for (const Buffer& buffer : program.buffers) {
    const auto one = tensor_of(module, program, buffer, states);
    if (!one) {
      continue;
    }
    StateTensor& tensor = by_name.try_emplace(one->name, *one).first->second;
    int& device = first_device.try_emplace(one->name, buffer.device).first->second;
    device = std::min(device, buffer.device);
    if (is_here(buffer.device)) {
      add_piece(program, buffer, tensor);
    }
  }
  std::vector<StateTensor> tensors;
  for (auto& [name, tensor] : by_name) {
    order_pieces(program, tensor);
    tensor.first = is_here(first_device.at(name));
    const planner::HeadPlan* head = head_with(program, tensor.param);
    const bool catches_up = tensor.role == StateTensor::Role::kWeight && head != nullptr &&
                            by_name.contains(module.graph.param(head->weight).name + ".last");
    if (catches_up) {
      tensors.push_back(shifts_of(tensor));
    }
    tensors.push_back(std::move(tensor));
  }
  std::ranges::sort(tensors, {}, &StateTensor::name);
  return tensors;
}

}  // namespace xrun::runtime
