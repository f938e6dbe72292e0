// `xrun bench jit`: the measurement, and the report.
#include <algorithm>
#include <fmt/format.h>

#include "runtime/bench/command/benchmark.h"
#include "runtime/bench/command/machine_name.h"
#include "runtime/bench/command/machine_share.h"
#include "runtime/bench/compiled_loops.h"
#include "runtime/device/host.h"

namespace xrun::cli {
namespace {

constexpr int64_t kMaxRounds = 10'000;

std::string milliseconds(Seconds seconds) { return fmt::format("{:.1f} ms", seconds * 1e3); }

class JitBenchmark final : public Benchmark {
 public:
  explicit JitBenchmark(const JitBenchArgs& args) : args_(args) {}

  Outcome<BenchReport> run(const GlobalOptions& options) override {
    const runtime::Host host = runtime::detect_host();
    XRUN_TRY(check_number("--rounds", args_.rounds, kMaxRounds, "5"));
    XRUN_ASSIGN(const runtime::LoopFigures figures,
                runtime::measure_compiled_loops(static_cast<int>(args_.rounds),
                                                options.threads > 0 ? options.threads : host.cores));
    return report(figures, host);
  }

 private:
  BenchReport report(const runtime::LoopFigures& figures, const runtime::Host& host) const {
    BenchReport report;
    report.fields = {{"jit", fmt::format("{}, opened in {}", figures.compiler, milliseconds(figures.open))},
                     {"first loop", milliseconds(figures.first)},
                     {"loops", fmt::format("{} on {} {} in {}, from the cache in {}", figures.loops, figures.threads,
                                           figures.threads == 1 ? "thread" : "threads", milliseconds(figures.all),
                                           milliseconds(figures.all_from_cache))},
                     {"memory", format_bytes(std::max<Bytes>(figures.more_memory, 0)) + " more"}};
    report.json = {{"v", 1},
                   {"benchmark", "jit"},
                   {"cpu", host.cpu},
                   {"isa", ops::name_of(figures.isa)},
                   {"compiler", figures.compiler},
                   {"open_s", figures.open},
                   {"first_s", figures.first},
                   {"loops", figures.loops},
                   {"threads", figures.threads},
                   {"all_s", figures.all},
                   {"all_from_cache_s", figures.all_from_cache},
                   {"more_memory_bytes", figures.more_memory}};
    report.json["races"] = nlohmann::ordered_json::array();
    for (const runtime::LoopRace& race : figures.races) {
      add_race(race, report);
    }
    const runtime::LoopRace& chain = figures.chain;
    const MachineShare share{.share = figures.chain_of_triad, .processors = figures.processors};
    report.fields.push_back(
        {chain.name,
         fmt::format("{:.2f} x its operators in turn, {} of the machine's bytes a second on one core", chain.speed(),
                     share.is_loaded() ? "an unknown part" : fmt::format("{:.2f}", share.share))});
    if (share.is_loaded()) {
      report.notes.push_back(loaded_note(share));
    }
    report.json["chain"] = {{"elements", chain.elements},     {"own_s", chain.own},
                            {"in_turn_s", chain.built_in},    {"of_triad", figures.chain_of_triad},
                            {"processors", share.processors}, {"loaded", share.is_loaded()}};
    report.fields.push_back({"machine", machine_name(host, ops::name_of(figures.isa))});
    return report;
  }

  static void add_race(const runtime::LoopRace& race, BenchReport& report) {
    const std::string place = race.elements * 4 <= 1 << 20 ? "in the cache" : "beyond it";
    report.fields.push_back(
        {race.name + ", " + place, fmt::format("{:.2f} x built in, {:.2f} billion elements a second", race.speed(),
                                               static_cast<double>(race.elements) / race.own / 1e9)});
    report.json["races"].push_back(
        {{"name", race.name}, {"elements", race.elements}, {"own_s", race.own}, {"built_in_s", race.built_in}});
  }

  JitBenchArgs args_;
};

}  // namespace

std::unique_ptr<Benchmark> make_jit_benchmark(const JitBenchArgs& args) { return std::make_unique<JitBenchmark>(args); }

}  // namespace xrun::cli
