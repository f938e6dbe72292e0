// Tests: tests/runtime/cli/commands/bench_test.cpp
#include "runtime/bench/compiled_loops.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <random>
#include <thread>

#include "graph/settings/known_update.h"
#include "ops/jit/compiler.h"
#include "ops/op.h"
#include "ops/optimizer/optimizer.h"
#include "runtime/bench/roofline.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/host.h"

namespace xrun::runtime {
namespace {

constexpr int64_t kInCache = 32 * 1024;
constexpr int64_t kBeyond = 16 * 1024 * 1024;

struct Free {
  void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{64}); }
};
using Memory = std::unique_ptr<std::byte, Free>;

Memory take(Bytes size) {
  Memory memory(static_cast<std::byte*>(::operator new (static_cast<size_t>(size) + 64, std::align_val_t{64})));
  std::fill_n(reinterpret_cast<float*>(memory.get()), size / 4, 0.25F);
  return memory;
}

// A call of an operator, with its own input and output vectors.
class Call {
 public:
  Call(ops::Isa isa, const char* name, const Attrs& attrs, DType dtype, int64_t elements, int inputs) {
    const TensorType type{.dtype = dtype, .dims = {kBatch, elements}};
    const ops::KernelSpec spec{.inputs = std::vector(static_cast<size_t>(inputs), type),
                               .outputs = {type},
                               .attrs = attrs,
                               .rows = 1,
                               .isa = isa,
                               .compile = true};
    kernel_ = std::move(ops::find_op(name)->cpu(spec)).value();
    for (int i = 0; i < inputs + 1; ++i) {
      memory_.push_back(take(type.bytes(1, 1)));
      (i < inputs ? in_ : out_).push_back({memory_.back().get()});
    }
    scratch_ = take(kernel_->scratch_bytes() + 64);
  }
  // Uses the result of another call as an input.
  void read(int input, const Call& from) { in_[static_cast<size_t>(input)] = from.out_[0]; }
  void run() const {
    const Status status = kernel_->run({.inputs = in_, .outputs = out_, .scratch = scratch_.get()});
    XRUN_CHECK(status.ok(), "an element-wise operator computes");
  }

 private:
  std::unique_ptr<ops::Kernel> kernel_;
  std::vector<Memory> memory_;
  Memory scratch_;
  std::vector<ops::TensorView> in_;
  std::vector<ops::TensorView> out_;
};

