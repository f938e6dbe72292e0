// Holds the includes of every file to the table of rooms (docs/architecture.md).
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

// The rooms by folder; the longest matching prefix names the room of a file.
const std::vector<std::string> kRooms{
    "graph/base",       "graph",        "lang",        "ops",    "planner", "runtime/checkpoint",
    "runtime/executor", "runtime/data", "runtime/cli", "runtime"};

const std::map<std::string, std::set<std::string>> kMayInclude{
    {"graph/base", {"graph/base"}},
    {"graph", {"graph", "graph/base"}},
    {"lang", {"lang", "graph", "graph/base"}},
    {"ops", {"ops", "graph", "graph/base"}},
    {"planner", {"planner", "graph", "graph/base"}},
    {"runtime/checkpoint", {"runtime/checkpoint", "runtime", "ops", "graph", "graph/base"}},
    {"runtime/executor", {"runtime/executor", "runtime", "ops", "graph", "graph/base"}},
    {"runtime/data", {"runtime/data", "runtime", "ops", "graph", "graph/base"}},
    {"runtime", {"runtime", "runtime/checkpoint", "runtime/executor", "runtime/data", "ops", "graph", "graph/base"}},
    {"runtime/cli",
     {"runtime/cli", "runtime", "runtime/checkpoint", "runtime/executor", "runtime/data", "planner", "ops", "lang",
      "graph", "graph/base"}},
};

// What `runtime` may see of `planner`.
const std::set<std::string> kPlannerDoor{"planner/program.h", "planner/plan.h", "planner/machine.h",
                                         "planner/cost_model.h"};

std::string room_of(const std::string& path) {
  for (const std::string& room : kRooms) {
    if (path.rfind(room + "/", 0) == 0) {
      return room;
    }
  }
  return {};
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

TEST(Layering, EveryIncludeIsAllowedByTheTableOfRooms) {
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

TEST(Layering, IncludesOfOursStartAtTheRoot) {
  const std::set<std::string> generated{"plan_generated.h"};
  for (const Include& include : project_includes()) {
    const bool at_root = fs::exists(fs::path(XRUN_SOURCE_DIR) / include.included);
    EXPECT_TRUE(at_root || generated.contains(include.included))
        << include.file << " includes \"" << include.included << '"';
  }
}

TEST(Layering, NoRoomIsCalledUtilsCommonOrMisc) {
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
