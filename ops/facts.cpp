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
// was written on (docs/benchmarks.md, "Machines"), by instruction set.
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

std::string types_text(const std::vector<TensorType>& types) {
  std::string text;
  for (const TensorType& type : types) {
    text += (text.empty() ? "" : " ") + to_text(type);
  }
  return text;
}

// All of a spec but the path, which keys random draws, not sizes or times, and the instruction set, which is one for
// all.
std::string key_of(std::string_view op, const KernelSpec& spec) {
  return fmt::format("{}({}) {} -> {}, {} rows{}{}", op, to_text(spec.attrs), types_text(spec.inputs),
                     types_text(spec.outputs), spec.rows, spec.training ? ", training" : "",
                     spec.deterministic ? ", deterministic" : "");
}

// The time that is known, or else what `measure` finds.
template <typename Measure>
Result<Seconds> time_of(KernelTimes& times, const std::string& key, Measure measure) {
  auto at = times.find(key);
  if (at == times.end()) {
    XRUN_ASSIGN(const Seconds seconds, measure());
    at = times.emplace(key, KernelTime{.seconds = seconds}).first;
  }
  at->second.used = true;
  return at->second.seconds;
}

Result<KernelFact> fact_of(const Graph& graph, const Node& node, const KernelOptions& options, const KernelSpec& spec,
                           const std::string& key, KernelTimes* times) {
  XRUN_ASSIGN(const std::unique_ptr<Kernel> kernel, make_kernel(graph, node, options));
  KernelFact fact{.scratch = align_up(kernel->scratch_bytes()), .work = kernel->work()};
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    fact.prepared.push_back(kernel->prepared_bytes(static_cast<int>(i)));
  }
  if (times != nullptr && std::all_of(spec.inputs.begin(), spec.inputs.end(), is_float)) {
    XRUN_ASSIGN(fact.time, time_of(*times, key, [&] { return time_kernel(*kernel, spec); }));
  }
  return fact;
}

// A head that stands for that of a node in timing: a few class blocks.
HeadShape timed_head(const Graph& graph, const Node& node) {
  const TensorType& feature = graph.value(node.inputs[0]).type;
  constexpr int64_t kRows = 256;
  constexpr int64_t kClasses = 2048;
  const int64_t classes = std::min(kClasses, graph.value(node.outputs[0]).type.dims[1]);
  const bool bf16 = feature.dtype == DType::kBF16;
  return {.classes = classes,
          .dim = feature.dims[1],
          .shard = {0, classes},
          .rows = kRows,
          .norm_rows = kRows,
          .bf16 = bf16,
          .bf16_features = bf16,
          .form = node.op->head(node.attrs)};
}

std::string key_of(const HeadShape& shape) {
  return fmt::format("head of {} classes, {} dims, {} rows{}{}{}", shape.classes, shape.dim, shape.rows,
                     shape.bf16 ? ", bf16" : "", shape.form.cosine ? ", cosine" : "", shape.form.bias ? ", bias" : "");
}

// Seconds of one multiply-add of a head pass on one core: the forward pass.
Seconds time_head(const HeadShape& shape, Isa isa) {
  const HeadPasses passes(shape, isa);
  const TensorType feature{.dtype = shape.bf16 ? DType::kBF16 : DType::kF32, .dims = {kBatch, shape.dim}};
  const int64_t classes = shape.classes;
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
  return best / (static_cast<double>(shape.rows) * static_cast<double>(classes) * static_cast<double>(shape.dim));
}

}  // namespace

Result<KernelFacts> collect_facts(const Graph& graph, int64_t norm_rows, bool training, Isa isa, bool deterministic,
                                  KernelTimes* times) {
  const KernelOptions options{.norm_rows = norm_rows, .training = training, .deterministic = deterministic, .isa = isa};
  const Rates rates = rates_of(options.isa);
  KernelFacts facts{.isa = std::string(name_of(options.isa)),
                    .measured = times != nullptr,
                    .flops_per_second_f32 = rates.f32,
                    .flops_per_second_bf16 = rates.bf16};
  std::map<std::string, size_t> alike;  // the first node of each key
  std::string text = fmt::format("{};{};{};{}", facts.isa, options.norm_rows, options.training, options.deterministic);
  for (const Node& node : graph.nodes) {
    if (times != nullptr && node.op->head != nullptr && facts.head_seconds_per_mac == 0) {
      const HeadShape shape = timed_head(graph, node);
      XRUN_ASSIGN(facts.head_seconds_per_mac,
                  time_of(*times, key_of(shape), [&]() -> Result<Seconds> { return time_head(shape, isa); }));
    }
    if (!has_kernel(node)) {
      facts.nodes.push_back({.prepared = std::vector<Bytes>(node.inputs.size(), 0)});
      continue;
    }
    const KernelSpec spec = spec_of(graph, node, options);
    const std::string key = key_of(node.op->name, spec);
    if (const auto [at, first] = alike.emplace(key, facts.nodes.size()); !first) {
      facts.nodes.push_back(facts.nodes[at->second]);
    } else {
      XRUN_ASSIGN(KernelFact fact, fact_of(graph, node, options, spec, key, times));
      facts.nodes.push_back(std::move(fact));
    }
    const KernelFact& fact = facts.nodes.back();
    text += fmt::format(";{}:{}:{}", node.op->name, fact.scratch, fmt::join(fact.prepared, ","));
  }
  facts.digest = fmt::format("{:016x}", stable_hash(text));
  return facts;
}

}  // namespace xrun::ops
