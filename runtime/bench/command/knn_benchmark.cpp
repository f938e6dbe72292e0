// `xrun bench knn`: the limits of its flags, the case that they describe, and the report.
// Tests: tests/runtime/cli/commands/bench_knn_test.cpp
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <optional>
#include <string>

#include "graph/base/counted.h"
#include "graph/layouts/knn_cells_layout.h"
#include "ops/knn/knn_recall.h"
#include "runtime/bench/command/benchmark.h"
#include "runtime/bench/command/machine_name.h"
#include "runtime/bench/command/machine_share.h"
#include "runtime/bench/knn_build.h"
#include "runtime/data/readers/sku_tree.h"
#include "runtime/device/host.h"

namespace xrun::cli {
namespace {

constexpr int64_t kMaxClasses = std::numeric_limits<int32_t>::max();  // ids are int32
constexpr int64_t kMaxDim = 1 << 16;
constexpr int64_t kMaxRounds = 10'000;
constexpr int64_t kNeighbours = 32;

class KnnBenchmark final : public Benchmark {
 public:
  explicit KnnBenchmark(const KnnBenchArgs& args) : args_(args), one_{.classes = args.classes, .dim = args.dim} {}

  Outcome<BenchReport> run(const GlobalOptions& options) override {
    const runtime::Host host = runtime::detect_host();
    XRUN_TRY(check_number("--classes", one_.classes, kMaxClasses, "100K"));
    XRUN_TRY(check_number("--dim", one_.dim, kMaxDim, "128"));
    one_.neighbours = args_.neighbours.value_or(std::min(kNeighbours, one_.classes));
    XRUN_TRY(check_number("--neighbours", one_.neighbours, one_.classes,
                          std::to_string(std::min(kNeighbours, one_.classes))));
    XRUN_TRY(check_number("--rounds", args_.rounds, kMaxRounds, "3"));
    XRUN_TRY(check_number("--probes", args_.probes.value_or(kUsualProbes), kMostProbes, std::to_string(kUsualProbes)));
    if (args_.probes && !args_.approximate) {
      return Error{ErrorKind::kUsage, "", "`--probes` is for an approximate graph, and the exact one has no cells",
                   "add --approximate"};
    }
    one_.probes = args_.approximate ? args_.probes.value_or(kUsualProbes) : 0;
    if (args_.rows == "tree") {
      // Only the prototypes are used; no samples are drawn.
      const Attrs args{{"classes", one_.classes}, {"dim", one_.dim}, {"samples", int64_t{1}},
                       {"seed", int64_t{1}},      {"noise", 0.0},    {"tail", 0.0},
                       {"conflicts", 0.0}};
      one_.fill_row = [tree = runtime::SkuTree(args)](int64_t c, std::span<float> row) { tree.prototype(c, row); };
    }
    one_.threads = options.threads > 0 ? options.threads : host.cores;
    one_.rounds = static_cast<int>(args_.rounds);
    XRUN_ASSIGN(const runtime::KnnFigures figures, runtime::measure_knn_build(one_));
    return report(figures, host);
  }

 private:
  BenchReport report(const runtime::KnnFigures& figures, const runtime::Host& host) const {
    std::vector<double> times;
    for (const runtime::KnnRound& round : figures.rounds) {
      times.push_back(round.time.wall);
    }
    const Seconds time = median(times);
    const Seconds least = std::ranges::min(times);
    const Bytes beyond = figures.peak - figures.memory.weights - figures.memory.lists;
    const std::string kind = args_.approximate
                                 ? fmt::format("approximate, {} {}", one_.probes, one_.probes == 1 ? "probe" : "probes")
                                 : "exact";

    BenchReport report;
    report.fields = {
        {"knn", fmt::format("{} classes x {}, {} neighbours, {}, {} rows (synthetic), {}", format_count(one_.classes),
                            one_.dim, one_.neighbours, kind, args_.rows, counted(one_.threads, "thread"))},
        {"build",
         fmt::format("{} (least {}, {})", build_text(time), build_text(least), counted(std::ssize(times), "round"))}};
    report.json = {{"v", 1},
                   {"benchmark", "knn"},
                   {"synthetic", true},
                   {"rows", args_.rows},
                   {"exact", !args_.approximate},
                   {"classes", one_.classes},
                   {"dim", one_.dim},
                   {"neighbours", one_.neighbours},
                   {"threads", one_.threads},
                   {"cpu", host.cpu},
                   {"isa", ops::name_of(figures.isa)},
                   {"median_s", time},
                   {"min_s", least},
                   {"build_s", times},
                   {"peak_bytes", figures.peak},
                   {"before_bytes", figures.before},
                   {"weights_bytes", figures.memory.weights},
                   {"lists_bytes", figures.memory.lists},
                   {"scratch_bytes", figures.memory.scratch}};
    if (args_.approximate) {
      add_recall(figures, report);
    } else {
      add_products(figures, time, host, report);
    }
    report.fields.push_back(
        {"memory",
         fmt::format("{} at its peak: {} class rows, {} lists, {} beyond ({} of them before)",
                     format_bytes(figures.peak), format_bytes(figures.memory.weights),
                     format_bytes(figures.memory.lists), format_bytes(beyond), format_bytes(figures.before))});
    report.fields.push_back({"machine", machine_name(host, ops::name_of(figures.isa))});
    return report;
  }

