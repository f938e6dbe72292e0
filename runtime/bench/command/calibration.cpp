// `xrun bench --calibrate -o FILE`: measures this machine and writes a cluster whose plans have its times.
// Tests: tests/cases/calibration_test.cpp
#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <string>

#include "graph/base/errors.h"
#include "graph/os/durable.h"
#include "runtime/bench/calibration/cluster_text.h"
#include "runtime/bench/calibration/measured_calls.h"
#include "runtime/bench/calibration/measured_rates.h"
#include "runtime/bench/command/benchmark.h"
#include "runtime/bench/command/machine_name.h"
#include "runtime/bench/roofline.h"
#include "runtime/cli/console/console.h"
#include "runtime/device/host.h"

namespace xrun::cli {
namespace {

constexpr int64_t kMostRounds = 100;
constexpr Bytes kLeastMemory = 4 * kGiB;  // the largest probe and the arrays beyond the caches

const FileKind kClusterFile{.name = "model file", .code = "XG0901", .magic = "xgraph", .flag = "-o"};

class CalibrationBenchmark final : public Benchmark {
 public:
  explicit CalibrationBenchmark(const CalibrationArgs& args) : args_(args) {}

  Outcome<BenchReport> run(const GlobalOptions& options) override {
    XRUN_TRY(check_number("--repeat", args_.rounds, kMostRounds, "2"));
    if (args_.output.empty()) {
      return Error{ErrorKind::kUsage, "", "`--calibrate` writes a cluster file, and `-o` does not name it",
                   "write xrun bench --calibrate -o here.xgraph"};
    }
    XRUN_TRY(check_place(args_.output, kClusterFile));
    const runtime::Host host = runtime::detect_host();
    if (host.memory_free < kLeastMemory) {
      return world_error(
          "",
          {"a calibration needs {} of memory, {} are free", format_bytes(kLeastMemory), format_bytes(host.memory_free)},
          "end other programs");
    }
    XRUN_ASSIGN(const ops::Isa isa, ops::choose_isa());
    const Console console(options);
    const auto progress = [&](const std::string& what) {
      if (!options.quiet && !console.json()) {
        console.note("measures " + what + "\n");
      }
    };
    const int rounds = static_cast<int>(args_.rounds);
    Calibration calibration{.instructions = std::string(ops::name_of(isa))};
    const runtime::Elapsed begin = runtime::elapsed_now();
    XRUN_ASSIGN(const auto spreads, runtime::measure_rates(host, isa, 3 * rounds, progress, calibration));
    XRUN_ASSIGN(runtime::MeasuredCalls calls, runtime::measure_calls(isa, rounds, progress));
    const Seconds took = runtime::elapsed_now().wall - begin.wall;
    calibration.f32 = std::move(calls.f32);
    calibration.bf16 = std::move(calls.bf16);
    calibration.head_f32 = calls.head_f32;
    calibration.head_bf16 = calls.head_bf16;
    calibration.update = calls.update;
    const std::string name = std::filesystem::path(args_.output).stem().string();
    const std::string text = runtime::cluster_text(name, host.cpu, host.cores, host.memory_total, calibration);
    const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(text))};
    XRUN_TRY(replace_file(args_.output, pieces, kClusterFile));
    return report(calibration, spreads, calls, took, host);
  }

 private:
  BenchReport report(const Calibration& calibration, const std::vector<runtime::Spread>& spreads,
                     const runtime::MeasuredCalls& calls, Seconds took, const runtime::Host& host) const {
    BenchReport report;
    report.json = {{"v", 1}, {"benchmark", "calibration"}, {"file", args_.output}, {"seconds", took}};
    report.fields.push_back(
        {"calls", fmt::format("{} of {} kinds in f32 and {} in bf16; the rounds differ by {:.0f} % (median)",
                              calls.calls, calibration.f32.size(), calibration.bf16.size(), 100 * calls.spread)});
    report.json["calls"] = {{"count", calls.calls}, {"spread", calls.spread}};
    for (const runtime::Spread& one : spreads) {
      const bool is_time = one.median < 1;
      report.fields.push_back({one.what, fmt::format("{}, within {:.0f} %",
                                                     !is_time ? fmt::format("{:.4g} G a second", one.median / 1e9)
                                                     : one.median < 1e-6 ? fmt::format("{:.3g} ns", one.median * 1e9)
                                                                         : fmt::format("{:.4g} us", one.median * 1e6),
                                                     100 * one.spread)});
      report.json["figures"].push_back({{"what", one.what}, {"median", one.median}, {"spread", one.spread}});
    }
    constexpr double kLoaded = 1;  // rounds of an idle machine differ by less than their median
    if (std::ranges::any_of(spreads, [](const runtime::Spread& one) { return one.spread > kLoaded; })) {
      report.notes.emplace_back(
          "the rounds of some figures differ by more than their median: other programs used the machine; rates of "
          "threads and exchanges are wrong, so measure again without them");
    }
    report.fields.push_back({"machine", machine_name(host, calibration.instructions)});
    report.fields.push_back({"wrote", fmt::format("{} in {:.0f} s      use it: xrun plan MODEL --cluster {}",
                                                  args_.output, took, args_.output)});
    return report;
  }

  CalibrationArgs args_;
};

}  // namespace

std::unique_ptr<Benchmark> make_calibration(const CalibrationArgs& args) {
  return std::make_unique<CalibrationBenchmark>(args);
}

}  // namespace xrun::cli
