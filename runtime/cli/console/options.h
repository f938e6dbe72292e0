// The parsed command line: global flags and the arguments of each subcommand, as plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/units.h"
#include "graph/settings/gpu_def.h"
#include "graph/settings/set_value.h"
#include "graph/settings/specs.h"

namespace xrun::cli {

// Flags that every subcommand takes (docs/reference/command/overview.md, "Flags of every command"). The variable
// XRUN_<NAME> can replace each long flag.
struct GlobalOptions {
  std::vector<SetValue> sets;
  std::string run;
  std::string cluster;    // FILE[:NAME]
  std::string schedule;   // FILE[:NAME]
  std::string directory;  // -C: the directory of a run's output
  std::string format = "text";
  std::string progress = "auto";  // auto, tty, plain, json or none
  std::string color = "auto";     // auto, always or never
  bool ascii = false;
  bool quiet = false;
  bool verbose = false;
  bool deterministic = false;
  int threads = 0;  // total threads of all devices; 0: the number of cores
  int devices = 0;  // number of devices; 0: one per core, at most one per thread, or all GPUs
  // The GPUs of this machine that are the devices, by number; empty list: all of them; nullopt: the devices are CPUs,
  // or GPUs of the cluster.
  std::optional<std::vector<int>> gpus;
  std::string cost = "analytic";  // analytic or measured
  std::string search_time;        // the longest time of a search of `plan` or `train` (parse_time); empty: no limit

  std::string layer_times;     // set by `xrun plan --layer-times` with a model: path of the user's times of layers
  std::optional<GpuDef> card;  // set by a plan file for `gpus`: the figures with which it was made
  bool f32_inputs = false;     // set by `xrun export`, whose files compute in f32: FrontendOptions::f32_inputs

  // The next members are set by a run of several processes (runtime/cli/job/job.h), not by flags.
  int ranks = 1;
  int cores = 0;                // cores of all hosts; 0: use the cores of this host
  Bytes memory = 0;             // memory of all hosts
  Bytes node_memory = 0;        // memory of the host with the least memory
  std::vector<int> rank_nodes;  // the host of each rank, counted from 0
  NetworkSpec network;          // rates measured between the hosts
};

struct CheckArgs {
  std::vector<std::string> files;
  bool data = false;
  bool strict = false;
};

struct FmtArgs {
  std::vector<std::string> paths;  // files and directories
  bool check = false;              // only report what would change, and write nothing
  bool std_in = false;             // reads stdin and writes stdout
};

struct FixArgs {
  std::vector<std::string> paths;  // files and directories
};

struct ExplainArgs {
  std::vector<std::string> topics;  // codes, operators, settings
  bool list = false;
  bool unavailable = false;  // list only the parts of the language that are known but not available yet
};

struct PlanArgs {
  std::string file;
  std::string output;
  bool dry_run = false;  // print the plan without writing it
  std::string diff;      // path of an older plan; the differences are printed
  bool exit_code = false;
  std::string why;          // the decision of the planner to explain
  std::string fit;          // "classes": print how many classes fit
  std::string layer_times;  // path of times of the model's layers; without a model, of a profile of layers to cut
  int stages = 0;           // the number of stages of the profile
};

struct SimulateArgs {
  std::string file;
  std::vector<std::string> sweeps;  // KEY=VALUES
  std::string fit;                  // KEY or KEY=LOW..HIGH
  std::string output;               // path of the results; empty: stdout
  bool wall = false;                // run the program by the clock
  // The next members are flags of `wall`.
  std::optional<int> steps;
  std::string noise;  // "5%"; empty: none
  std::optional<int64_t> seed;
  std::string slow;  // seconds of the clock for a second of the program; empty: chosen by the command
};

struct ShowArgs {
  std::string file;   // path of a model, plan, checkpoint, log or directory of a run
  std::string table;  // layers, memory, comm or why
  std::string emit;   // tokens, ast, checked, module, backward, plan or program
  bool gantt = false;
  std::string diff;             // path of another plan; the differences from it are printed
  std::string measured;         // path of measured times of the plan
  bool write_defaults = false;  // --explicit
  int depth = 0;                // number of path parts that name a layer in `--table layers`; 0: see list_layers
};

struct TrainArgs {
  std::string file;  // path of a model or of a plan
  std::string resume = "auto";
  bool overwrite = false;  // with --resume never: rename an existing run instead of failing
  bool extend = false;     // allow a length of the run and a learning rate that differ from the checkpoint's
  std::optional<int64_t> steps;
  int64_t profile = -1;  // warm-up steps before the profile; -1: no profile
  int step_timeout =
      600;  // work of a rank hangs if it takes more seconds (runtime/train/watch/work_deadline.h); 0: no limit
};

struct EvalArgs {
  std::string file;  // empty: the model that the checkpoint holds
  std::string checkpoint;
  std::vector<std::string> on;  // names of sources or files of pairs; empty: all sources that `train` names
  std::string feature;          // for files of pairs: the output to compare; empty: the only one
  int64_t folds = 10;
  bool no_flip = false;
  std::string roc;  // path of a .json or .svg file for the curves of `verification`
  bool per_class = false;
  std::string confusion;  // path of the file for counts of class pairs
  std::string wrong;      // directory for the list of misclassified samples
  bool anyway = false;    // also evaluate if the file has another model than the checkpoint
};

struct PredictArgs {
  std::string file;  // empty: the model that the checkpoint holds
  std::string checkpoint;
  std::vector<std::string> images;
  std::string source;
  std::string rows;    // range of rows, a..b
  int topk = 0;        // classes to show for a row; 0: five, or all if there are fewer
  std::string scores;  // probabilities or logits; empty: probabilities
  bool embedding = false;
  std::string output;   // path of a .npy or .npz file
  bool anyway = false;  // also predict if the file has another model than the checkpoint
};

struct ExportArgs {
  std::string file;  // empty: the model that the checkpoint holds
  std::string checkpoint;
  std::string output;                // path of the .onnx file
  std::vector<std::string> outputs;  // outputs of the model; empty: all of them
  std::vector<std::string> heads;    // heads whose results are also outputs
  int topk = 0;                      // best classes of each head; 0: all logits
  std::string python;                // the interpreter that has onnxruntime; empty: python3, if it has it
  bool fp8_rows = false;             // class rows that the model keeps in fp8 stay in fp8
  bool preprocess = false;           // the stages of the data block are nodes of the file
  bool anyway = false;               // also export if the file has another model than the checkpoint
};

}  // namespace xrun::cli
