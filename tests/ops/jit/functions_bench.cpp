// Compares user-written functions and updates, which are compiled, with built-in ones, in elements per second on one
// core, for data that fits into the cache and data that does not. Also measures the time of compiling, and has the
// cases that tests/bench/torch_functions.py compares with PyTorch.
#include <benchmark/benchmark.h>
#include <random>
#include <vector>

#include "ops/jit/compiler.h"
#include "ops/op.h"
#include "ops/optimizer/optimizer.h"
#include "ops/optimizer/update_norms.h"
#include "ops/shape.h"
#include "tests/ops/bench_memory.h"
#include "tests/support/optimizers.h"

namespace xrun::ops {
namespace {

constexpr int64_t kInCache = 32 * 1024;
constexpr int64_t kBeyond = 32 * 1024 * 1024;

// Measures a call of an operator with `inputs` tensors of state.range(0) elements.
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
  BenchMemory memory(0.25F);
  std::vector<TensorView> in;
  std::vector<TensorView> out;
  for (int i = 0; i < inputs; ++i) {
    in.push_back({memory.take(type.bytes(1, 1))});
  }
  for (int i = 0; i < outputs; ++i) {
    out.push_back({memory.take(type.bytes(1, 1))});
  }
  std::byte* const scratch = memory.take((*kernel)->scratch_bytes());
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

// Measures adamw by its own kernel, or (`own`) by the loop for rules without a kernel.
void step(benchmark::State& state, bool own) {
  CallSpec spec = test::optimizer("adamw");
  if (own) {
    const auto all = parse_scalar_expr(
        "t0 = 0.9 * x2 + 0.1 * x1; t1 = 0.999 * x3 + 0.001 * (x1 * x1); "
        "x0 - x4 * (x6 * x0 + t0 * (1 / (1 - 0.9 ^ x5)) / (sqrt(t1 * (1 / (1 - 0.999 ^ x5))) + 1e-8)), t0, t1");
    store_update_rule(*make_update_rule(*all, {0, 0}), {"m", "v"}, spec.args);
  }
  const OptimizerForm form = *optimizer_form(spec, detect_isa());
  const UpdateScalars u = update_scalars(form, 1e-3, 0.01, true, 10);
  const auto count = static_cast<size_t>(state.range(0));
  std::vector<float> w(count, 0.5F);
  std::vector<float> g(count, 0.01F);
  std::vector<float> m(count, 0.0F);
  std::vector<float> v(count, 0.0F);
  for (auto _ : state) {
    update(detect_isa(), form, u, w.data(), g.data(), {m.data(), v.data()}, state.range(0));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

BENCHMARK_CAPTURE(step, adamw_built_in, false)->Apply(sizes);
BENCHMARK_CAPTURE(step, adamw_own, true)->Apply(sizes);

// Forward and backward passes of functions, and steps of optimizers, on two threads with half of the elements each.
// tests/bench/torch_functions.py compares them with torch.compile.
constexpr int64_t kWidth = 1024;
constexpr int64_t kRows = 4096;  // rows per thread

// A call of one operator. Inputs that are not in `given` get memory of their own.
class Call {
 public:
  Call(const char* op, const Attrs& attrs, std::vector<TensorType> inputs, std::vector<TensorType> outputs,
       BenchMemory& memory, std::vector<std::byte*> given = {}) {
    const KernelSpec spec{
        .inputs = inputs, .outputs = outputs, .attrs = attrs, .rows = kRows, .isa = detect_isa(), .compile = true};
    kernel_ = std::move(find_op(op)->cpu(spec)).value();
    for (size_t i = 0; i < inputs.size(); ++i) {
      in_.push_back({i < given.size() ? given[i] : memory.take(inputs[i].bytes(kRows, kRows))});
    }
    for (const TensorType& output : outputs) {
      out_.push_back({memory.take(output.bytes(kRows, kRows))});
    }
    scratch_ = memory.take(kernel_->scratch_bytes());
  }
  std::byte* input(size_t i) const { return in_[i].data; }
  std::byte* output(size_t i) const { return out_[i].data; }
  void run() const {
    benchmark::DoNotOptimize(kernel_->run({.inputs = in_, .outputs = out_, .scratch = scratch_}).ok());
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  std::vector<TensorView> in_;
  std::vector<TensorView> out_;
  std::byte* scratch_ = nullptr;
};

// Measures a function. If `biased`, the last input is a bias of the last dimension.
void peer(benchmark::State& state, const char* text, int inputs, std::vector<int> wanted, bool biased, DType dtype) {
  const TensorType type{.dtype = dtype, .dims = {kBatch, kWidth}};
  const TensorType bias = weight_type({kWidth});
  BenchMemory memory(0.25F);
  std::vector<TensorType> types(static_cast<size_t>(inputs), type);
  if (biased) {
    types.back() = bias;
  }
  const ScalarExpr expr = std::move(parse_scalar_expr(text)).value();
  const Call forward("map", {{"y", to_text(expr)}}, types, {type}, memory);
  std::vector<std::byte*> given;
  for (size_t i = 0; i < types.size(); ++i) {
    given.push_back(forward.input(i));
  }
  types.push_back(type);
  const Call backward("map", {{"y", to_text(gradient_of(expr, inputs, wanted))}}, types,
                      std::vector(wanted.size(), type), memory, given);
  std::unique_ptr<Call> sum;
  if (biased) {
    sum = std::make_unique<Call>("param.sum", Attrs{{"dims", std::vector<int64_t>{kWidth}}}, std::vector{type},
                                 std::vector{bias}, memory, std::vector{backward.output(wanted.size() - 1)});
  }
  for (auto _ : state) {
    forward.run();
    backward.run();
    if (sum != nullptr) {
      sum->run();
    }
  }
  state.SetItemsProcessed(state.iterations() * kRows * kWidth);
}

void two_threads(benchmark::internal::Benchmark* bench) {
  bench->Threads(2)->UseRealTime()->Unit(benchmark::kMillisecond)->MinTime(0.3);
}

#define XRUN_PEER(name, ...)                                                         \
  BENCHMARK_CAPTURE(peer, name##_f32, __VA_ARGS__, DType::kF32)->Apply(two_threads); \
  BENCHMARK_CAPTURE(peer, name##_bf16, __VA_ARGS__, DType::kBF16)->Apply(two_threads)
XRUN_PEER(hswish, "x0 * (min(max(x0 + 3, 0), 6) / 6)", 1, {0}, false);
XRUN_PEER(gelu_tanh, "0.5 * x0 * (1 + tanh(0.7978845608028654 * (x0 + 0.044715 * (x0 * x0 * x0))))", 1, {0}, false);
XRUN_PEER(swiglu, "x0 * sigmoid(x0) * x1", 2, (std::vector<int>{0, 1}), false);
XRUN_PEER(bias_silu_residual, "t0 = x0 + x2; t0 * sigmoid(t0) + x1", 3, (std::vector<int>{0, 2}), true);
XRUN_PEER(focal_loss,
          "t0 = sigmoid(x0); t1 = 1 - (t0 * x1 + (1 - t0) * (1 - x1)); "
          "(max(x0, 0) - x0 * x1 + log(1 + exp(-abs(x0)))) * (t1 * t1)",
          2, {0}, false);

void peer_step(benchmark::State& state, const char* name) {
  const OptimizerForm form = *optimizer_form(test::optimizer(name), detect_isa());
  const auto count = static_cast<size_t>(kRows * kWidth);
  std::vector<std::vector<float>> arrays(4, std::vector<float>(count, 0.01F));
  const auto n = static_cast<int64_t>(count);
  for (auto _ : state) {
    UpdateScalars u = update_scalars(form, 1e-3, 0.01, true, 10);
    const UpdateStates states{arrays[2].data(), arrays[3].data()};
    if (norms_of(form) == 2) {
      double norms[2];
      norm_squares(detect_isa(), form, 0, u, arrays[0].data(), arrays[1].data(), states, n, norms);
      std::ranges::transform(norms, norms, [](double sum) { return std::sqrt(sum); });
      set_norms(form, norms, u);
    }
    update(detect_isa(), form, u, arrays[0].data(), arrays[1].data(), states, n);
  }
  state.SetItemsProcessed(state.iterations() * n);
}
BENCHMARK_CAPTURE(peer_step, adamw_f32, "adamw")->Apply(two_threads);
BENCHMARK_CAPTURE(peer_step, lamb_f32, "lamb")->Apply(two_threads);

// Measures compiling. The function has another number in each call, so that it is never in the cache.
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
