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

// For each folder, the folders whose headers it may include. A file belongs to the folder with the longest matching
// prefix.
using Folders = std::set<std::string>;

Folders operator+(Folders a, const Folders& b) {
  a.insert(b.begin(), b.end());
  return a;
}

const Folders kGraph{"graph", "graph/base"};
// Folders that every part of `runtime` may include: kernels, the interfaces of devices and communicators, and formats
// of other projects.
const Folders kRuntime = kGraph + Folders{"runtime", "ops", "runtime/device", "runtime/comm"};
const Folders kPlanner = kGraph + Folders{"planner", "planner/schedules"};

const std::map<std::string, Folders> kMayInclude{
    {"graph/base", {"graph/base"}},
    {"graph", kGraph},
    {"lang/syntax", kGraph + Folders{"lang/syntax", "lang"}},
    {"lang/format", kGraph + Folders{"lang/format", "lang/syntax", "lang"}},
    {"lang/elaborate", kGraph + Folders{"lang/elaborate", "lang/syntax", "lang"}},
    {"lang/lower", kGraph + Folders{"lang/lower", "lang/elaborate", "lang/syntax", "lang"}},
    {"lang", kGraph + Folders{"lang", "lang/syntax", "lang/elaborate", "lang/lower"}},
    {"ops", kGraph + Folders{"ops"}},
    {"planner/schedules", kPlanner},
    {"planner/search", kPlanner + Folders{"planner/search", "planner/emit"}},
    {"planner/emit", kPlanner + Folders{"planner/emit", "planner/search"}},
    {"planner/verify", kPlanner + Folders{"planner/verify"}},
    {"planner/report", kPlanner + Folders{"planner/report", "planner/search"}},
    {"planner", kPlanner + Folders{"planner/search", "planner/emit", "planner/verify", "planner/report"}},
    {"runtime/formats", {"runtime/formats", "graph/base"}},
    {"runtime/device", kGraph + Folders{"runtime/device", "ops"}},
    {"runtime/device/cpu", kGraph + Folders{"runtime/device/cpu", "runtime/device", "ops"}},
    {"runtime/comm", kGraph + Folders{"runtime/comm", "runtime/device"}},
    {"runtime/comm/local", kGraph + Folders{"runtime/comm/local", "runtime/comm", "runtime/device"}},
    {"runtime/comm/ranks",
     kGraph + Folders{"runtime/comm/ranks", "runtime/comm/local", "runtime/comm", "runtime/device"}},
    {"runtime/comm/mpi", {"runtime/comm/ranks"}},
    {"runtime/bench", kRuntime + Folders{"runtime/bench", "runtime/device/cpu", "runtime/comm/local"}},
    {"runtime/executor", kRuntime + Folders{"runtime/executor"}},
    {"runtime/checkpoint", kRuntime + Folders{"runtime/checkpoint", "runtime/train", "runtime/formats"}},
    {"runtime/data", kRuntime + Folders{"runtime/data", "runtime/train", "runtime/formats"}},
    {"runtime/train", kRuntime + Folders{"runtime/train", "runtime/executor", "runtime/comm/local"}},
    {"runtime", kRuntime},
    {"runtime/lsp", kGraph + Folders{"runtime/lsp", "runtime", "ops", "lang", "lang/format", "lang/syntax"}},
    {"runtime/cli",
     kRuntime + kPlanner +
         Folders{"runtime/cli", "runtime/lsp", "runtime/bench", "runtime/device/cpu", "runtime/train",
                 "runtime/checkpoint", "runtime/executor", "runtime/data", "runtime/formats", "lang",
                 "runtime/comm/ranks", "lang/format", "lang/syntax", "planner/report", "planner/verify"}},
};

// The headers of `planner` that `runtime` may include.
const std::set<std::string> kPlannerDoor{"planner/program/program.h", "planner/program/plan.h",
                                         "planner/program/machine.h", "planner/cost/cost_model.h"};

std::string room_of(const std::string& path) {
  std::string longest;
  for (const auto& [folder, may_include] : kMayInclude) {
    if (path.starts_with(folder + "/") && folder.size() > longest.size()) {
      longest = folder;
    }
  }
  return longest;
}

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
    const std::string from = room_of(include.file);
    const std::string to = room_of(include.included);
    if (to.empty()) {
      continue;  // generated headers and headers of libraries
    }
    const bool door = from.starts_with("runtime") && kPlannerDoor.contains(include.included);
    EXPECT_TRUE(door || kMayInclude.at(from).contains(to)) << include.file << " includes " << include.included;
  }
}

// The numbers of a run are in device memory. Sessions copy ranges of it, and the executor finds values that are not
// finite.
TEST(Layering, ExecutorAndTrainingLookAtNoMemoryByThemselves) {
  const std::regex raw(R"(\b(memcpy|memset|memmove|isfinite|isnan)\b)");
  for (const char* folder : {"runtime/executor", "runtime/train"}) {
    for (const auto& entry : fs::directory_iterator(fs::path(XRUN_SOURCE_DIR) / folder)) {
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        EXPECT_FALSE(std::regex_search(line, raw)) << entry.path() << ": " << line;
      }
    }
  }
}

TEST(Layering, IncludesOfOursStartAtTheRoot) {
  const std::set<std::string> generated{"plan_generated.h"};
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
