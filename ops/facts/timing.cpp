// Operands are allocated and filled with random data first. Before each timed call, the operands that a training step
// would read from memory are flushed from the caches, because a kernel that waits for memory may take several times as
// long.
// Tests: tests/ops/facts/facts_test.cpp
#include "ops/facts/timing.h"

#include <algorithm>
#include <emmintrin.h>
#include <memory>
#include <new>

#include "graph/base/random.h"
#include "ops/facts/concurrent_calls.h"
#include "ops/head/head.h"
#include "ops/optimizer/optimizer.h"
#include "ops/simd/convert.h"

namespace xrun::ops {
namespace {

struct Aligned {
  explicit Aligned(Bytes size)
      : bytes(static_cast<std::byte*>(
            ::operator new (static_cast<size_t>(align_up(std::max<Bytes>(size, 64))), std::align_val_t{kAlignment}))) {}
  ~Aligned() { ::operator delete (bytes, std::align_val_t{kAlignment}); }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
  std::byte* bytes;
};

// Fills a tensor with values in 0.5 .. 1.5, so that no function is outside its domain and no variance is 0.
void fill_random(std::byte* data, const TensorType& type, int64_t n, uint64_t key) {
  const RandomStream stream(key, 0);
  for (int64_t i = 0; i < n; ++i) {
    const float v = 0.5F + stream.uniform(static_cast<uint64_t>(i));
    if (type.dtype == DType::kBF16) {
      reinterpret_cast<Bf16*>(data)[i] = to_bf16(v);
    } else if (type.dtype == DType::kF16) {
      reinterpret_cast<Half*>(data)[i] = to_f16(v);
    } else if (type.dtype == DType::kF32) {
      reinterpret_cast<float*>(data)[i] = v;
    }
  }
}

// The memory of operands. leave_caches() flushes those that were added with `leaves`.
class Operands {
 public:
  std::byte* add(Bytes bytes, bool leaves) {
    memory_.push_back(std::make_unique<Aligned>(bytes));
    if (leaves) {
      leaving_.push_back({memory_.back()->bytes, static_cast<size_t>(bytes)});
    }
    return memory_.back()->bytes;
  }
  std::byte* add(const TensorType& type, int64_t rows, bool leaves) {
    std::byte* data = add(type.bytes(rows, rows), leaves);
    fill_random(data, type, type.elements(rows, rows), memory_.size());
    return data;
  }
  void leave_caches() const {
    constexpr size_t kLine = 64;
    for (const std::span<std::byte> bytes : leaving_) {
      for (size_t at = 0; at < bytes.size(); at += kLine) {
        _mm_clflush(bytes.data() + at);
      }
    }
    _mm_mfence();
  }

 private:
  std::vector<std::unique_ptr<Aligned>> memory_;
  std::vector<std::span<std::byte>> leaving_;
};

struct KernelOperands {
  explicit KernelOperands(const Kernel& kernel) : scratch(kernel.scratch_bytes()) {}

  Operands memory;
  Aligned scratch;
  std::vector<TensorView> inputs;
  std::vector<TensorView> outputs;
};

// The operands of a head pass over all classes of `shape`.
struct HeadOperands {
  explicit HeadOperands(const HeadShape& shape)
      : feature{.dtype = shape.features, .dims = {kBatch, shape.dim}},
        weight{.dims = {shape.blocks.classes, shape.dim}},
        bias{.dims = {shape.blocks.classes}},
        features(feature.bytes(shape.rows, shape.rows)),
        weights(weight.bytes(1, 1)),
        biases(bias.bytes(1, 1)),
        prepared(head_prepared_bytes(shape)),
        stats(head_stats_bytes(shape)),
        scratch(head_scratch_bytes(shape, HeadPass::kForward)),
        labels(static_cast<size_t>(shape.rows), 0) {
    fill_random(features.bytes, feature, feature.elements(shape.rows, shape.rows), 1);
    fill_random(weights.bytes, weight, weight.row_elements(), 2);
    fill_random(biases.bytes, bias, shape.blocks.classes, 3);
    held = {.weight = weights.bytes,
            .bias = shape.form.bias ? reinterpret_cast<float*>(biases.bytes) : nullptr,
            .prepared = head_prepared_bytes(shape) > 0 ? reinterpret_cast<float*>(prepared.bytes) : nullptr};
  }

