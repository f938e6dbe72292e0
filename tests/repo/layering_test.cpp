// Checks the includes of every file against the table of folders in docs/internals/architecture.md.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

using Folders = std::set<std::string>;

Folders operator+(Folders a, const Folders& b) {
  a.insert(b.begin(), b.end());
  return a;
}

const Folders kGraph{"graph/base", "graph/os",      "graph/types", "graph/settings",
                     "graph",      "graph/layouts", "graph/passes"};
// The operators' interfaces, and the loops and libraries that families of operators share.
const Folders kOps = kGraph + Folders{"ops", "ops/simd", "ops/jit", "ops/loops", "ops/dnn"};
// Folders that every part of `runtime` may include: kernels, programs, and the interfaces of devices and communicators.
const Folders kRuntime = kOps + Folders{"ops/head", "ops/knn",         "ops/optimizer",  "ops/reduce",
                                        "ops/norm", "planner/program", "runtime/device", "runtime/comm"};
// Checkpoints and data depend on training only through its interfaces for states, events, sources and stores.
const Folders kTraining = kRuntime + Folders{"runtime/executor", "runtime/train/events", "runtime/train/state",
                                             "runtime/train/session", "runtime/train/clock"};
const Folders kFormats{"runtime/formats",         "runtime/formats/pickle", "runtime/formats/pictures",
                       "runtime/formats/records", "runtime/formats/tables", "runtime/formats/tensors"};
const Folders kText{"lang/text", "lang/syntax"};
const Folders kCommands = kTraining + kText +
                          Folders{"lang",
                                  "lang/elaborate",
                                  "lang/format",
                                  "planner",
                                  "planner/report",
                                  "planner/report/page",
                                  "planner/report/sweep",
                                  "planner/cost",
                                  "planner/search",
                                  "ops/facts",
                                  "ops/head/loops",
                                  "runtime/comm/ranks",
                                  "runtime/device/cpu",
                                  "runtime/device/cuda",
                                  "runtime/device/cuda/driver",
                                  "runtime/device/cuda/machine",
                                  "runtime/formats",
                                  "runtime/formats/pickle",
                                  "runtime/formats/pictures",
                                  "runtime/formats/records",
                                  "runtime/formats/tables",
                                  "runtime/formats/tensors",
                                  "runtime/cluster",
                                  "runtime/lsp",
                                  "runtime/train",
                                  "runtime/train/evaluation",
                                  "runtime/train/knn",
                                  "runtime/train/watch",
                                  "runtime/checkpoint",
                                  "runtime/checkpoint/files",
                                  "runtime/checkpoint/tensors",
                                  "runtime/checkpoint/class_rows",
                                  "runtime/data",
                                  "runtime/data/readers",
                                  "runtime/data/readers/webdataset"};

