// Runs the nodes of a small graph on one row block. Values go in and out as f64 in logical order, so tests do not
// depend on the layouts of kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "graph/base/random.h"
#include "graph/passes/autodiff.h"
#include "graph/passes/passes.h"
#include "ops/kernel_spec.h"
#include "ops/loops/strides.h"
#include "ops/simd/simd.h"

namespace xrun::ops {

using Values = std::vector<double>;

// Memory that begins `offset` bytes after a multiple of 64 and is followed by a guard. A test fails if a kernel writes
// into the guard.
class Memory {
 public:
  explicit Memory(Bytes size, Bytes offset = 0)
      : bytes_(static_cast<std::byte*>(
            ::operator new (static_cast<size_t>(size + offset + kGuard), std::align_val_t{64}))),
        offset_(offset),
        size_(size) {
    std::memset(bytes_.get(), 0, static_cast<size_t>(size + offset));
    std::memset(data() + size_, kMark, static_cast<size_t>(kGuard));
  }
  Memory(Memory&&) = default;
  ~Memory() {
    const auto marked = [](std::byte b) { return b == std::byte{kMark}; };
    EXPECT_TRUE(bytes_ == nullptr || std::all_of(data() + size_, data() + size_ + kGuard, marked))
        << "something wrote beyond " << size_ << " bytes";
  }
  std::byte* data() const { return bytes_.get() + offset_; }

