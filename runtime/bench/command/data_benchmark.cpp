// `xrun bench data`: the data of a model file, the limits of the flags, and the report.
// Tests: tests/runtime/cli/commands/bench_data_test.cpp
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "runtime/bench/command/benchmark.h"
#include "runtime/bench/command/machine_name.h"
#include "runtime/bench/data_stages.h"
#include "runtime/cli/console/console.h"
#include "runtime/cli/model/load.h"
#include "runtime/device/host.h"

namespace xrun::cli {
namespace {

constexpr int64_t kMostSamples = 100'000'000;
constexpr int64_t kMostRounds = 10'000;
constexpr int64_t kUsualBatch = 64;  // for a file without `train`

class DataBenchmark final : public Benchmark {
 public:
  explicit DataBenchmark(const DataBenchArgs& args) : args_(args) {}

  Outcome<BenchReport> run(const GlobalOptions& options) override {
    XRUN_TRY(check_number("--samples", args_.samples, kMostSamples, "1000"));
    XRUN_TRY(check_number("--rounds", args_.rounds, kMostRounds, "5"));
    XRUN_ASSIGN(const LoadedModel model, load_model(args_.file, options, Console(options), false));
    return with_sources(measure(model.file.module, options), model.sources);
  }

 private:
  Result<BenchReport> measure(const Module& module, const GlobalOptions& options) const {
    if (!module.has_data) {
      return content_error("XG0223", args_.file + " has no `data`", "say what to train on: data name { ... }");
    }
    if (module.model.empty()) {
      return content_error("XG0221", args_.file + " has no `model`", "declare one: model name { ... }");
    }
    const runtime::Host host = runtime::detect_host();
    const runtime::DataCase one{.samples = args_.samples,
                                .batch = module.has_train ? module.train.unit() : kUsualBatch,
                                .seed = module.train.seed,
                                .rounds = static_cast<int>(args_.rounds),
                                .threads = options.threads > 0 ? options.threads : host.cores};
    XRUN_ASSIGN(auto rows, runtime::SampleRows::open(module.data, args_.source, module.graph));
    const int64_t samples = rows->samples();
    XRUN_ASSIGN(const runtime::DataFigures figures, runtime::measure_data(std::move(rows), module.graph, one));
    return report(figures, one, samples, host);
  }

  BenchReport report(const runtime::DataFigures& figures, const runtime::DataCase& one, int64_t samples,
                     const runtime::Host& host) const {
    BenchReport report;
    report.fields = {
        {"data", fmt::format("source `{}` of {}, {} samples, {} of {}", args_.source, args_.file, format_count(samples),
                             counted(one.rounds, "round"), format_count(one.samples))}};
    report.json = {{"v", 1},
                   {"benchmark", "data"},
                   {"file", args_.file},
                   {"source", args_.source},
                   {"samples", samples},
                   {"round_samples", one.samples},
                   {"batch", one.batch},
                   {"threads", one.threads},
                   {"broken", figures.broken},
                   {"cpu", host.cpu},
                   {"parts", nlohmann::ordered_json::array()}};
    for (const runtime::DataPart& part : figures.parts) {
      const Seconds time = median(part.seconds);
      report.fields.push_back({part.name, rate_text(time)});
      report.json["parts"].push_back(
          {{"name", part.name}, {"median_s", time}, {"samples_per_s", 1 / time}, {"seconds", part.seconds}});
    }
    const Seconds all = median(figures.seconds);
    const double loaded = median(figures.loaded);
    report.fields.push_back({"all", rate_text(all)});
    report.fields.push_back(
        {"loader", fmt::format("{} samples/s, {}, batches of {}", format_count(std::llround(loaded)),
                               counted(one.threads, "thread"), one.batch)});
    report.fields.push_back({"machine", machine_name(host)});
    report.json["all"] = {{"median_s", all}, {"samples_per_s", 1 / all}, {"seconds", figures.seconds}};
    report.json["loader"] = {{"samples_per_s", loaded}, {"rates", figures.loaded}};
    if (figures.broken > 0) {
      report.notes.push_back(fmt::format("{} samples are broken and do not count", figures.broken));
    }
    return report;
  }

  // The rate of a part that takes almost no time would be noise.
  static std::string rate_text(Seconds time) {
    const std::string text = fmt::format("{:.{}f} us", time * 1e6, time < 1e-5 ? 2 : 1);
    return time < 1e-6 ? text : fmt::format("{}, {} samples/s a core", text, format_count(std::llround(1 / time)));
  }

  DataBenchArgs args_;
};

}  // namespace

std::unique_ptr<Benchmark> make_data_benchmark(const DataBenchArgs& args) {
  return std::make_unique<DataBenchmark>(args);
}

}  // namespace xrun::cli
