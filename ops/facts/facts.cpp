// collect_facts makes the kernel of every node, describes it by a line of text (key_of), and times it only if neither
// the caller's times nor an earlier node have the same line. Before each timed call, the operands that a training step
// would read from memory are flushed from the caches (caches_of). A head and an update are timed only once, in a small
// size, as a time per multiply-add or per byte. All other workers of the step make a timed call at the same time, each
// on operands of its own, unless these need too much memory.
#include "ops/facts/facts.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <memory>
#include <optional>

#include "graph/base/random.h"
#include "graph/print.h"
#include "ops/dnn/window.h"
#include "ops/facts/timing.h"

namespace xrun::ops {
namespace {

// Flops per second of one core, for kernels that have not been timed: the rates of oneDNN's convolutions on the
// machines used for development (docs/reference/benchmarks.md, "Machines").
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
      return {1.4e11, 7.0e11};  // Sapphire Rapids
  }
  return {6e10, 6e10};
}

// The time of an operation of these operators in bf16 on AMX, relative to that of a forward product: tiles are loaded
// along the rows of both operands, so gradients first transpose one of them, and attention has products of few rows.
// Measured on Sapphire Rapids (docs/reference/calibration.md).
struct AmxWork {
  std::string_view op;
  double dense;
  double strided;  // windows with a stride
};
constexpr AmxWork kAmxWork[] = {
    {"conv.dx", 1.1, 2.3},   {"conv.dw", 2.2, 4.5},   {"linear.dx", 1.4, 1.4},
    {"linear.dw", 3.2, 3.2}, {"attention", 2.7, 2.7}, {"attention.grad", 6.9, 6.9},
};

double amx_work(const Node& node, const KernelSpec& spec) {
  const auto* found = std::ranges::find(kAmxWork, node.op->name, &AmxWork::op);
  if (found == std::end(kAmxWork) || spec.inputs[0].dtype != DType::kBF16) {
    return 1;
  }
  const bool by_window = found->strided != found->dense;
  return by_window && extents_of(node.attrs, "stride").area() > 1 ? found->strided : found->dense;
}

bool is_float(const TensorType& type) { return is_computed(type.dtype); }

std::string types_text(const std::vector<TensorType>& types) {
  std::string text;
  for (const TensorType& type : types) {
    text += (text.empty() ? "" : " ") + text_with_layout(type);
  }
  return text;
}

// Returns a line of text with everything in a spec except the path, which does not change sizes or times, and the
// instruction set, which is equal for all kernels.
std::string key_of(std::string_view op, const KernelSpec& spec) {
  return fmt::format("{}({}) {} -> {}, {} rows{}{}", op, to_text(spec.attrs), types_text(spec.inputs),
                     types_text(spec.outputs), spec.rows, spec.training ? ", training" : "",
                     spec.deterministic ? ", deterministic" : "");
}

// Returns the known time for `key`; if there is none, calls `measure` and adds its result to `times`.
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

struct Timing {
  KernelTimes& times;
  const TimedThreads& threads;
  int fewest = threads.count;  // fewest threads that made a call at the same time

  // Returns the number of threads that make a call whose operands need `bytes` in each of them.
  int threads_for(Bytes bytes) {
    const auto count = std::clamp<Bytes>(threads.memory / std::max<Bytes>(1, bytes), 1, threads.count);
    fewest = std::min(fewest, static_cast<int>(count));
    return static_cast<int>(count);
  }
};

std::string threads_text(int threads) { return threads > 1 ? fmt::format(", {} threads", threads) : ""; }