// For each folder, the other folders whose headers it may include. A file belongs to the folder that it is in.
const std::map<std::string, Folders> kMayInclude{
    {"graph/base", {}},
    {"graph/os", {"graph/base"}},
    {"graph/types", {"graph/base"}},
    {"graph/settings", {"graph/base", "graph/types"}},
    {"graph", {"graph/base", "graph/types", "graph/settings"}},
    {"graph/layouts", {"graph/base", "graph/types", "graph/settings", "graph"}},
    {"graph/passes", {"graph/base", "graph/types", "graph/settings", "graph", "graph/layouts"}},

    {"lang/text", kGraph},
    {"lang/syntax", kGraph + Folders{"lang/text"}},
    {"lang/format", kGraph + kText},
    {"lang/elaborate", kGraph + kText},
    {"lang/elaborate/trials", kGraph + kText + Folders{"lang/elaborate"}},
    {"lang/elaborate/bodies", kGraph + kText + Folders{"lang/elaborate"}},
    {"lang/elaborate/calls", kGraph + kText + Folders{"lang/elaborate"}},
    {"lang/elaborate/scalars", kGraph + kText + Folders{"lang/elaborate", "lang/elaborate/trials"}},
    {"lang/lower", kGraph + kText + Folders{"lang/elaborate"}},
    {"lang/lower/placement", kGraph + kText + Folders{"lang/elaborate", "lang/lower"}},
    {"lang", kGraph + kText + Folders{"lang/elaborate", "lang/elaborate/trials", "lang/lower"}},

    {"ops/simd", kGraph},
    {"ops", kGraph + Folders{"ops/simd"}},
    {"ops/jit", kGraph + Folders{"ops/simd"}},
    {"ops/jit/plugin", kGraph + Folders{"ops/simd", "ops/jit"}},
    {"ops/loops", kGraph + Folders{"ops", "ops/simd", "ops/jit"}},
    {"ops/dnn", kGraph + Folders{"ops", "ops/simd"}},
    {"ops/attention", kOps},
    {"ops/conv", kOps},
    {"ops/dense", kOps},
    {"ops/elementwise", kOps},
    {"ops/norm", kOps},
    {"ops/reduce", kOps + Folders{"ops/elementwise"}},
    {"ops/losses", kOps + Folders{"ops/reduce"}},
    {"ops/optimizer", kOps},
    {"ops/head/loops", kOps + Folders{"ops/reduce"}},
    {"ops/head", kOps + Folders{"ops/head/loops", "ops/losses", "ops/optimizer", "ops/reduce"}},
    {"ops/knn", kOps + Folders{"ops/head/loops"}},
    {"ops/onnx", kOps + Folders{"ops/attention", "ops/dense"}},
    {"ops/facts", kOps + Folders{"ops/head", "ops/optimizer", "ops/gpu/launch"}},
    // Kernels of GPUs use only formulas, which the kernels of the processor share.
    {"ops/gpu",
     {"graph/base", "ops/simd", "ops/attention", "ops/conv", "ops/elementwise", "ops/head", "ops/norm",
      "ops/optimizer"}},
    {"ops/gpu/update", {"graph/base", "ops/simd", "ops/gpu", "ops/head", "ops/optimizer"}},
    {"ops/gpu/head", {"graph/base", "ops/simd", "ops/gpu", "ops/head", "ops/optimizer", "ops/reduce"}},
    {"ops/gpu/launch", kOps + Folders{"ops/gpu", "ops/gpu/update", "ops/attention", "ops/dense", "ops/head",
                                      "ops/losses", "ops/optimizer"}},
    {"ops/gpu/launch/head", kOps + Folders{"ops/gpu/launch", "ops/head", "ops/optimizer"}},

    {"planner/schedules", kGraph},
    {"planner/program", kGraph + Folders{"planner/schedules"}},
    {"planner/cost", kGraph + Folders{"planner/program"}},
    {"planner/codec", kGraph + Folders{"planner/program"}},
    {"planner/emit", kGraph + Folders{"planner/program", "planner/cost"}},
    {"planner/verify", kGraph + Folders{"planner/program"}},
    {"planner/partition", kGraph},
    {"planner/profiles", kGraph + Folders{"planner/partition", "planner/program", "planner/cost", "planner/report"}},
    {"planner/search",
     kGraph + Folders{"planner/program", "planner/schedules", "planner/cost", "planner/emit", "planner/partition"}},
    {"planner/report", kGraph + Folders{"planner/program", "planner/cost", "planner/search"}},
    {"planner/report/page", kGraph + Folders{"planner/program", "planner/cost", "planner/search", "planner/report"}},
    {"planner/report/sweep",
     kGraph + Folders{"planner/program", "planner/cost", "planner/search", "planner/report", "planner/report/page"}},
    {"planner", kGraph + Folders{"planner/program", "planner/codec", "planner/cost", "planner/search", "planner/emit",
                                 "planner/verify", "planner/report"}},

    {"runtime/formats", {"graph/base", "graph/os"}},
    {"runtime/formats/pictures", {"graph/base"}},
    {"runtime/formats/records", {"graph/base", "runtime/formats"}},
    {"runtime/formats/pickle", {"graph/base", "runtime/formats"}},
    {"runtime/formats/tables", {"graph/base"}},
    {"runtime/formats/tensors", {"graph/base", "graph/os", "runtime/formats"}},
    {"runtime/device", kOps + Folders{"ops/optimizer", "planner/program"}},
    {"runtime/device/cpu", kRuntime},
    {"runtime/device/cuda/driver", kGraph},
    {"runtime/device/cuda", kRuntime + Folders{"ops/gpu", "ops/gpu/update", "ops/gpu/launch", "ops/gpu/launch/head",
                                               "runtime/device/cuda/driver"}},
    {"runtime/device/cuda/machine", kGraph + Folders{"runtime/device/cuda/driver"}},
    {"runtime/comm", kGraph + Folders{"runtime/device"}},
    {"runtime/comm/local", kGraph + Folders{"runtime/comm", "runtime/device"}},
    {"runtime/comm/ranks", kGraph + Folders{"runtime/comm/local", "runtime/comm", "runtime/device"}},
    {"runtime/comm/mpi", {"runtime/comm/ranks"}},
    {"runtime/cluster", kGraph + Folders{"runtime/comm/ranks"}},
    {"runtime/bench", kRuntime + Folders{"ops/head/loops", "runtime/device/cpu", "runtime/comm/local", "runtime/data",
                                         "runtime/data/augment", "runtime/data/order"}},
    {"runtime/bench/calibration",
     kRuntime + Folders{"lang", "lang/elaborate", "lang/format", "ops/facts", "planner/cost", "runtime/bench",
                        "runtime/device/cpu", "runtime/formats/pictures"}},
    {"runtime/executor", kRuntime},
    {"runtime/wall", kRuntime + Folders{"runtime/executor"}},
    {"runtime/train/clock", kGraph},
    {"runtime/train/events", kRuntime + Folders{"runtime/executor"}},
    {"runtime/train/state", kRuntime + Folders{"runtime/train/events"}},
    {"runtime/train/session",
     kRuntime + Folders{"runtime/comm/local", "runtime/executor", "runtime/train/events", "runtime/train/state"}},
    {"runtime/train/watch", kRuntime + Folders{"runtime/executor", "runtime/train/events"}},
    {"runtime/train/evaluation", kTraining},
    {"runtime/train/knn", kTraining},
    {"runtime/train", kTraining + Folders{"runtime/train/evaluation", "runtime/train/knn", "runtime/train/watch"}},
    {"runtime/checkpoint/files", kTraining + kFormats},
    {"runtime/checkpoint/class_rows", kTraining + Folders{"runtime/checkpoint/files"}},
    {"runtime/checkpoint/tensors",
     kTraining + kFormats + Folders{"runtime/checkpoint/files", "runtime/checkpoint/class_rows"}},
    {"runtime/checkpoint/background", kTraining + Folders{"runtime/checkpoint/files", "runtime/checkpoint/tensors"}},
    {"runtime/checkpoint/copies", kTraining + Folders{"runtime/checkpoint/files", "runtime/checkpoint/tensors"}},
    {"runtime/checkpoint", kTraining + Folders{"runtime/checkpoint/files", "runtime/checkpoint/tensors",
                                               "runtime/checkpoint/background", "runtime/checkpoint/copies"}},
    {"runtime/data/pictures", {"graph/base", "runtime/formats/pictures"}},
    {"runtime/data/readers", kRuntime + kFormats + Folders{"runtime/data/pictures"}},
    {"runtime/data/readers/glyphs", kRuntime + kFormats + Folders{"runtime/data/readers"}},
    {"runtime/data/readers/webdataset", kRuntime + kFormats + Folders{"runtime/data/readers"}},
    {"runtime/data/readers/pairs", kRuntime + kFormats + Folders{"runtime/data/readers"}},
    {"runtime/data/readers/recordio", kRuntime + kFormats + Folders{"runtime/data/readers"}},
    {"runtime/data/readers/npy", kRuntime + kFormats + Folders{"runtime/data/readers"}},
    {"runtime/data/augment", kRuntime + kFormats + Folders{"runtime/data/pictures", "runtime/data/readers"}},
    {"runtime/data/order", kGraph},
    {"runtime/data",
     kTraining + Folders{"runtime/data/pictures", "runtime/data/readers", "runtime/data/readers/glyphs",
                         "runtime/data/readers/webdataset", "runtime/data/readers/npy", "runtime/data/readers/pairs",
                         "runtime/data/readers/recordio", "runtime/data/augment", "runtime/data/order"}},
    {"runtime/interchange", kTraining + Folders{"ops/onnx", "runtime/formats/tensors"}},
    {"runtime/interchange/names", {"graph/base"}},
    {"runtime/interchange/import", kTraining + Folders{"runtime/interchange/names", "runtime/interchange/weights"}},
    {"runtime/interchange/plugin", kGraph + Folders{"ops/onnx", "runtime/interchange"}},
    {"runtime/interchange/weights", kGraph + kFormats + Folders{"runtime/interchange"}},
    {"runtime/lsp",
     kGraph + kText + Folders{"ops", "ops/norm", "lang", "lang/format", "lang/elaborate", "lang/elaborate/trials"}},

    {"runtime/cli/console", kGraph + Folders{"lang", "lang/text"}},
    {"runtime/cli/progress", kCommands + Folders{"runtime/cli/console"}},
    {"runtime/cli/show", kCommands + Folders{"runtime/cli/console"}},
    {"runtime/cli/model", kCommands + Folders{"planner/profiles", "runtime/cli/console"}},
    {"runtime/cli/job", kCommands + Folders{"runtime/cli/console", "runtime/cli/progress", "runtime/cli/model"}},
    {"runtime/cli/sources", kCommands + Folders{"runtime/cli/console", "runtime/cli/model", "runtime/cli/job"}},
    {"runtime/cli/simulate",
     kCommands + Folders{"runtime/wall", "runtime/cli/console", "runtime/cli/model", "runtime/cli/sources"}},
    {"runtime/cli/preview", kCommands},
    {"runtime/cli/profiles", kCommands + Folders{"planner/profiles", "runtime/cli/console"}},
    {"runtime/cli/convert",
     kCommands + Folders{"runtime/data/order", "runtime/cli/console", "runtime/cli/progress", "runtime/cli/sources"}},
    {"runtime/cli/predict",
     kCommands + Folders{"runtime/cli/console", "runtime/cli/progress", "runtime/cli/model", "runtime/cli/sources"}},
    {"runtime/cli/export", kCommands + Folders{"ops/onnx", "runtime/interchange", "runtime/data/augment",
                                               "runtime/cli/console", "runtime/cli/model", "runtime/cli/predict"}},
    {"runtime/cli/import",
     kCommands + Folders{"runtime/interchange/import", "runtime/interchange/names", "runtime/interchange/weights",
                         "runtime/cli/console", "runtime/cli/model", "runtime/cli/progress"}},
    {"runtime/cli/commands",
     kCommands + Folders{"ops/onnx", "runtime/interchange", "runtime/cli/export", "runtime/cli/console",
                         "runtime/cli/progress", "runtime/cli/show", "runtime/cli/model", "runtime/cli/job",
                         "runtime/cli/sources", "runtime/cli/predict", "runtime/cli/preview", "runtime/cli/profiles",
                         "runtime/cli/simulate"}},
    {"runtime/cli", kCommands + Folders{"runtime/cli/console", "runtime/cli/convert", "runtime/cli/import",
                                        "runtime/cli/job", "runtime/cli/commands", "runtime/cli/simulate"}},
    {"runtime/bench/command",
     kRuntime + Folders{"runtime/bench", "runtime/bench/calibration", "runtime/device/cuda/machine",
                        "runtime/comm/ranks", "runtime/data/readers", "runtime/cli", "runtime/cli/console",
                        "runtime/cli/job", "runtime/cli/model", "runtime/cli/commands"}},
};

