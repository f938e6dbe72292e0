#include "ops/facts.h"

#include <algorithm>
#include <ctime>
#include <fmt/format.h>
#include <memory>
#include <new>

#include "graph/base/random.h"
#include "ops/convert.h"
#include "ops/head.h"

namespace xrun::ops {
namespace {

// Rates of one core for kernels that have not been timed: what oneDNN's convolutions reach on the machines that this
// was written on (GOALS), by instruction set.
struct Rates {
  Flops f32;
  Flops bf16;
};

Rates rates_of(Isa isa) {
  switch (isa) {
    case Isa::kAvx2:
      return {6e10, 6e10};
    case Isa::kAvx512:
      return {1.6e11, 1.4e11};  // bf16 is computed in f32
    case Isa::kAvx512Bf16:
      return {1.2e11, 2.0e11};
    case Isa::kAmx:
      return {1.2e11, 7.0e11};
  }
  return {6e10, 6e10};
}

// Kernels run on the calling thread alone: what other programs do meanwhile is not theirs.
Seconds thread_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

constexpr int kCalls = 3;  // timed, after one to warm up

struct Aligned {
  explicit Aligned(Bytes size)
      : bytes(static_cast<std::byte*>(
            ::operator new (static_cast<size_t>(align_up(std::max<Bytes>(size, 64))), std::align_val_t{kAlignment}))) {}
  ~Aligned() { ::operator delete (bytes, std::align_val_t{kAlignment}); }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
  std::byte* bytes;
};

// Values in 0.5 .. 1.5: no function is outside its domain, and no variance is 0.
void fill_random(std::byte* data, const TensorType& type, int64_t n, uint64_t key) {
  const RandomStream stream(key, 0);
  for (int64_t i = 0; i < n; ++i) {
    const float v = 0.5F + stream.uniform(static_cast<uint64_t>(i));
    if (type.dtype == DType::kBF16) {
      reinterpret_cast<Bf16*>(data)[i] = to_bf16(v);
    } else if (type.dtype == DType::kF32) {
      reinterpret_cast<float*>(data)[i] = v;
    }
  }
}

// The shortest of a few calls.
Result<Seconds> time_kernel(const Kernel& kernel, const KernelSpec& spec) {
  std::vector<std::unique_ptr<Aligned>> memory;
  std::vector<TensorView> inputs;
  std::vector<TensorView> outputs;
  const Aligned scratch(kernel.scratch_bytes());
  const auto allocate = [&](const TensorType& type) {
    memory.push_back(std::make_unique<Aligned>(type.bytes(spec.rows, spec.rows)));
    fill_random(memory.back()->bytes, type, type.elements(spec.rows, spec.rows), memory.size());
    return TensorView{memory.back()->bytes};
  };
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    TensorView view = allocate(spec.inputs[i]);
    if (const Bytes prepared = kernel.prepared_bytes(static_cast<int>(i)); prepared > 0) {
      memory.push_back(std::make_unique<Aligned>(prepared));
      XRUN_TRY(kernel.prepare(static_cast<int>(i), view, memory.back()->bytes, scratch.bytes));
      view.data = memory.back()->bytes;
    }
    inputs.push_back(view);
  }
  for (const TensorType& type : spec.outputs) {
    outputs.push_back(allocate(type));
  }
  const KernelCall call{.inputs = inputs, .outputs = outputs, .scratch = scratch.bytes, .seed = 1};
  Seconds best = 0;
  for (int i = 0; i <= kCalls; ++i) {
    const Seconds start = thread_time();
    XRUN_TRY(kernel.run(call));
    const Seconds time = thread_time() - start;
    best = i == 0 ? time : std::min(best, time);
  }
  return best;
}

bool is_float(const TensorType& type) { return type.dtype == DType::kF32 || type.dtype == DType::kBF16; }

Result<KernelFact> fact_of(const Graph& graph, const Node& node, const KernelOptions& options, const KernelSpec& spec,
                           bool measure) {
  XRUN_ASSIGN(const std::unique_ptr<Kernel> kernel, make_kernel(graph, node, options));
  KernelFact fact{.scratch = align_up(kernel->scratch_bytes()), .work = kernel->work()};
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    fact.prepared.push_back(kernel->prepared_bytes(static_cast<int>(i)));
  }
  if (measure && std::all_of(spec.inputs.begin(), spec.inputs.end(), is_float)) {
    XRUN_ASSIGN(fact.time, time_kernel(*kernel, spec));
  }
  return fact;
}

