#include "runtime/cli/commands/bench.h"

#include <algorithm>
#include <fmt/format.h>

#include "graph/base/units.h"
#include "runtime/cli/console/console.h"

namespace xrun::cli {
namespace {

constexpr BenchmarkEntry kBenchmarks[] = {
    {"head", "a training step of a sharded head, compared with the limits of this machine", make_head_benchmark},
    {"knn", "the build of the graph of nearest classes, compared with this machine's matrix products",
     make_knn_benchmark},
    {"comm", "an all-gather and a reduce-scatter between devices, also of several processes", make_comm_benchmark},
    {"jit", "compiled functions and updates, compared with built-in kernels", make_jit_benchmark},
};

std::string text_of(const BenchReport& report) {
  size_t width = 0;
  for (const BenchReport::Field& field : report.fields) {
    width = std::max(width, field.name.size());
  }
  std::string text;
  for (const BenchReport::Field& field : report.fields) {
    text += fmt::format("  {:<{}}  {}\n", field.name, width, field.text);
  }
  return text;
}

// The first given flag that chooses a model or a plan. Benchmarks have neither, so it is rejected; empty: no such flag.
std::string idle_flag(const GlobalOptions& options) {
  return !options.sets.empty()       ? "--set"
         : !options.run.empty()      ? "--run"
         : !options.cluster.empty()  ? "--cluster"
         : !options.schedule.empty() ? "--schedule"
         : options.devices > 0       ? "--devices"
                                     : "";
}

}  // namespace

Status check_number(const std::string& flag, int64_t value, int64_t most, const std::string& example) {
  return value >= 1 && value <= most
             ? Status()
             : Error{ErrorKind::kUsage, "",
                     fmt::format("`{} {}` is not a number from 1 to {}", flag, value, format_count(most)),
                     fmt::format("give such a number: {} {}", flag, example)};
}

double median(std::vector<double> values) {
  const size_t half = values.size() / 2;
  std::ranges::sort(values);
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double processors_of(const runtime::Elapsed& time, int threads, int cores) {
  const double most = time.wall * std::min(threads, std::max(cores, 1));
  return most > 0 ? std::min(1.0, time.processor / most) : 1;
}

std::string share_text(const MachineShare& share, const std::string& rates) {
  const std::string by_processor = share.processor_share > MachineShare::kMost
                                       ? ""
                                       : fmt::format("by processor time {:.0f} %", 100 * share.processor_share);
  const std::string gap = by_processor.empty() ? "" : share.is_loaded() ? "; " : ", ";
  return (share.is_loaded() ? "not known, since other programs used the processors"
                            : fmt::format("{:.0f} % of {}", 100 * share.share, rates)) +
         gap + by_processor;
}

std::string loaded_note(const MachineShare& share) {
  const std::string got =
      share.processors < 0.9
          ? fmt::format("the workers got {:.0f} % of their processors while the machine's rates were measured",
                        100 * share.processors)
          : fmt::format("the measured share of the machine's rates is {:.0f} %, so these rates were measured too low",
                        100 * share.share);
  return "the machine was loaded: " + got + "; times include that of other programs, so measure again without them";
}

std::span<const BenchmarkEntry> benchmarks() { return kBenchmarks; }

std::string markdown_of(const BenchReport& report) {
  std::string names = "|";
  std::string rule = "|";
  std::string texts = "|";
  for (const BenchReport::Field& field : report.fields) {
    names += " " + field.name + " |";
    rule += "---|";
    texts += " " + field.text + " |";
  }
  return names + "\n" + rule + "\n" + texts + "\n";
}

int run_bench(const GlobalOptions& options, Benchmark& benchmark) {
  const Console console(options);
  if (const std::string flag = idle_flag(options); !flag.empty()) {
    return console.fail({ErrorKind::kUsage, "",
                         "`" + flag + "` (or its XRUN_ variable) has no effect on `xrun bench`, which runs no model",
                         flag == "--devices" ? "give the threads of its one device: --threads 2" : "leave it out"});
  }
  const Result<BenchReport> report = benchmark.run(options);
  if (!report.ok()) {  // an error without a message here has a message on another rank
    return report.error().message.empty() ? exit_code(report.error().kind) : console.fail(report.error());
  }
  if (report->fields.empty()) {
    return 0;  // another rank reports
  }
  for (const std::string& note : report->notes) {
    console.note("note: " + note + "\n");
  }
  console.out(console.json()           ? json_line(report->json)
              : options.format == "md" ? markdown_of(*report)
                                       : text_of(*report));
  return 0;
}

}  // namespace xrun::cli
