// `xrun bench NAME`: measures a part of xrun on this machine. A benchmark is an entry of one table.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "runtime/bench/roofline.h"
#include "runtime/cli/console/options.h"

namespace xrun::cli {

// The figures of a benchmark. Each field is a line of the text output and a column of the Markdown output, so that the
// rows of several runs make one table.
struct BenchReport {
  struct Field {
    std::string name;  // "step"
    std::string text;
  };
  std::vector<Field> fields;
  nlohmann::ordered_json json;     // one object; bytes, seconds and rates as plain numbers
  std::vector<std::string> notes;  // facts about the case that the figures do not show; printed to stderr
};

// A benchmark with the values of its flags.
class Benchmark {
 public:
  virtual ~Benchmark() = default;
  // Adds the benchmark's own flags to those that every command has.
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

// Helpers of all benchmarks. check_number rejects with kUsage a value that is not in 1..`most`; the other returns the
// median of the rounds.
Status check_number(const std::string& flag, int64_t value, int64_t most, const std::string& example);
double median(std::vector<double> values);

// The share of the machine's own rates that a benchmark reaches. If other programs take processors while those rates
// are measured, the measured rates are too low, and the share is too high, even above 1.
struct MachineShare {
  double share = 0;            // measured by the clock
  double processor_share = 0;  // measured by processor time of this process
  double processors = 1;       // the part of their processors that the workers got while the rates were measured

  // The largest plausible share: even on an idle machine the rates vary by some per cent.
  static constexpr double kMost = 1.05;
  // Whether other programs took processors, so that the share by the clock means nothing.
  bool is_loaded() const { return processors < 0.9 || share > kMost; }
};
// Computes MachineShare::processors.
//   time     the measurement of a rate whose workers never wait
//   threads  the number of threads that measured it, on `cores` cores
double processors_of(const runtime::Elapsed& time, int threads, int cores);
// "42 % of 460 GFLOP/s, by processor time 42 %". On a loaded machine it has only the share by processor time, and says
// why.
std::string share_text(const MachineShare& share, const std::string& rates);
// The note that a report has on a loaded machine.
std::string loaded_note(const MachineShare& share);

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
