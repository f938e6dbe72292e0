// `xrun bench NAME`: measures a part of xrun on this machine. A benchmark is an entry of one table.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "runtime/cli/options.h"

namespace xrun::cli {

// The figures of a benchmark. As text each field is a line, as Markdown a column, so that the rows of several runs make
// one table.
struct BenchReport {
  struct Field {
    std::string name;  // "step"
    std::string text;
  };
  std::vector<Field> fields;
  nlohmann::ordered_json json;     // one object; bytes, seconds and rates as plain numbers
  std::vector<std::string> notes;  // to stderr: facts about the case that the figures do not show
};

// A benchmark with the values of its flags.
class Benchmark {
 public:
  virtual ~Benchmark() = default;
  // Adds the benchmark's own flags, beside those of every command.
  virtual void add_flags(CLI::App& command) = 0;
  // Errors: kUsage for flags that do not describe a case; those of the measurement.
  virtual Result<BenchReport> run(const GlobalOptions& options) = 0;
};

struct BenchmarkEntry {
  const char* name;
  const char* about;  // in `xrun bench --help`
  std::unique_ptr<Benchmark> (*make)();
};
std::span<const BenchmarkEntry> benchmarks();

// Helpers of all benchmarks: a check that gives kUsage for a value that is not from 1 to `most`; the median of the
// rounds.
Status check_number(const std::string& flag, int64_t value, int64_t most, const std::string& example);
double median(std::vector<double> values);

// The benchmarks, one file each.
std::unique_ptr<Benchmark> make_head_benchmark();
std::unique_ptr<Benchmark> make_knn_benchmark();
std::unique_ptr<Benchmark> make_comm_benchmark();
std::unique_ptr<Benchmark> make_jit_benchmark();

// Runs the benchmark, prints its report and gives the exit code.
int run_bench(const GlobalOptions& options, Benchmark& benchmark);

// The report as `--format md` prints it.
std::string markdown_of(const BenchReport& report);

}  // namespace xrun::cli