// Seconds of one multiply-add of a head pass on one core: the forward pass of a few class blocks.
Seconds time_head(const Graph& graph, const Node& node, Isa isa) {
  const TensorType& feature = graph.value(node.inputs[0]).type;
  constexpr int64_t kRows = 256;
  constexpr int64_t kClasses = 2048;
  const int64_t classes = std::min(kClasses, graph.value(node.outputs[0]).type.dims[1]);
  const bool bf16 = feature.dtype == DType::kBF16;
  const HeadShape shape{.classes = classes,
                        .dim = feature.dims[1],
                        .shard = {0, classes},
                        .rows = kRows,
                        .block_rows = kRows,
                        .bf16 = bf16,
                        .bf16_features = bf16,
                        .form = node.op->head(node.attrs)};
  const HeadPasses passes(shape, isa);
  const TensorType weight{.dims = {classes, shape.dim}};
  const TensorType bias{.dims = {classes}};
  const Aligned features(feature.bytes(kRows, kRows));
  const Aligned weights(weight.bytes(1, 1));
  const Aligned biases(bias.bytes(1, 1));
  const Aligned prepared(head_prepared_bytes(shape));
  const Aligned stats(head_stats_bytes(shape));
  const Aligned scratch(head_scratch_bytes(shape, HeadPass::kForward));
  fill_random(features.bytes, feature, feature.elements(kRows, kRows), 1);
  fill_random(weights.bytes, weight, weight.row_elements(), 2);
  fill_random(biases.bytes, bias, classes, 3);
  const std::vector<int32_t> labels(kRows, 0);
  const HeadRows rows{.features = features.bytes, .labels = labels.data()};
  const HeadWeights held{
      .weight = reinterpret_cast<float*>(weights.bytes),
      .bias = shape.form.bias ? reinterpret_cast<float*>(biases.bytes) : nullptr,
      .prepared = head_prepared_bytes(shape) > 0 ? reinterpret_cast<float*>(prepared.bytes) : nullptr};
  InlineWorkers workers;
  passes.prepare(held, workers);
  Seconds best = 0;
  for (int i = 0; i <= kCalls; ++i) {
    const Seconds start = thread_time();
    passes.forward(rows, held, stats.bytes, scratch.bytes, workers);
    const Seconds time = thread_time() - start;
    best = i == 0 ? time : std::min(best, time);
  }
  return best / (static_cast<double>(kRows) * static_cast<double>(classes) * static_cast<double>(shape.dim));
}

}  // namespace

Result<KernelFacts> collect_facts(const Graph& graph, int64_t block_rows, bool training, Isa isa, bool deterministic,
                                  bool measure) {
  const KernelOptions options{
      .block_rows = block_rows, .training = training, .deterministic = deterministic, .isa = isa};
  const Rates rates = rates_of(options.isa);
  KernelFacts facts{.isa = std::string(name_of(options.isa)),
                    .measured = measure,
                    .flops_per_second_f32 = rates.f32,
                    .flops_per_second_bf16 = rates.bf16};
  struct Known {
    std::string_view op;
    KernelSpec spec;
    size_t node;
  };
  std::vector<Known> known;
  std::string text = fmt::format("{};{};{};{}", facts.isa, options.block_rows, options.training, options.deterministic);
  for (const Node& node : graph.nodes) {
    if (measure && node.op->head != nullptr && facts.head_seconds_per_mac == 0) {
      facts.head_seconds_per_mac = time_head(graph, node, isa);
    }
    if (!has_kernel(node)) {
      facts.nodes.push_back({.prepared = std::vector<Bytes>(node.inputs.size(), 0)});
      continue;
    }
    KernelSpec spec = spec_of(graph, node, options);
    spec.path.clear();  // keys random draws, not sizes
    const auto alike = std::find_if(known.begin(), known.end(),
                                    [&](const Known& k) { return k.op == node.op->name && k.spec == spec; });
    if (alike != known.end()) {
      facts.nodes.push_back(facts.nodes[alike->node]);
    } else {
      XRUN_ASSIGN(KernelFact fact, fact_of(graph, node, options, spec, measure));
      known.push_back({node.op->name, std::move(spec), facts.nodes.size()});
      facts.nodes.push_back(std::move(fact));
    }
    const KernelFact& fact = facts.nodes.back();
    text += fmt::format(";{}:{}:{}", node.op->name, fact.scratch, fmt::join(fact.prepared, ","));
  }
  facts.digest = fmt::format("{:016x}", stable_hash(text));
  return facts;
}

}  // namespace xrun::ops
