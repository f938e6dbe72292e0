// The benchmarks of the program xrun-bench, made from their flags, and their reports.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "runtime/cli/commands/bench_flags.h"
#include "runtime/cli/console/options.h"
#include "runtime/cli/console/outcome.h"

namespace xrun::cli {

// The figures of a benchmark. Each field is a line of the text output and a column of the Markdown output, so that the
// rows of several runs make one table.
struct BenchReport {
  struct Field {
    std::string name;  // name of the figure, "step"
    std::string text;
  };
  std::vector<Field> fields;
  nlohmann::ordered_json json;     // the figures as one object; bytes, seconds and rates are plain numbers
  std::vector<std::string> notes;  // facts about the case that the figures do not show; printed to stderr
};

// A benchmark with the values of its flags.
class Benchmark {
 public:
  virtual ~Benchmark() = default;
  // Errors: kUsage for flags that do not describe a case; those of the measurement.
  virtual Outcome<BenchReport> run(const GlobalOptions& options) = 0;
};

// The benchmarks, one file each.
std::unique_ptr<Benchmark> make_head_benchmark(const HeadBenchArgs& args);
std::unique_ptr<Benchmark> make_knn_benchmark(const KnnBenchArgs& args);
std::unique_ptr<Benchmark> make_comm_benchmark(const CommBenchArgs& args);
std::unique_ptr<Benchmark> make_data_benchmark(const DataBenchArgs& args);
std::unique_ptr<Benchmark> make_jit_benchmark(const JitBenchArgs& args);
std::unique_ptr<Benchmark> make_calibration(const CalibrationArgs& args);

// Runs the benchmark with this name, prints its report and gives the exit code. REQUIRES: `name` is an entry of
// benchmarks(), or kCalibration.
int run_benchmark(const GlobalOptions& options, std::string_view name, const BenchArgs& args);

// Helpers of all benchmarks. check_number rejects with kUsage a value that is not in 1..`most`; the other returns the
// median of the rounds.
Status check_number(const std::string& flag, int64_t value, int64_t most, const std::string& example);
double median(std::vector<double> values);

}  // namespace xrun::cli