std::string folder_of(const std::string& path) { return fs::path(path).parent_path().string(); }

struct Include {
  std::string file;
  std::string included;
};

std::vector<Include> project_includes() {
  const fs::path root = XRUN_SOURCE_DIR;
  const std::regex pattern(R"re(^\s*#include\s+"([^"]+)")re");
  std::vector<Include> includes;
  for (const char* folder : {"graph", "lang", "ops", "planner", "runtime"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cpp" && extension != ".cu") {
        continue;
      }
      std::ifstream in(entry.path());
      std::smatch match;
      for (std::string line; std::getline(in, line);) {
        if (std::regex_search(line, match, pattern)) {
          includes.push_back({fs::relative(entry.path(), root).string(), match[1]});
        }
      }
    }
  }
  return includes;
}

TEST(Layering, EveryIncludeIsAllowedByTheTableOfFolders) {
  const std::vector<Include> includes = project_includes();
  ASSERT_GT(includes.size(), 100u) << "the sources were not found below " << XRUN_SOURCE_DIR;
  for (const Include& include : includes) {
    const std::string from = folder_of(include.file);
    const std::string to = folder_of(include.included);
    if (from == to || to.empty()) {
      continue;  // generated headers have no folder
    }
    ASSERT_TRUE(kMayInclude.contains(from)) << "the table lacks the folder of " << include.file;
    EXPECT_TRUE(kMayInclude.at(from).contains(to)) << include.file << " includes " << include.included;
  }
}

// Visits the folders that `folder` may reach by includes, and reports the first path that returns to it.
void find_cycle(const std::map<std::string, Folders>& arrows, std::vector<std::string>& path, Folders& done) {
  const std::string folder = path.back();
  const auto at = arrows.find(folder);
  for (const std::string& next : at == arrows.end() ? Folders{} : at->second) {
    if (const auto begin = std::ranges::find(path, next); begin != path.end()) {
      std::string cycle;
      for (auto step = begin; step != path.end(); ++step) {
        cycle += *step + " -> ";
      }
      ADD_FAILURE() << "folders include each other: " << cycle << next;
    } else if (!done.contains(next)) {
      path.push_back(next);
      find_cycle(arrows, path, done);
      path.pop_back();
    }
  }
  done.insert(folder);
}

TEST(Layering, NoFoldersIncludeEachOther) {
  std::map<std::string, Folders> arrows;
  for (const Include& include : project_includes()) {
    const std::string to = folder_of(include.included);
    if (const std::string from = folder_of(include.file); from != to && !to.empty()) {
      arrows[from].insert(to);
    }
  }
  Folders done;
  for (const auto& [folder, reached] : arrows) {
    std::vector<std::string> path{folder};
    if (!done.contains(folder)) {
      find_cycle(arrows, path, done);
    }
  }
}

// The machine that executes kernels of GPUs is an oracle, so it shares no code with what it tests; and nothing of the
// product is built from the tests.
TEST(Layering, ThePtxMachineUsesOnlyTheBase) {
  const std::regex pattern(R"re(^\s*#include\s+"([^"]+)")re");
  size_t found = 0;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(XRUN_SOURCE_DIR) / "tests/support/ptx")) {
    std::ifstream in(entry.path());
    std::smatch match;
    for (std::string line; std::getline(in, line);) {
      if (std::regex_search(line, match, pattern)) {
        const std::string to = folder_of(match[1]);
        EXPECT_TRUE(to.starts_with("tests/support/ptx") || to == "graph/base")
            << entry.path() << " includes " << match[1];
        ++found;
      }
    }
  }
  EXPECT_GT(found, 50u) << "the sources of the machine were not found";
  for (const Include& include : project_includes()) {
    EXPECT_FALSE(include.included.starts_with("tests/")) << include.file << " includes " << include.included;
  }
}

TEST(Layering, FoldersHaveAtMostFortyFiles) {
  const std::regex data("/(golden|pictures|corpus)(/|$)");
  for (const char* top : {"graph", "lang", "ops", "planner", "runtime", "tests"}) {
    std::map<std::string, int> files;
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(XRUN_SOURCE_DIR) / top)) {
      if (entry.is_regular_file() && entry.path().filename().string().front() != '.') {
        ++files[fs::relative(entry.path(), XRUN_SOURCE_DIR).parent_path().string()];
      }
    }
    for (const auto& [folder, count] : files) {
      EXPECT_TRUE(count <= 40 || std::regex_search(folder, data)) << folder << " has " << count << " files";
    }
  }
}