// Sets the time of a call, and of the prepared forms of its weights.
Status add_times(const Kernel& kernel, const KernelSpec& spec, const CacheState& caches, const std::string& name,
                 Timing& timing, KernelFact& fact) {
  const int threads = timing.threads_for(timed_bytes(kernel, spec));
  const std::string key = name + threads_text(threads);
  XRUN_ASSIGN(fact.time, time_of(timing.times, key, [&] { return time_kernel(kernel, spec, caches, threads); }));
  fact.prepare.resize(spec.inputs.size());
  for (size_t i = 0; i < fact.prepare.size(); ++i) {
    if (fact.prepared[i] > 0) {
      const auto input = static_cast<int>(i);
      XRUN_ASSIGN(fact.prepare[i], time_of(timing.times, fmt::format("prepare input {} of {}", i, key),
                                           [&] { return time_prepare(kernel, spec, input, caches, threads); }));
    }
  }
  return {};
}

Result<KernelFact> fact_of(const Graph& graph, const Node& node, const KernelOptions& options, const KernelSpec& spec,
                           const CacheState& caches, const std::string& key, Timing* timing) {
  XRUN_ASSIGN(const std::unique_ptr<Kernel> kernel, make_kernel(graph, node, options));
  const double slow = options.isa == Isa::kAmx ? amx_work(node, spec) : 1;
  KernelFact fact{.scratch = align_up(kernel->scratch_bytes()), .work = slow * kernel->work()};
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    fact.prepared.push_back(kernel->prepared_bytes(static_cast<int>(i)));
  }
  if (timing != nullptr && std::all_of(spec.inputs.begin(), spec.inputs.end(), is_float)) {
    XRUN_TRY(add_times(*kernel, spec, caches, key, *timing, fact));
  }
  return fact;
}

// Returns the head that is timed instead of the head of a node: the same head with a few class blocks.
HeadShape timed_head(const Graph& graph, const Node& node) {
  const TensorType& feature = graph.value(node.inputs[0]).type;
  constexpr int64_t kRows = 256;
  constexpr int64_t kClasses = 2048;
  const int64_t classes = std::min(kClasses, graph.value(node.outputs[0]).type.dims[1]);
  return {.blocks = {classes, class_block(classes, classes)},
          .dim = feature.dims[1],
          .shard = {0, classes},
          .rows = kRows,
          .norm_rows = kRows,
          .bf16 = feature.dtype == DType::kBF16,
          .f16 = feature.dtype == DType::kF16,
          .features = feature.dtype,
          .form = node.op->head(node.attrs)};
}

std::string key_of(const HeadShape& shape) {
  return fmt::format("head of {} classes, {} dims, {} rows{}{}{}", shape.blocks.classes, shape.dim, shape.rows,
                     shape.bf16  ? ", bf16"
                     : shape.f16 ? ", f16"
                                 : "",
                     shape.form.cosine ? ", cosine" : "", shape.form.bias ? ", bias" : "");
}

// The part of the last-level cache that is assumed for one core, since all cores share it.
constexpr Bytes kCaches = 8 * kMiB;

// Returns the bytes that a row block uses: all values, weights and gradients, each counted once.
Bytes bytes_of_block(const Graph& graph, int64_t norm_rows) {
  Bytes sum = 0;
  for (const Value& value : graph.values) {
    sum += value.type.bytes(norm_rows, norm_rows);
  }
  return sum;
}

// Returns which inputs of a node are in the caches: those that another operator of the same pass has just made, but not
// weights.
CacheState caches_of(const Graph& graph, const Node& node, bool cold) {
  CacheState caches{.cold = cold};
  for (const ValueId input : node.inputs) {
    const NodeId producer = graph.value(input).producer;
    caches.recent.push_back(producer.valid() && graph.node(producer).phase == node.phase);
  }
  return caches;
}

std::string to_text(const CacheState& caches) {
  std::string text = caches.cold ? ", cold but for inputs" : "";
  for (size_t i = 0; caches.cold && i < caches.recent.size(); ++i) {
    text += caches.recent[i] ? fmt::format(" {}", i) : "";
  }
  return text;
}

// Returns the number of weights for which the update is timed: a power of two, so that models of similar size share the
// time.
int64_t timed_weights(const Graph& graph) {
  constexpr int64_t kLeast = 4'096;
  constexpr int64_t kMost = 8'388'608;
  const auto weights = static_cast<uint64_t>(std::clamp(graph.parameter_count(), kLeast, kMost));
  return static_cast<int64_t>(std::bit_floor(weights));
}