 private:
  static constexpr Bytes kGuard = 4096;
  static constexpr unsigned char kMark = 0xA5;
  struct Free {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
  Bytes offset_;
  Bytes size_;
};

// Returns the position in memory of each element; the result is indexed by logical order.
inline std::vector<int64_t> memory_order(const TensorType& type, int64_t rows) {
  const std::vector<int64_t> dims = block_dims(type, rows);
  const std::vector<int64_t> strides = block_strides(type, rows);
  int64_t n = 1;
  for (const int64_t d : dims) {
    n *= d;
  }
  std::vector<int64_t> order(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i;
    int64_t at = 0;
    for (size_t d = dims.size(); d-- > 0;) {
      at += rest % dims[d] * strides[d];
      rest /= dims[d];
    }
    order[static_cast<size_t>(i)] = at;
  }
  return order;
}

inline void write_values(const TensorType& type, int64_t rows, const Values& values, std::byte* data) {
  const std::vector<int64_t> order = memory_order(type, rows);
  for (size_t i = 0; i < order.size(); ++i) {
    if (type.dtype == DType::kBF16) {
      reinterpret_cast<Bf16*>(data)[order[i]] = to_bf16(static_cast<float>(values[i]));
    } else if (type.dtype == DType::kF16) {
      reinterpret_cast<Half*>(data)[order[i]] = to_f16(static_cast<float>(values[i]));
    } else if (type.dtype == DType::kI32) {
      reinterpret_cast<int32_t*>(data)[order[i]] = static_cast<int32_t>(values[i]);
    } else {
      reinterpret_cast<float*>(data)[order[i]] = static_cast<float>(values[i]);
    }
  }
}

inline Values read_values(const TensorType& type, int64_t rows, const std::byte* data) {
  const std::vector<int64_t> order = memory_order(type, rows);
  Values values(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    values[i] =
        type.dtype == DType::kI32    ? reinterpret_cast<const int32_t*>(data)[order[i]]
        : type.dtype == DType::kBF16 ? static_cast<double>(to_float(reinterpret_cast<const Bf16*>(data)[order[i]]))
        : type.dtype == DType::kF16  ? static_cast<double>(to_float(reinterpret_cast<const Half*>(data)[order[i]]))
                                     : static_cast<double>(reinterpret_cast<const float*>(data)[order[i]]);
  }
  return values;
}

inline Values random_values(size_t n, double low, double high, uint64_t seed) {
  const RandomStream stream(seed, 17);
  Values values(n);
  for (size_t i = 0; i < n; ++i) {
    values[i] = static_cast<double>(stream.uniform(i, static_cast<float>(low), static_cast<float>(high)));
  }
  return values;
}

struct RunOptions {
  KernelOptions kernel;
  Bytes offset = 0;  // distance of every buffer from a multiple of 4096; shows whether bits depend on addresses
  int64_t first_row = 0;
  int64_t parts = 1;  // number of parts into which each call is divided, if its kernel allows it
  // The layout of tensors for which neither an operator nor a pass has chosen one.
  Layout layout = Layout::kChannelsLast;
};

// Returns whether a pass has assigned layouts in the graph.
inline bool has_layouts(const Graph& graph) {
  return std::ranges::any_of(graph.values, [](const Value& value) { return value.type.is_channels_last(); });
}

// Assigns the operands and results of a node the layouts that its kernel needs.
inline void set_layouts(Graph& graph, const Node& node, Layout layout) {
  const LayoutRule rule = layout_rule(graph, node);
  layout = rule == LayoutRule::kRowMajor       ? Layout::kRowMajor
           : rule == LayoutRule::kChannelsLast ? Layout::kChannelsLast
                                               : layout;
  for (const auto* values : {&node.inputs, &node.outputs}) {
    for (const ValueId id : *values) {
      graph.value(id).type.layout = layout;
    }
  }
  if (node.op->name == "reorder" && node.attrs.text("to") == "row_major") {
    graph.value(node.outputs[0]).type.layout = Layout::kRowMajor;
  }
}

// Runs in order every node whose inputs are known. `values` holds inputs and parameters, and receives all other values.
inline Status run_graph(const Graph& written, const RunOptions& options, std::map<ValueId, Values>& values) {
  Graph graph = written;
  const bool assigned = has_layouts(graph);
  const int64_t rows = options.kernel.norm_rows;
  for (const Node& node : graph.nodes) {
    if (!assigned) {
      set_layouts(graph, node, options.layout);
    }
    XRUN_ASSIGN(const std::unique_ptr<Kernel> kernel, make_kernel(graph, node, options.kernel));
    std::vector<Memory> memory;
    memory.reserve(2 * (node.inputs.size() + node.outputs.size()));
    std::vector<TensorView> inputs;
    std::vector<TensorView> outputs;
    const Memory scratch(kernel->scratch_bytes(), options.offset);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const TensorType& type = graph.value(node.inputs[i]).type;
      memory.emplace_back(type.bytes(rows, rows), options.offset);
      write_values(type, rows, values.at(node.inputs[i]), memory.back().data());
      inputs.push_back({memory.back().data()});
      if (const Bytes prepared = kernel->prepared_bytes(static_cast<int>(i)); prepared > 0) {
        memory.emplace_back(prepared, options.offset);
        XRUN_TRY(kernel->prepare(static_cast<int>(i), inputs.back(), memory.back().data(), scratch.data()));
        inputs.back().data = memory.back().data();
      }
    }
    for (const ValueId id : node.outputs) {
      const TensorType& type = graph.value(id).type;
      memory.emplace_back(type.bytes(rows, rows), options.offset);
      outputs.push_back({memory.back().data()});
      if (type.has_batch() || type.per_block()) {
        std::memset(outputs.back().data, 0xFF, static_cast<size_t>(type.bytes(rows, rows)));
      }
    }
    const int64_t parts = std::min(options.parts, kernel->parts());
    const int phases = parts > 1 ? kernel->phases() : 1;
    const auto scratch_size = static_cast<size_t>(kernel->scratch_bytes());
    const Memory shared(kernel->scratch_bytes(), options.offset);
    std::memset(shared.data(), 0xFF, scratch_size);
    for (int phase = 0; phase < phases; ++phase) {
      for (int64_t part = parts - 1; part >= 0; --part) {  // parts may run in any order
        std::memset(scratch.data(), 0xFF, scratch_size);   // NaN: a read before the first write is noticed
        XRUN_TRY(kernel->run({.inputs = inputs,
                              .outputs = outputs,
                              .scratch = part == 1 ? shared.data() : scratch.data(),
                              .seed = 7,
                              .step = 3,
                              .first_row = options.first_row,
                              .part = part,
                              .parts = parts,
                              .phase = parts > 1 ? phase : kAllPhases,
                              .shared = shared.data()}));
      }
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      values[node.outputs[i]] = read_values(graph.value(node.outputs[i]).type, rows, outputs[i].data);
    }
  }
  return {};
}

inline double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

inline double norm(const Values& a) { return std::sqrt(dot(a, a)); }

// Returns |a - b| / |b| in the Euclidean norm.
inline double relative_distance(const Values& a, const Values& b) {
  if (a.size() != b.size()) {
    return INFINITY;
  }
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += (a[i] - b[i]) * (a[i] - b[i]);
  }
  return std::sqrt(sum) / (norm(b) + 1e-30);
}

}  // namespace xrun::ops
