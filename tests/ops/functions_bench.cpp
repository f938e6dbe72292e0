// What users write, compiled and interpreted, against what is built in, on one core, in the cache and beyond it:
// functions of elements and updates of weights, in elements a second; and the time of compiling.
#include <benchmark/benchmark.h>
#include <random>
#include <vector>

#include "ops/jit/compiler.h"
#include "ops/op.h"
#include "ops/optimizer.h"

namespace xrun::ops {
namespace {

constexpr int64_t kInCache = 32 * 1024;
constexpr int64_t kBeyond = 32 * 1024 * 1024;

// One call of an operator of `inputs` tensors, with state.range(0) elements.
void call(benchmark::State& state, const char* name, const Attrs& attrs, DType dtype, int inputs, int outputs) {
  const int64_t count = state.range(0);
  const TensorType type{.dtype = dtype, .dims = {kBatch, count}};
  KernelSpec spec{.inputs = std::vector(static_cast<size_t>(inputs), type),
                  .outputs = std::vector(static_cast<size_t>(outputs), type),
                  .attrs = attrs,
                  .rows = 1,
                  .isa = detect_isa(),
                  .compile = true};
  const auto kernel = find_op(name)->cpu(spec);
  if (!kernel.ok()) {
    state.SkipWithError(kernel.error().message.c_str());
    return;
  }
  std::vector<std::vector<float>> memory;
  const auto take = [&](Bytes size) {
    memory.emplace_back(static_cast<size_t>(size / 4 + 32), 0.25F);
    return reinterpret_cast<std::byte*>(align_up(reinterpret_cast<int64_t>(memory.back().data()), 64));
  };
  std::vector<TensorView> in;
  std::vector<TensorView> out;
  for (int i = 0; i < inputs; ++i) {
    in.push_back({take(type.bytes(1, 1))});
  }
  for (int i = 0; i < outputs; ++i) {
    out.push_back({take(type.bytes(1, 1))});
  }
  std::byte* const scratch = take((*kernel)->scratch_bytes());
  for (auto _ : state) {
    benchmark::DoNotOptimize((*kernel)->run({.inputs = in, .outputs = out, .scratch = scratch}).ok());
  }
  state.SetItemsProcessed(state.iterations() * count);
  state.SetLabel(std::string(name_of(detect_isa())));
}

Attrs function(const char* text) { return Attrs{{"y", std::string(text)}}; }

void sizes(benchmark::internal::Benchmark* bench) { bench->Arg(kInCache)->Arg(kBeyond); }

BENCHMARK_CAPTURE(call, silu_built_in_f32, "silu", Attrs{}, DType::kF32, 1, 1)->Apply(sizes);
BENCHMARK_CAPTURE(call, silu_own_f32, "map", function("x0 * sigmoid(x0)"), DType::kF32, 1, 1)->Apply(sizes);
BENCHMARK_CAPTURE(call, silu_built_in_bf16, "silu", Attrs{}, DType::kBF16, 1, 1)->Apply(sizes);
BENCHMARK_CAPTURE(call, silu_own_bf16, "map", function("x0 * sigmoid(x0)"), DType::kBF16, 1, 1)->Apply(sizes);
BENCHMARK_CAPTURE(call, silu_gradient_built_in_f32, "silu.grad", Attrs{}, DType::kF32, 2, 1)->Apply(sizes);
BENCHMARK_CAPTURE(call, silu_gradient_own_f32, "map", function("t0 = sigmoid(x0); x1 * (t0 + x0 * (t0 * (1 - t0)))"),
                  DType::kF32, 2, 1)
    ->Apply(sizes);
BENCHMARK_CAPTURE(call, relu_built_in_f32, "relu", Attrs{}, DType::kF32, 1, 1)->Apply(sizes);
BENCHMARK_CAPTURE(call, relu_own_f32, "map", function("max(x0, 0)"), DType::kF32, 1, 1)->Apply(sizes);
BENCHMARK_CAPTURE(call, hswish_own_f32, "map", function("x0 * (min(max(x0 + 3, 0), 6) / 6)"), DType::kF32, 1, 1)
    ->Apply(sizes);
BENCHMARK_CAPTURE(call, chain_of_eight_own_f32, "map", function("tanh((min(max(x0 * x1 + 3, 0), 6) - 1) * 0.5) + x1"),
                  DType::kF32, 2, 1)
    ->Apply(sizes);

// adamw, built in and as it is written in the language.
void step(benchmark::State& state, bool own) {
  CallSpec spec{.name = "adamw", .args = {{"weight_decay", 0.01}}, .span = {}};
  if (own) {
    const auto all = parse_scalar_expr(
        "t0 = 0.9 * x2 + 0.1 * x1; t1 = 0.999 * x3 + 0.001 * (x1 * x1); "
        "x0 - x4 * (t0 / (1 - 0.9 ^ x5) / (sqrt(t1 / (1 - 0.999 ^ x5)) + 1e-8) + x6 * x0), t0, t1");
    store_update_rule(*make_update_rule(*all, 2), {"m", "v"}, spec.args);
  }
  const OptimizerForm form = *optimizer_form(spec, detect_isa());
  const UpdateScalars u = update_scalars(form, 1e-3, 0.01, true, 10);
  const auto count = static_cast<size_t>(state.range(0));
  std::vector<float> w(count, 0.5F);
  std::vector<float> g(count, 0.01F);
  std::vector<float> m(count, 0.0F);
  std::vector<float> v(count, 0.0F);
  for (auto _ : state) {
    update(detect_isa(), form, u, w.data(), g.data(), m.data(), v.data(), state.range(0));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

BENCHMARK_CAPTURE(step, adamw_built_in, false)->Apply(sizes);
BENCHMARK_CAPTURE(step, adamw_own, true)->Apply(sizes);

// A loop that no cache knows: the number in it differs from call to call.
void compile(benchmark::State& state, const char* text) {
  if (!open_jit().compiler.size()) {
    state.SkipWithError("there is no compiler");
    return;
  }
  double number = static_cast<double>(std::random_device()());
  for (auto _ : state) {
    LoopForm form;
    form.expr = *parse_scalar_expr(std::string(text) + " + " + std::to_string(number++));
    form.inputs = {LoopInput::kF32, LoopInput::kF32};
    form.outputs = {DType::kF32};
    benchmark::DoNotOptimize(compile_loop(form, detect_isa()));
  }
}

BENCHMARK_CAPTURE(compile, product, "x0 * x1")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(compile, silu_gradient, "t0 = sigmoid(x0); x1 * (t0 + x0 * (t0 * (1 - t0)))")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(compile, functions, "exp(x0) + erf(x1) * cos(x0) + acos(x1) * tanh(x0) + x0 ^ x1")
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace xrun::ops
