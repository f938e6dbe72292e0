#include "runtime/train/train_state.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include "graph/base/check.h"
#include "graph/base/random.h"
#include "graph/base/xxh128.h"
#include "graph/head_shape.h"
#include "graph/optimizer_def.h"

namespace xrun::runtime {
namespace {

using planner::Buffer;
using planner::Purpose;

// The parameters of each head's classifier.
std::string head_of(const Module& module, const planner::Program& program, ParamId param) {
  for (const planner::HeadPlan& head : program.heads) {
    if (head.weight == param || head.bias == param) {
      return module.graph.heads[static_cast<size_t>(head.head)].name;
    }
  }
  return "";
}

std::pair<int64_t, int64_t> rows_of(const planner::Program& program, ParamId param, int shard, int64_t all) {
  for (const planner::HeadPlan& head : program.heads) {
    if (head.weight != param && head.bias != param) {
      continue;
    }
    for (const planner::HeadShard& one : head.shards) {
      if (one.shard == shard) {
        return {one.row_begin, one.row_end};
      }
    }
  }
  return {0, all};
}

std::vector<std::string> optimizer_states(const Module& module) {
  const OptimizerDef* def = find_optimizer(module.train.optimizer.name);
  return def == nullptr ? std::vector<std::string>{} : def->states(module.train.optimizer.args);
}

// Values [first, first + count) of a tensor, counted over all of its rows, which lie in a buffer from `offset` on.
struct FirstValues {
  const StateTensor* tensor = nullptr;
  const Buffer* buffer = nullptr;
  int64_t first = 0;
  int64_t offset = 0;
  int64_t count = 0;
};

// Cuts the values of a piece into items of work.
void add_parts(const StateTensor& tensor, const Buffer& buffer, int64_t first, int64_t count,
               std::vector<FirstValues>& parts) {
  constexpr int64_t kMost = 64 * 1024;  // some hundred microseconds of random numbers
  for (int64_t offset = 0; offset < count; offset += kMost) {
    parts.push_back({&tensor, &buffer, first + offset, offset, std::min(kMost, count - offset)});
  }
}

void fill_first_values(const FirstValues& part, const Init& init, uint64_t seed, std::span<float> values) {
  if (init.kind == Init::kConstant) {
    std::ranges::fill(values, static_cast<float>(init.value));
    return;
  }
  const double deviation = init.kind == Init::kHeNormal
                               ? std::sqrt(2.0 / static_cast<double>(std::max<int64_t>(init.fan_in, 1)))
                               : init.value;
  RandomStream(seed, stable_hash(part.tensor->name)).fill_normal(static_cast<uint64_t>(part.first), values);
  for (float& value : values) {
    value = static_cast<float>(deviation * static_cast<double>(value));
  }
}

}  // namespace

TrainState::TrainState(const Module& module, const planner::Program& program, const BoundMemory& memory,
                       const DeviceSet& devices)
    : module_(module), program_(program), memory_(memory), devices_(devices) {
  const std::vector<std::string> states = optimizer_states(module);
  std::map<std::string, StateTensor> by_name;
  for (const Buffer& buffer : program.buffers) {
    const bool weight = buffer.purpose == Purpose::kWeight || buffer.purpose == Purpose::kHeadWeight;
    const bool state = buffer.purpose == Purpose::kState;
    const bool optimizer = buffer.purpose == Purpose::kOptimizer || buffer.purpose == Purpose::kHeadOptimizer;
    const bool graph = buffer.purpose == Purpose::kHeadLists || buffer.purpose == Purpose::kHeadSnapshot;
    if (!weight && !state && !optimizer && !graph) {
      continue;
    }
    const Parameter& parameter = module.graph.param(buffer.param);
    std::string name = parameter.name;
    if (optimizer) {
      XRUN_CHECK(static_cast<size_t>(buffer.state) < states.size(), "an optimizer state that the optimizer has not");
      name += "." + states[static_cast<size_t>(buffer.state)];
    } else if (graph) {
      name += buffer.purpose == Purpose::kHeadLists ? ".lists" : ".snapshot";
    }
    StateTensor& tensor = by_name[name];
    if (tensor.name.empty()) {
      tensor.name = name;
      tensor.role = weight  ? StateTensor::Role::kWeight
                    : state ? StateTensor::Role::kState
                    : graph ? StateTensor::Role::kGraph
                            : StateTensor::Role::kOptimizer;
      tensor.kept = !graph;
      tensor.type = module.graph.value(parameter.value).type;
      tensor.type.sharded = false;
      if (buffer.purpose == Purpose::kHeadLists) {
        tensor.type.dtype = DType::kI32;
        tensor.type.dims[1] = program.heads[static_cast<size_t>(buffer.head)].neighbours;
      }
      tensor.trained = parameter.trained;
      tensor.head = head_of(module, program, buffer.param);
      tensor.param = buffer.param;
    }
    if (buffer.device != planner::kHost && !memory.has(buffer.device)) {
      continue;  // of another rank
    }
    const auto [begin, end] = rows_of(program, buffer.param, buffer.shard, tensor.rows());
    const auto piece = std::find_if(tensor.pieces.begin(), tensor.pieces.end(),
                                    [&, first = begin](const TensorPiece& p) { return p.row_begin == first; });
    if (piece != tensor.pieces.end()) {
      piece->copies.push_back(buffer.id);
    } else if (begin < end) {
      tensor.pieces.push_back({begin, end, {buffer.id}});
    }
  }
  for (auto& [name, tensor] : by_name) {
    std::sort(tensor.pieces.begin(), tensor.pieces.end(),
              [](const TensorPiece& a, const TensorPiece& b) { return a.row_begin < b.row_begin; });
    int64_t at = 0;
    for (const TensorPiece& piece : tensor.pieces) {
      XRUN_CHECK(piece.row_begin == at || (piece.row_begin > at && program.ranks > 1),
                 "rows of " + name + " are missing or lie in two places");
      at = piece.row_end;
    }
    XRUN_CHECK(at == tensor.rows() || program.ranks > 1, "rows of " + name + " are missing");
    tensors_.push_back(std::move(tensor));
  }
}

void TrainState::initialise(uint64_t seed, const std::function<bool(const StateTensor&)>& wanted) {
  std::vector<std::vector<FirstValues>> parts(static_cast<size_t>(program_.devices));
  for (const StateTensor& tensor : tensors_) {
    if (tensor.role == StateTensor::Role::kGraph || (wanted && !wanted(tensor))) {
      continue;
    }
    const int64_t width = tensor.row_bytes() / static_cast<int64_t>(sizeof(float));
    for (const TensorPiece& piece : tensor.pieces) {
      for (const planner::BufferId copy : piece.copies) {
        const Buffer& buffer = program_.buffer(copy);
        add_parts(tensor, buffer, piece.row_begin * width, (piece.row_end - piece.row_begin) * width,
                  parts[static_cast<size_t>(buffer.device)]);
      }
    }
  }
  const auto make_values = [&](Device& device) -> Status {
    const auto& own = parts[static_cast<size_t>(device.index())];
    const auto make = [&](const tbb::blocked_range<size_t>& range) {
      std::vector<float> values;
      for (size_t item = range.begin(); item != range.end(); ++item) {
        const FirstValues& part = own[item];
        const bool optimizer = part.tensor->role == StateTensor::Role::kOptimizer;
        values.resize(static_cast<size_t>(part.count));
        fill_first_values(part, optimizer ? Init{} : module_.graph.param(part.tensor->param).init, seed, values);
        memory_.write(part.buffer->id, part.offset * static_cast<Bytes>(sizeof(float)),
                      std::as_bytes(std::span(values)));
      }
    };
    tbb::parallel_for(tbb::blocked_range<size_t>(0, own.size()), make);
    return {};
  };
  const Status made = run_on_each(devices_, make_values);
  XRUN_CHECK(made.ok(), "first values are made without errors");
}

bool is_below(std::string_view path, std::string_view name) {
  return name.starts_with(path) && (name.size() == path.size() || name[path.size()] == '.');
}

std::string TrainState::class_layer() const {
  const Graph& graph = module_.graph;
  const auto loss = std::ranges::find_if(graph.nodes, [](const Node& node) { return node.op->margin != nullptr; });
  NodeId at = loss == graph.nodes.end() ? NodeId() : graph.value(loss->inputs[0]).producer;
  const auto is_cast = [&](NodeId id) { return graph.node(id).op->name == "cast"; };
  while (at.valid() && is_cast(at)) {
    at = graph.value(graph.node(at).inputs[0]).producer;
  }
  const auto owns_weights = [&](const ValueId input) {
    const Value& value = graph.value(input);
    return value.param.valid() || (value.producer.valid() && is_cast(value.producer) &&
                                   graph.value(graph.node(value.producer).inputs[0]).param.valid());
  };
  const bool is_layer = at.valid() && std::ranges::any_of(graph.node(at).inputs, owns_weights);
  return is_layer ? graph.node(at).path : "";
}

template <typename Body>
void TrainState::for_chunks(const StateTensor& tensor, int64_t begin, int64_t end, const Body& body) const {
  constexpr Bytes kStaging = 4 * kMiB;
  const int64_t most = std::max<int64_t>(1, kStaging / std::max<Bytes>(1, tensor.row_bytes()));
  for (int64_t row = begin; row < end; row += most) {
    body(row, std::min(most, end - row));
  }
}

const StateTensor* TrainState::find(std::string_view name) const {
  const auto at = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                   [](const StateTensor& tensor, std::string_view key) { return tensor.name < key; });
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

void TrainState::read_rows(const StateTensor& tensor, int64_t row_begin, int64_t row_end, std::byte* out) const {
  const Bytes width = tensor.row_bytes();
  for (const TensorPiece& piece : tensor.pieces) {
    const int64_t from = std::max(row_begin, piece.row_begin);
    const int64_t to = std::min(row_end, piece.row_end);
    if (from < to) {
      memory_.read(piece.copies[0], (from - piece.row_begin) * width,
                   {out + (from - row_begin) * width, static_cast<size_t>((to - from) * width)});
    }
  }
}

void TrainState::write_rows(const StateTensor& tensor, int64_t row_begin, int64_t row_end, const std::byte* in) {
  const Bytes width = tensor.row_bytes();
  for (const TensorPiece& piece : tensor.pieces) {
    const int64_t from = std::max(row_begin, piece.row_begin);
    const int64_t to = std::min(row_end, piece.row_end);
    for (size_t copy = 0; from < to && copy < piece.copies.size(); ++copy) {
      memory_.write(piece.copies[copy], (from - piece.row_begin) * width,
                    {in + (from - row_begin) * width, static_cast<size_t>((to - from) * width)});
    }
  }
}

void TrainState::copy_from(const TrainState& other) {
  std::vector<std::byte> staging;
  for (const StateTensor& tensor : tensors_) {
    const StateTensor* source = other.find(tensor.name);
    XRUN_CHECK(source != nullptr || tensor.role == StateTensor::Role::kOptimizer, "no " + tensor.name + " to copy");
    for (size_t p = 0; source != nullptr && p < source->pieces.size(); ++p) {
      for_chunks(tensor, source->pieces[p].row_begin, source->pieces[p].row_end, [&](int64_t row, int64_t rows) {
        staging.resize(static_cast<size_t>(rows * tensor.row_bytes()));
        other.read_rows(*source, row, row + rows, staging.data());
        write_rows(tensor, row, row + rows, staging.data());
      });
    }
  }
}

std::vector<RangeDigest> TrainState::range_digests() const {
  std::vector<RangeDigest> digests;
  std::vector<std::byte> staging;
  int64_t first = 0;  // range of the tensor
  for (const StateTensor& tensor : tensors_) {
    if (tensor.role != StateTensor::Role::kWeight || !tensor.trained) {
      continue;
    }
    const int64_t range =
        std::max<int64_t>(1, tensor.head.empty() ? tensor.rows() : class_block(tensor.rows(), tensor.rows()));
    for (const TensorPiece& piece : tensor.pieces) {
      for (int64_t begin = piece.row_begin; begin < piece.row_end; begin += range) {
        Xxh128 digest;
        for_chunks(tensor, begin, std::min(begin + range, piece.row_end), [&](int64_t row, int64_t rows) {
          staging.resize(static_cast<size_t>(rows * tensor.row_bytes()));
          read_rows(tensor, row, row + rows, staging.data());
          digest.add(staging);
        });
        digests.push_back({first + begin / range, digest.hex()});
      }
    }
    first += (tensor.rows() + range - 1) / range;
  }
  return digests;
}

std::string digest_of(std::vector<RangeDigest> ranges) {
  std::ranges::sort(ranges, {}, &RangeDigest::range);
  const auto again = std::ranges::unique(ranges);
  ranges.erase(again.begin(), again.end());
  Xxh128 digest;
  for (const RangeDigest& one : ranges) {
    digest.add(std::as_bytes(std::span(one.digest)));
  }
  return digest.hex();
}

}  // namespace xrun::runtime