// Measures the rate of an update by one worker, and with several threads the number of workers that fill the bandwidth.
Status add_update(const Graph& graph, Isa isa, Timing& timing, KernelFacts& facts) {
  const int64_t weights = timed_weights(graph);
  const auto byte = [&](int count) -> Result<Seconds> {
    return time_of(timing.times, fmt::format("update of {} weights, a byte{}", weights, threads_text(count)),
                   [&] { return time_update(weights, isa, count); });
  };
  XRUN_ASSIGN(const Seconds alone, byte(1));
  facts.bytes_per_second = 1 / alone;
  if (const int count = timing.threads_for(timed_bytes(weights)); count > 1) {
    XRUN_ASSIGN(const Seconds shared, byte(count));
    facts.filling_workers = count * std::min(1.0, alone / shared);
  }
  return {};
}

// Measures the time of a multiply-add of a head.
Status add_head(const Graph& graph, const Node& node, Isa isa, Timing& timing, KernelFacts& facts) {
  const HeadShape shape = timed_head(graph, node);
  const int count = timing.threads_for(timed_bytes(shape));
  XRUN_ASSIGN(facts.head_seconds_per_mac,
              time_of(timing.times, key_of(shape) + threads_text(count), [&] { return time_head(shape, isa, count); }));
  return {};
}

}  // namespace

Result<KernelFacts> collect_facts(const Graph& graph, int64_t norm_rows, bool training, Isa isa, bool deterministic,
                                  KernelTimes* times, const TimedThreads& threads) {
  const KernelOptions options{.norm_rows = norm_rows,
                              .training = training,
                              .deterministic = deterministic,
                              .isa = isa,
                              .compile = times != nullptr};
  const Rates rates = rates_of(options.isa);
  KernelFacts facts{.isa = std::string(name_of(options.isa)),
                    .measured = times != nullptr,
                    .flops_per_second_f32 = rates.f32,
                    .flops_per_second_bf16 = rates.bf16};
  std::map<std::string, size_t> alike;  // key: the result of key_of; value: the first node with this key
  std::string text = fmt::format("{};{};{};{}", facts.isa, options.norm_rows, options.training, options.deterministic);
  const bool cold = bytes_of_block(graph, norm_rows) > kCaches;
  std::optional<Timing> timing;
  if (times != nullptr) {
    timing.emplace(*times, threads);
    XRUN_TRY(add_update(graph, isa, *timing, facts));
  }
  for (const Node& node : graph.nodes) {
    if (timing && node.op->head != nullptr && facts.head_seconds_per_mac == 0) {
      XRUN_TRY(add_head(graph, node, isa, *timing, facts));
    }
    if (!has_kernel(node)) {
      facts.nodes.push_back({.prepared = std::vector<Bytes>(node.inputs.size(), 0)});
      continue;
    }
    const KernelSpec spec = spec_of(graph, node, options);
    const CacheState caches = caches_of(graph, node, cold);
    const std::string key = key_of(node.op->name, spec) + to_text(caches);
    if (const auto [at, first] = alike.emplace(key, facts.nodes.size()); !first) {
      facts.nodes.push_back(facts.nodes[at->second]);
    } else {
      XRUN_ASSIGN(KernelFact fact, fact_of(graph, node, options, spec, caches, key, timing ? &*timing : nullptr));
      facts.nodes.push_back(std::move(fact));
    }
    const KernelFact& fact = facts.nodes.back();
    text += fmt::format(";{}:{}:{}", node.op->name, fact.scratch, fmt::join(fact.prepared, ","));
  }
  facts.threads = timing ? timing->fewest : 1;
  facts.digest = fmt::format("{:016x}", stable_hash(text));
  return facts;
}

}  // namespace xrun::ops
