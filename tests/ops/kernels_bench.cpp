// Measures the glyph backbone on one core: forward and backward pass of one row block of 64 samples, with a dense loss
// over 100 classes, on synthetic data and without an update of weights. Reports images/s and the share of the time that
// is not convolution. Also measures 3 x 3 convolutions by Winograd and directly, which takes_winograd is based on, and
// weight gradients of depthwise convolutions by our kernel and by oneDNN.
#include <benchmark/benchmark.h>

#include "ops/conv/depthwise_gradient.h"
#include "ops/conv/winograd.h"
#include "ops/dnn/weight_kernel.h"
#include "ops/facts/facts.h"
#include "tests/ops/bench_memory.h"
#include "tests/ops/glyphs_module.h"

namespace xrun::ops {
namespace {

constexpr int64_t kBlock = 64;

void backbone_step(benchmark::State& state, PrecisionMode precision) {
  const auto module = glyphs_module(512, 100, precision);
  if (!module.ok()) {
    state.SkipWithError(module.error().message.c_str());
    return;
  }
  double total = 0;
  double products = 0;
  for (auto _ : state) {
    KernelTimes times;
    const auto facts = collect_facts(module->graph, kBlock, true, detect_isa(), true, &times);
    if (!facts.ok()) {
      state.SkipWithError(facts.error().message.c_str());
      return;
    }
    total = 0;
    products = 0;
    for (size_t i = 0; i < facts->nodes.size(); ++i) {
      const std::string_view op = module->graph.nodes[i].op->name;
      const Seconds time = facts->nodes[i].time.value_or(0);
      total += time;
      products += op.starts_with("conv") || op.starts_with("linear") ? time : 0;
    }
    state.SetIterationTime(total);
  }
  state.counters["images/s"] = static_cast<double>(kBlock) / total;
  state.counters["other_share"] = 1 - products / total;
  state.SetLabel(std::string(name_of(detect_isa())));
}

BENCHMARK_CAPTURE(backbone_step, f32, PrecisionMode::kF32)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(backbone_step, mixed_bf16, PrecisionMode::kMixedBf16)->UseManualTime()->Unit(benchmark::kMillisecond);

// ---- convolutions ----

enum class Direction { kForward, kDx, kDw };

// A convolution with equal numbers of input and output channels.
KernelSpec conv_spec(Direction direction, DType dtype, int64_t channels, int64_t pixels, int64_t rows) {
  const TensorType image{.dtype = dtype, .dims = {kBatch, channels, pixels, pixels}};
  const TensorType weight{.dtype = DType::kF32, .dims = {channels, channels, 3, 3}};
  KernelSpec spec{.inputs = {image, weight}, .outputs = {image}, .rows = rows, .isa = detect_isa()};
  if (direction == Direction::kDw) {
    spec.inputs[1] = image;
    spec.outputs[0] = weight;
  }
  return spec;
}

Result<std::unique_ptr<Kernel>> conv_kernel(Direction direction, bool winograd, const KernelSpec& spec) {
  const std::vector<int64_t>& dims = spec.inputs[0].dims;
  const dnn::ConvShape shape{.rows = winograd ? spec.rows : rows_of_call(spec),
                             .channels = dims[1],
                             .height = dims[2],
                             .width = dims[3],
                             .out_channels = dims[1],
                             .kernel = {3, 3},
                             .pad = {1, 1},
                             .dtype = compute_dtype(spec)};
  switch (direction) {
    case Direction::kForward:
      return winograd ? make_winograd(spec, shape) : make_apply_weight(spec, dnn::conv_forward(shape));
    case Direction::kDx:
      return winograd ? make_winograd_dx(spec, shape) : make_apply_weight(spec, dnn::conv_backward_data(shape));
    case Direction::kDw:
      return winograd ? make_winograd_dw(spec, shape) : make_weight_gradient(spec, [&](int64_t outputs) {
        dnn::ConvShape some = shape;
        some.out_channels = outputs;
        return dnn::conv_backward_weights(some);
      });
  }
  return std::unique_ptr<Kernel>();
}

// Arguments: channels, pixels a side, rows.
void conv_3x3(benchmark::State& state, Direction direction, DType dtype, bool winograd) {
  const KernelSpec spec = conv_spec(direction, dtype, state.range(0), state.range(1), state.range(2));
  const double flops = 18.0 * static_cast<double>(spec.rows * state.range(1) * state.range(1)) *
                       static_cast<double>(state.range(0) * state.range(0));
  constexpr double kMostFlops = 2e10;
  if (flops > kMostFlops) {
    state.SkipWithError("too long");
    return;
  }
  const auto kernel = conv_kernel(direction, winograd, spec);
  if (!kernel.ok()) {
    state.SkipWithError(kernel.error().message.c_str());
    return;
  }
  // In a step, the weights do not stay in the cache from one row block to the next. So each call uses other weights.
  constexpr Bytes kCold = 64 * kMiB;
  const auto bytes = [&](const TensorType& type) { return align_up(type.bytes(spec.rows, spec.rows)); };
  const bool gradient = direction == Direction::kDw;
  const Bytes weight = gradient ? bytes(spec.outputs[0]) : (*kernel)->prepared_bytes(1);
  const int64_t copies = std::clamp<int64_t>(kCold / weight, 1, 64);
  BenchMemory memory;
  std::byte* const scratch = memory.take((*kernel)->scratch_bytes());
  std::byte* const weights = memory.take(copies * weight);
  TensorView inputs[] = {{memory.take(bytes(spec.inputs[0]))},
                         {gradient ? memory.take(bytes(spec.inputs[1])) : weights}};
  TensorView outputs[] = {{gradient ? weights : memory.take(bytes(spec.outputs[0]))}};
  int64_t call = 0;
  for (auto _ : state) {
    (gradient ? outputs[0] : inputs[1]).data = weights + (call++ % copies) * weight;
    if (const Status done = (*kernel)->run({.inputs = inputs, .outputs = outputs, .scratch = scratch}); !done.ok()) {
      state.SkipWithError(done.error().message.c_str());
    }
  }
  state.counters["GFLOP/s"] = benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgsProduct({{16, 32, 64, 128, 256, 512}, {4, 7, 14, 28, 56}, {4, 16, 64}})->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(conv_3x3, forward_winograd, Direction::kForward, DType::kF32, true)->Apply(shapes);
BENCHMARK_CAPTURE(conv_3x3, forward_direct, Direction::kForward, DType::kF32, false)->Apply(shapes);
BENCHMARK_CAPTURE(conv_3x3, dx_winograd, Direction::kDx, DType::kF32, true)->Apply(shapes);
BENCHMARK_CAPTURE(conv_3x3, dx_direct, Direction::kDx, DType::kF32, false)->Apply(shapes);
BENCHMARK_CAPTURE(conv_3x3, dw_winograd, Direction::kDw, DType::kF32, true)->Apply(shapes);
BENCHMARK_CAPTURE(conv_3x3, dw_direct, Direction::kDw, DType::kF32, false)->Apply(shapes);

// ---- weight gradients of depthwise convolutions ----

// Arguments: channels, pixels a side, window, stride.
void depthwise_dw(benchmark::State& state, DType dtype, bool own) {
  const int64_t channels = state.range(0);
  const int64_t pixels = state.range(1);
  const int64_t k = state.range(2);
  const TensorType weight{.dtype = DType::kF32, .dims = {channels, 1, k, k}};
  KernelSpec spec{.inputs = {{.dtype = dtype, .dims = {kBatch, channels, pixels, pixels}}},
                  .outputs = {weight},
                  .rows = 16,
                  .isa = detect_isa()};
  dnn::ConvShape shape{.rows = spec.rows,
                       .channels = channels,
                       .height = pixels,
                       .width = pixels,
                       .out_channels = channels,
                       .kernel = {k, k},
                       .stride = {state.range(3), state.range(3)},
                       .pad = {k / 2, k / 2},
                       .groups = channels};
  spec.inputs.push_back({.dtype = dtype, .dims = {kBatch, channels, shape.out_height(), shape.out_width()}});
  shape.dtype = compute_dtype(spec);
  const auto kernel = own ? make_depthwise_gradient(spec, shape)
                          : make_weight_gradient(spec, [&](int64_t) { return dnn::conv_backward_weights(shape); });
  if (!kernel.ok()) {
    state.SkipWithError(kernel.error().message.c_str());
    return;
  }
  BenchMemory memory;
  const TensorView inputs[] = {{memory.take(spec.inputs[0].bytes(spec.rows, spec.rows))},
                               {memory.take(spec.inputs[1].bytes(spec.rows, spec.rows))}};
  const TensorView outputs[] = {{memory.take(weight.bytes(spec.rows, spec.rows))}};
  std::byte* const scratch = memory.take((*kernel)->scratch_bytes());
  for (auto _ : state) {
    benchmark::DoNotOptimize((*kernel)->run({.inputs = inputs, .outputs = outputs, .scratch = scratch}).ok());
  }
}

// Shapes from EfficientNet-B0 and MobileFaceNet.
void depthwise_shapes(benchmark::internal::Benchmark* bench) {
  bench->Args({32, 112, 3, 1})->Args({128, 28, 3, 1})->Args({96, 112, 3, 2})->Args({256, 14, 3, 1});
  bench->Args({144, 56, 5, 2})->Args({672, 14, 5, 1})->Args({1152, 7, 5, 1})->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(depthwise_dw, own_f32, DType::kF32, true)->Apply(depthwise_shapes);
BENCHMARK_CAPTURE(depthwise_dw, onednn_f32, DType::kF32, false)->Apply(depthwise_shapes);
BENCHMARK_CAPTURE(depthwise_dw, own_bf16, DType::kBF16, true)->Apply(depthwise_shapes);
BENCHMARK_CAPTURE(depthwise_dw, onednn_bf16, DType::kBF16, false)->Apply(depthwise_shapes);

}  // namespace
}  // namespace xrun::ops