  // Reports the pairs that an approximate graph compared, and its recall.
  void add_recall(const runtime::KnnFigures& figures, BenchReport& report) const {
    const auto classes = static_cast<double>(one_.classes);
    const auto compared = static_cast<double>(figures.compared);
    report.fields.push_back(
        {"compared", fmt::format("{} million of pairs, {:.2f} % of all", format_count(std::llround(compared / 1e6)),
                                 100 * compared / (classes * classes))});
    report.fields.push_back(
        {"recall", fmt::format("{:.1f} % of the nearest of {} classes, which took {} to find", 100 * figures.recall,
                               std::min(kKnnRecallClasses, one_.classes), format_seconds(figures.recall_time.wall))});
    report.json["probes"] = one_.probes;
    report.json["compared"] = figures.compared;
    report.json["recall"] = figures.recall;
    report.json["recall_s"] = figures.recall_time.wall;
  }

  // Reports which share of the machine's rate of products the exact graph reaches.
  void add_products(const runtime::KnnFigures& figures, Seconds time, const runtime::Host& host,
                    BenchReport& report) const {
    std::vector<double> rates;
    std::vector<double> shares;
    std::vector<double> processor_shares;  // shares by processor time, which other programs do not change
    std::vector<double> processors;
    for (const runtime::KnnRound& round : figures.rounds) {
      rates.push_back(round.flops.a_second());
      shares.push_back(runtime::knn_flops(one_) / round.flops.a_second() / round.time.wall);
      processor_shares.push_back(runtime::knn_flops(one_) / round.flops.a_processor_second() / round.time.processor);
      processors.push_back(processors_of(round.flops.time, one_.threads, host.cores));
    }
    const MachineShare share{median(shares), median(processor_shares), median(processors)};
    const double pairs = runtime::knn_pairs(one_) / time;
    report.fields.push_back({"pairs/s", fmt::format("{} million", format_count(std::llround(pairs / 1e6)))});
    report.fields.push_back(
        {"again", fmt::format("{} classes compared once more in f32", format_count(figures.searched_again))});
    report.fields.push_back(
        {"products", share_text(share, fmt::format("{:.1f} GFLOP/s ({})", median(rates) / 1e9, figures.instruction))});
    if (share.is_loaded()) {
      report.notes.push_back(loaded_note(share));
    }
    report.json["pairs_per_s"] = pairs;
    report.json["searched_again"] = figures.searched_again;
    report.json["products"] = {{"share", share.share},
                               {"processor_share", share.processor_share},
                               {"processors", share.processors},
                               {"loaded", share.is_loaded()},
                               {"flops_per_s", median(rates)},
                               {"instruction", figures.instruction},
                               {"flops", runtime::knn_flops(one_)}};
  }

  static std::string build_text(Seconds seconds) {
    return seconds < 1 || seconds >= 60 ? format_seconds(seconds) : fmt::format("{:.2f} s", seconds);
  }

  KnnBenchArgs args_;
  runtime::KnnCase one_;
};

}  // namespace

std::unique_ptr<Benchmark> make_knn_benchmark(const KnnBenchArgs& args) { return std::make_unique<KnnBenchmark>(args); }

}  // namespace xrun::cli
