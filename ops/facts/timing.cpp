// A kernel, head or update is called once to warm up and then up to kCalls times; the result is the median. Operands
// are allocated and filled with random data first. Before each timed call, the operands that a training step would read
// from memory are flushed from the caches, because a kernel that waits for memory may take several times as long.
// Tests: tests/ops/facts/facts_test.cpp
#include "ops/facts/timing.h"

#include <algorithm>
#include <emmintrin.h>
#include <memory>
#include <new>

#include "graph/base/random.h"
#include "graph/os/processor_time.h"
#include "ops/head/head.h"
#include "ops/optimizer/optimizer.h"
#include "ops/simd/convert.h"

namespace xrun::ops {
namespace {

constexpr int kCalls = 7;         // number of timed calls, after a first call to warm up
constexpr Seconds kEnough = 0.1;  // no more calls are made when their total time reaches this

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

// Returns the median time of a few calls of `run`. `before` is called before each of them and is not timed.
template <typename Before, typename Run>
Result<Seconds> median_of_calls(Before before, Run run) {
  std::vector<Seconds> times;
  Seconds sum = 0;
  XRUN_TRY(run());
  while (times.size() < kCalls && sum < kEnough) {
    before();
    const Seconds start = thread_processor_time();
    XRUN_TRY(run());
    times.push_back(thread_processor_time() - start);
    sum += times.back();
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
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

}  // namespace

Result<Seconds> time_kernel(const Kernel& kernel, const KernelSpec& spec, const CacheState& caches) {
  Operands memory;
  std::vector<TensorView> inputs;
  std::vector<TensorView> outputs;
  const Aligned scratch(kernel.scratch_bytes());
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    const Bytes prepared = kernel.prepared_bytes(static_cast<int>(i));
    const bool leaves = caches.cold && !caches.recent[i];
    TensorView view{memory.add(spec.inputs[i], spec.rows, leaves && prepared == 0)};
    if (prepared > 0) {
      std::byte* form = memory.add(prepared, leaves);
      XRUN_TRY(kernel.prepare(static_cast<int>(i), view, form, scratch.bytes));
      view.data = form;
    }
    inputs.push_back(view);
  }
  for (const TensorType& type : spec.outputs) {
    outputs.push_back({memory.add(type, spec.rows, caches.cold)});
  }
  const KernelCall call{.inputs = inputs, .outputs = outputs, .scratch = scratch.bytes, .seed = 1};
  return median_of_calls([&] { memory.leave_caches(); }, [&] { return kernel.run(call); });
}

Result<Seconds> time_prepare(const Kernel& kernel, const KernelSpec& spec, int input, const CacheState& caches) {
  Operands memory;
  const Aligned scratch(kernel.scratch_bytes());
  const TensorView plain{memory.add(spec.inputs[static_cast<size_t>(input)], spec.rows, caches.cold)};
  std::byte* form = memory.add(kernel.prepared_bytes(input), caches.cold);
  return median_of_calls([&] { memory.leave_caches(); },
                         [&] { return kernel.prepare(input, plain, form, scratch.bytes); });
}

Seconds time_head(const HeadShape& shape, Isa isa) {
  const HeadPasses passes(shape, isa);
  const TensorType feature{.dtype = shape.features, .dims = {kBatch, shape.dim}};
  const int64_t classes = shape.blocks.classes;
  const TensorType weight{.dims = {classes, shape.dim}};
  const TensorType bias{.dims = {classes}};
  const Aligned features(feature.bytes(shape.rows, shape.rows));
  const Aligned weights(weight.bytes(1, 1));
  const Aligned biases(bias.bytes(1, 1));
  const Aligned prepared(head_prepared_bytes(shape));
  const Aligned stats(head_stats_bytes(shape));
  const Aligned scratch(head_scratch_bytes(shape, HeadPass::kForward));
  fill_random(features.bytes, feature, feature.elements(shape.rows, shape.rows), 1);
  fill_random(weights.bytes, weight, weight.row_elements(), 2);
  fill_random(biases.bytes, bias, classes, 3);
  const std::vector<int32_t> labels(static_cast<size_t>(shape.rows), 0);
  const HeadRows rows{.features = features.bytes, .labels = labels.data()};
  const HeadWeights held{
      .weight = weights.bytes,
      .bias = shape.form.bias ? reinterpret_cast<float*>(biases.bytes) : nullptr,
      .prepared = head_prepared_bytes(shape) > 0 ? reinterpret_cast<float*>(prepared.bytes) : nullptr};
  InlineWorkers workers;
  passes.prepare(held, workers);
  const auto forward = [&]() -> Status {
    passes.forward(rows, held, stats.bytes, scratch.bytes, workers);
    return {};
  };
  const Seconds time = median_of_calls([] {}, forward).value();
  return time / (static_cast<double>(shape.rows) * static_cast<double>(classes) * static_cast<double>(shape.dim));
}

Seconds time_update(int64_t weights, Isa isa) {
  const TensorType type{.dims = {weights}};
  Operands memory;
  const auto floats = [&] { return reinterpret_cast<float*>(memory.add(type, 1, false)); };
  float* weight = floats();
  float* gradient = floats();
  float* state = floats();
  const OptimizerForm form{.kind = OptimizerKind::kSgd, .states = 1};
  const UpdateScalars scalars{{.rate = 1e-3F, .momentum = 0.9F}};
  const auto run = [&]() -> Status {
    update(isa, form, scalars, weight, gradient, {state}, weights);
    return {};
  };
  return median_of_calls([] {}, run).value() / static_cast<double>(3 * type.bytes(1, 1));
}

}  // namespace xrun::ops
