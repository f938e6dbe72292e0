#include "runtime/bench/command/benchmark.h"

#include <algorithm>
#include <fmt/format.h>

#include "graph/base/units.h"
#include "runtime/cli/console/console.h"

namespace xrun::cli {
namespace {

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

// The first given flag that chooses a model or a plan; empty if there is no such flag. Benchmarks use no such flag, but
// `bench data` reads a model file, whose options can be set.
std::string idle_flag(const GlobalOptions& options, bool reads_file) {
  return !options.sets.empty() && !reads_file  ? "--set"
         : !options.run.empty()                ? "--run"
         : !options.cluster.empty()            ? "--cluster"
         : !options.schedule.empty()           ? "--schedule"
         : options.devices > 0 || options.gpus ? "--devices"
                                               : "";
}

std::unique_ptr<Benchmark> make_benchmark(std::string_view name, const BenchArgs& args) {
  return name == "head"         ? make_head_benchmark(args.head)
         : name == "knn"        ? make_knn_benchmark(args.knn)
         : name == "data"       ? make_data_benchmark(args.data)
         : name == "comm"       ? make_comm_benchmark(args.comm)
         : name == kCalibration ? make_calibration(args.calibration)
                                : make_jit_benchmark(args.jit);
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

int run_benchmark(const GlobalOptions& options, std::string_view name, const BenchArgs& args) {
  const Console console(options);
  if (const std::string flag = idle_flag(options, name == "data"); !flag.empty()) {
    return console.fail({ErrorKind::kUsage, "",
                         "`" + flag + "` (or its XRUN_ variable) has no effect on `xrun bench`, which runs no model",
                         flag == "--devices" ? "give the threads of its one device: --threads 2" : "leave it out"});
  }
  const std::unique_ptr<Benchmark> benchmark = make_benchmark(name, args);
  const Outcome<BenchReport> report = benchmark->run(options);
  if (!report.ok()) {
    return console.fail(report.error());
  }
  if (report->fields.empty()) {
    return 0;  // another rank prints the report
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