  TensorType feature;
  TensorType weight;
  TensorType bias;
  Aligned features;
  Aligned weights;
  Aligned biases;
  Aligned prepared;
  Aligned stats;
  Aligned scratch;
  std::vector<int32_t> labels;
  HeadWeights held;
  InlineWorkers workers;
};

}  // namespace

Result<Seconds> time_kernel(const Kernel& kernel, const KernelSpec& spec, const CacheState& caches, int threads) {
  return time_calls(threads, [&]() -> Result<TimedCall> {
    const auto own = std::make_shared<KernelOperands>(kernel);
    for (size_t i = 0; i < spec.inputs.size(); ++i) {
      const Bytes prepared = kernel.prepared_bytes(static_cast<int>(i));
      const bool leaves = caches.cold && !caches.recent[i];
      TensorView view{own->memory.add(spec.inputs[i], spec.rows, leaves && prepared == 0)};
      if (prepared > 0) {
        std::byte* form = own->memory.add(prepared, leaves);
        XRUN_TRY(kernel.prepare(static_cast<int>(i), view, form, own->scratch.bytes));
        view.data = form;
      }
      own->inputs.push_back(view);
    }
    for (const TensorType& type : spec.outputs) {
      own->outputs.push_back({own->memory.add(type, spec.rows, caches.cold)});
    }
    return TimedCall{
        [own] { own->memory.leave_caches(); },
        [own, &kernel] {
          return kernel.run({.inputs = own->inputs, .outputs = own->outputs, .scratch = own->scratch.bytes, .seed = 1});
        }};
  });
}

Result<Seconds> time_prepare(const Kernel& kernel, const KernelSpec& spec, int input, const CacheState& caches,
                             int threads) {
  return time_calls(threads, [&]() -> Result<TimedCall> {
    const auto own = std::make_shared<KernelOperands>(kernel);
    const TensorView plain{own->memory.add(spec.inputs[static_cast<size_t>(input)], spec.rows, caches.cold)};
    std::byte* form = own->memory.add(kernel.prepared_bytes(input), caches.cold);
    return TimedCall{
        [own] { own->memory.leave_caches(); },
        [own, &kernel, input, plain, form] { return kernel.prepare(input, plain, form, own->scratch.bytes); }};
  });
}

Result<Seconds> time_head(const HeadShape& shape, Isa isa, int threads) {
  const HeadPasses passes(shape, isa);
  XRUN_ASSIGN(const Seconds time, time_calls(threads, [&]() -> Result<TimedCall> {
                const auto own = std::make_shared<HeadOperands>(shape);
                passes.prepare(own->held, own->workers);
                return TimedCall{{}, [own, &passes]() -> Status {
                                   const HeadRows rows{.features = own->features.bytes, .labels = own->labels.data()};
                                   passes.forward(rows, own->held, own->stats.bytes, own->scratch.bytes, own->workers);
                                   return {};
                                 }};
              }));
  return time /
         (static_cast<double>(shape.rows) * static_cast<double>(shape.blocks.classes) * static_cast<double>(shape.dim));
}

Result<Seconds> time_update(int64_t weights, Isa isa, int threads) {
  const TensorType type{.dims = {weights}};
  XRUN_ASSIGN(const Seconds time, time_calls(threads, [&]() -> Result<TimedCall> {
                const auto memory = std::make_shared<Operands>();
                const auto floats = [&] { return reinterpret_cast<float*>(memory->add(type, 1, false)); };
                float* weight = floats();
                float* gradient = floats();
                float* state = floats();
                return TimedCall{{}, [memory, weight, gradient, state, weights, isa]() -> Status {
                                   const OptimizerForm form{.kind = OptimizerKind::kSgd, .states = 1};
                                   const UpdateScalars scalars{{.rate = 1e-3F, .momentum = 0.9F}};
                                   update(isa, form, scalars, weight, gradient, {state}, weights);
                                   return {};
                                 }};
              }));
  return time / static_cast<double>(3 * type.bytes(1, 1));
}

Bytes timed_bytes(const Kernel& kernel, const KernelSpec& spec) {
  Bytes sum = kernel.scratch_bytes();
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    sum += spec.inputs[i].bytes(spec.rows, spec.rows) + kernel.prepared_bytes(static_cast<int>(i));
  }
  for (const TensorType& type : spec.outputs) {
    sum += type.bytes(spec.rows, spec.rows);
  }
  return sum;
}

Bytes timed_bytes(const HeadShape& shape) {
  return shape.rows * shape.dim * static_cast<Bytes>(sizeof(float)) +
         shape.blocks.classes * (shape.dim + 1) * static_cast<Bytes>(sizeof(float)) + head_prepared_bytes(shape) +
         head_stats_bytes(shape) + head_scratch_bytes(shape, HeadPass::kForward);
}

Bytes timed_bytes(int64_t weights) { return 3 * weights * static_cast<Bytes>(sizeof(float)); }

}  // namespace xrun::ops
