// The benchmarks of `xrun bench` with their flags, as plain values. The programs xrun and xrun-bench share this table:
// xrun prints help, manual pages and completions from it, and xrun-bench measures.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace CLI {
class App;
}

namespace xrun::cli {

struct HeadBenchArgs {
  std::string mode = "full";          // full, sample or knn
  std::optional<int64_t> active;      // number of active classes in a step
  std::optional<int64_t> neighbours;  // length of each class's list of neighbours in mode knn
  int64_t classes = 1'000'000;
  int64_t dim = 128;
  int64_t batch = 256;
  std::string dtype = "f32";      // f32 or bf16
  std::string weights = "f32";    // f32, bf16 or fp8
  std::string momentum = "none";  // none, f32 or bf16
  bool cosine = false;
  double margin = 0;
  double kept = 1;  // share of the logits that are kept for the backward sweep
  int64_t shards = 1;
  int64_t rounds = 5;
};

struct KnnBenchArgs {
  int64_t classes = 100'000;
  int64_t dim = 128;
  std::optional<int64_t> neighbours;
  bool approximate = false;
  std::optional<int64_t> probes;
  std::string rows = "random";  // random or tree
  int64_t rounds = 3;
};

struct CommBenchArgs {
  int64_t mib = 64;
  int64_t rounds = 9;
  bool messages = false;  // ranks of one host exchange data by messages
};

struct JitBenchArgs {
  int64_t rounds = 5;
};

struct DataBenchArgs {
  std::string file;
  std::string source = "train";
  int64_t samples = 1000;
  int64_t rounds = 5;
};

// `xrun bench --calibrate`, which measures the machine for plans.
struct CalibrationArgs {
  bool wanted = false;
  std::string output;
  int64_t rounds = 2;
};

struct BenchArgs {
  HeadBenchArgs head;
  KnnBenchArgs knn;
  CommBenchArgs comm;
  JitBenchArgs jit;
  DataBenchArgs data;
  CalibrationArgs calibration;
};

// The name of the calibration, which is no entry of benchmarks().
inline constexpr const char* kCalibration = "--calibrate";
inline constexpr const char* kBenchAbout = "measure a part of xrun on this machine";

struct BenchmarkEntry {
  const char* name;
  const char* about;  // description in `xrun bench --help`
  // Adds the benchmark's own flags to those that every command has. `args` must live while the command line is parsed.
  void (*add_flags)(CLI::App& command, BenchArgs& args);
};
std::span<const BenchmarkEntry> benchmarks();

// Adds `--calibrate` and its flags to `xrun bench`, which then needs no benchmark. `chosen` is called if the command
// line asks for the calibration. `args` must live while the command line is parsed.
void add_calibration_flags(CLI::App& bench, CalibrationArgs& args, std::function<void()> chosen);

}  // namespace xrun::cli