// The tensors of a run are in device memory. Sessions copy ranges of it, and the executor finds values that are not
// finite.
TEST(Layering, ExecutorAndTrainingDoNotAccessDeviceMemoryDirectly) {
  const std::regex raw(R"(\b(memcpy|memset|memmove|isfinite|isnan)\b)");
  for (const char* folder : {"runtime/executor", "runtime/train"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(XRUN_SOURCE_DIR) / folder)) {
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        EXPECT_FALSE(std::regex_search(line, raw)) << entry.path() << ": " << line;
      }
    }
  }
}

// `make test-tsan` leaves out the tests of these folders.
TEST(Layering, TheFrontEndAndThePlannerStartNoThread) {
  const std::regex threads(R"(#include <(thread|future|pthread\.h|tbb/[a-z_.]+|omp\.h)>)");
  for (const std::string folder : {"graph", "lang", "planner"}) {
    for (const std::string& top : {folder, "tests/" + folder}) {
      for (const auto& entry : fs::recursive_directory_iterator(fs::path(XRUN_SOURCE_DIR) / top)) {
        std::ifstream in(entry.path());
        for (std::string line; std::getline(in, line);) {
          EXPECT_FALSE(std::regex_search(line, threads)) << entry.path() << ": " << line;
        }
      }
    }
  }
}

TEST(Layering, IncludedPathsStartAtTheRoot) {
  const std::set<std::string> generated{"plan_generated.h", "shard_index_generated.h"};
  for (const Include& include : project_includes()) {
    const bool at_root = fs::exists(fs::path(XRUN_SOURCE_DIR) / include.included);
    EXPECT_TRUE(at_root || generated.contains(include.included))
        << include.file << " includes \"" << include.included << '"';
  }
}

TEST(Layering, NoFolderIsCalledUtilsCommonOrMisc) {
  for (const Include& include : project_includes()) {
    EXPECT_FALSE(std::regex_search(include.file, std::regex("(^|/)(utils?|common|misc|helpers?)(/|\\.)")))
        << include.file;
  }
}

TEST(Layering, HeadersStateTheirPurposeInTheFirstLine) {
  std::set<std::string> files;
  for (const Include& include : project_includes()) {
    files.insert(include.file);
  }
  for (const std::string& file : files) {
    if (fs::path(file).extension() != ".h") {
      continue;
    }
    std::ifstream in(fs::path(XRUN_SOURCE_DIR) / file);
    std::string first;
    std::getline(in, first);
    EXPECT_TRUE(first.rfind("// ", 0) == 0) << file;
  }
}

}  // namespace