double median_of(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

// Measures two implementations in turn. Small calls are repeated until a measurement takes about two milliseconds.
LoopRace race(std::string name, int64_t elements, int rounds, const std::function<void()>& own,
              const std::function<void()>& built_in) {
  const int64_t repeats = std::max<int64_t>(1, 2'000'000 / elements);
  const auto once = [&](const std::function<void()>& body) {
    return timed([&] {
             for (int64_t i = 0; i < repeats; ++i) {
               body();
             }
           }).wall /
           static_cast<double>(repeats);
  };
  std::vector<double> a;
  std::vector<double> b;
  once(own);
  once(built_in);
  for (int i = 0; i < rounds; ++i) {
    a.push_back(once(own));
    b.push_back(once(built_in));
  }
  return {.name = std::move(name), .elements = elements, .own = median_of(a), .built_in = median_of(b)};
}

Attrs function(const char* text) { return Attrs{{"y", std::string(text)}}; }

LoopRace race_functions(ops::Isa isa, std::string name, const char* op, const char* text, int inputs, DType dtype,
                        int64_t elements, int rounds) {
  const Call own(isa, "map", function(text), dtype, elements, inputs);
  const Call built_in(isa, op, {}, dtype, elements, inputs);
  return race(
      std::move(name), elements, rounds, [&] { own.run(); }, [&] { built_in.run(); });
}

// The update rule adamw. `own`: written so that it matches no built-in kernel and is compiled; otherwise in the form
// that has a kernel.
Result<ops::OptimizerForm> adamw(ops::Isa isa, bool own) {
  XRUN_ASSIGN(const ScalarExpr all, parse_scalar_expr("t0 = 0.9 * x2 + 0.1 * x1; t1 = 0.999 * x3 + 0.001 * (x1 * x1); "
                                                      "x0 - x4 * (x6 * x0 + t0 * (1 / (1 - 0.9 ^ x5)) / "
                                                      "(sqrt(t1 * (1 / (1 - 0.999 ^ x5))) + 1e-8)), t0, t1"));
  CallSpec spec{.name = "adamw", .args = {{"weight_decay", 0.01}}, .span = {}};
  XRUN_ASSIGN(const UpdateRule rule, make_update_rule(all, {0, 0}));
  const KnownUpdate known{.kind = KnownUpdate::kAdamw, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
  store_update_rule(own ? rule : rule_of(known), {"m", "v"}, spec.args);
  return ops::optimizer_form(spec, isa);
}

Result<LoopRace> race_updates(ops::Isa isa, int64_t elements, int rounds) {
  XRUN_ASSIGN(const ops::OptimizerForm own, adamw(isa, true));
  XRUN_ASSIGN(const ops::OptimizerForm kernel, adamw(isa, false));
  std::vector<Memory> arrays;
  for (int i = 0; i < 4; ++i) {
    arrays.push_back(take(elements * 4));
  }
  const auto at = [&](size_t i) { return reinterpret_cast<float*>(arrays[i].get()); };
  const auto step = [&](const ops::OptimizerForm& form) {
    const ops::UpdateScalars scalars = ops::update_scalars(form, 1e-3, 0.01, true, 10);
    ops::update(isa, form, scalars, at(0), at(1), {at(2), at(3)}, elements);
  };
  return race(
      "adamw", elements, rounds, [&] { step(own); }, [&] { step(kernel); });
}

// Compares one loop with the eight operators that it replaces.
LoopRace race_chain(ops::Isa isa, int rounds) {
  const Call chain(isa, "map", function("-(abs(min(max(x0 * x1 + 3, 0), 6) * 0.5 - 1) + x1)"), DType::kF32, kBeyond, 2);
  std::vector<std::unique_ptr<Call>> calls;
  const auto add = [&](const char* op, const Attrs& attrs, int inputs) {
    calls.push_back(std::make_unique<Call>(isa, op, attrs, DType::kF32, kBeyond, inputs));
    if (calls.size() > 1) {
      calls.back()->read(0, *calls[calls.size() - 2]);
    }
  };
  add("mul", {}, 2);
  add("scale_shift", Attrs{{"shift", 3.0}}, 1);
  add("clamp", Attrs{{"a", 0.0}, {"b", 6.0}}, 1);
  add("scale_shift", Attrs{{"scale", 0.5}}, 1);
  add("scale_shift", Attrs{{"shift", -1.0}}, 1);
  add("abs", {}, 1);
  add("add", {}, 2);
  add("neg", {}, 1);
  return race(
      "chain of eight", kBeyond, rounds, [&] { chain.run(); },
      [&] {
        for (const auto& call : calls) {
          call->run();
        }
      });
}

// Makes loops that are in no cache of compiled code, since each contains a random number.
std::vector<ops::LoopForm> fresh_loops(int count) {
  constexpr const char* kTexts[] = {"x0 * sigmoid(x0)",    "max(x0, 0) + x1",
                                    "tanh(x0) * x1 + 0.5", "x0 * (min(max(x0 + 3, 0), 6) / 6)",
                                    "exp(-x0 * x0) * x1",  "t0 = sigmoid(x0); x1 * (t0 + x0 * (t0 * (1 - t0)))"};
  const double drawn = static_cast<double>(std::random_device()());
  std::vector<ops::LoopForm> loops;
  for (int i = 0; i < count; ++i) {
    ops::LoopForm form;
    form.expr = std::move(parse_scalar_expr(std::string(kTexts[static_cast<size_t>(i) % std::size(kTexts)]) + " + " +
                                            std::to_string(drawn + i)))
                    .value();
    form.inputs = {ops::LoopInput::kF32, ops::LoopInput::kF32};
    form.outputs = {DType::kF32};
    loops.push_back(std::move(form));
  }
  return loops;
}

// A temporary cache directory for the loops of the measurement.
class OwnCache {
 public:
  OwnCache() {
    const char* const before = std::getenv(kVariable);
    before_ = before != nullptr ? std::optional<std::string>(before) : std::nullopt;
    path_ = (std::filesystem::temp_directory_path() / "xrun-loops-XXXXXX").string();
    if (::mkdtemp(path_.data()) != nullptr) {
      ::setenv(kVariable, path_.c_str(), 1);
    }
  }
  ~OwnCache() {
    if (before_) {
      ::setenv(kVariable, before_->c_str(), 1);
    } else {
      ::unsetenv(kVariable);
    }
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  OwnCache(const OwnCache&) = delete;
  OwnCache& operator=(const OwnCache&) = delete;

 private:
  static constexpr const char* kVariable = "XDG_CACHE_HOME";
  std::optional<std::string> before_;
  std::string path_;
};

void measure_compiling(LoopFigures& figures) {
  const OwnCache cache;
  const Bytes before = resident();
  const ops::JitReport report = ops::open_jit();
  figures.open = report.open_time;
  figures.first = timed([&] { ops::compile_loop(fresh_loops(1)[0], figures.isa); }).wall;
  const std::vector<ops::LoopForm> loops = fresh_loops(figures.loops);
  figures.all =
      timed([&] {
        std::vector<std::jthread> threads;
        for (int t = 0; t < figures.threads; ++t) {
          threads.emplace_back([&, t] {
            for (size_t i = static_cast<size_t>(t); i < loops.size(); i += static_cast<size_t>(figures.threads)) {
              ops::compile_loop(loops[i], figures.isa);
            }
          });
        }
      }).wall;
  ops::forget_loops();
  figures.all_from_cache = timed([&] {
                             for (const ops::LoopForm& loop : loops) {
                               ops::compile_loop(loop, figures.isa);
                             }
                           }).wall;
  figures.more_memory = resident() - before;
}

// The machine's bytes per second on one core, and the share of that core that the measurement got.
struct TriadRate {
  double rate = 0;
  double processors = 1;
};
Result<TriadRate> triad_rate(ops::Isa isa) {
  const Host host = detect_host();
  const int threads[] = {1};
  XRUN_ASSIGN(const auto devices, start_cpu_devices(threads, {}));
  TriadRate triad;
  XRUN_TRY(run_on_each(*devices, [&](Device& device) -> Status {
    const Bytes size = Roofline::memory_bytes(host.l3_cache);
    XRUN_ASSIGN(const auto arrays, device.map(size));
    arrays->fill(0, size, std::byte{0});
    const Roofline roofline(isa, false,
                            {reinterpret_cast<float*>(arrays->kernel_address(0)), static_cast<size_t>(size) / 4});
    std::vector<double> rates;
    std::vector<double> processors;
    for (int i = 0; i < 5; ++i) {
      const MachineRate rate = roofline.traffic(static_cast<CpuDevice&>(device));
      rates.push_back(rate.a_second());
      processors.push_back(rate.time.processor / rate.time.wall);
    }
    triad = {median_of(rates), std::min(1.0, median_of(processors))};
    return {};
  }));
  return triad;
}

}  // namespace

Result<LoopFigures> measure_compiled_loops(int rounds, int threads) {
  XRUN_ASSIGN(const ops::Isa isa, ops::choose_isa());
  LoopFigures figures{.isa = isa, .threads = threads};
  measure_compiling(figures);
  const ops::JitReport report = ops::jit_report();
  if (report.failure || report.compiler.empty()) {
    return report.failure.value_or(
        Error{ErrorKind::kUsage, "XG0821", "XRUN_JIT=off leaves nothing to measure", "leave the variable out"});
  }
  figures.compiler = report.compiler;
  for (const int64_t elements : {kInCache, kBeyond}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const std::string type = dtype == DType::kF32 ? "" : ", bf16";
      figures.races.push_back(
          race_functions(isa, "silu" + type, "silu", "x0 * sigmoid(x0)", 1, dtype, elements, rounds));
      figures.races.push_back(race_functions(isa, "gradient of silu" + type, "silu.grad",
                                             "t0 = sigmoid(x0); x1 * (t0 + x0 * (t0 * (1 - t0)))", 2, dtype, elements,
                                             rounds));
    }
    XRUN_ASSIGN(LoopRace update, race_updates(isa, elements, rounds));
    figures.races.push_back(std::move(update));
  }
  figures.chain = race_chain(isa, rounds);
  XRUN_ASSIGN(const TriadRate triad, triad_rate(isa));
  figures.chain_of_triad = 3 * 4 * static_cast<double>(kBeyond) / figures.chain.own / triad.rate;
  figures.processors = triad.processors;
  return figures;
}

}  // namespace xrun::runtime
