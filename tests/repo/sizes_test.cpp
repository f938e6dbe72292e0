// Sources, functions and lines of the documentation that are too long to be read in one go; and the layout of sources.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <regex>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr int kMostFunctionLines = 80;
constexpr size_t kMostSourceLines = 350;
constexpr size_t kMostPageColumns = 100;

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
  }
  return lines;
}

// Calls visit(path, lines) for each source of the product.
template <class Visit>
void for_each_source(const Visit& visit) {
  for (const char* top : {"graph", "lang", "ops", "planner", "runtime"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(XRUN_SOURCE_DIR) / top)) {
      const std::string extension = entry.path().extension();
      if (extension == ".h" || extension == ".cpp" || extension == ".cu") {
        visit(entry.path().lexically_relative(XRUN_SOURCE_DIR).string(), lines_of(entry.path()));
      }
    }
  }
}

size_t indentation(const std::string& line) { return std::min(line.find_first_not_of(' '), line.size()); }

TEST(Sizes, FunctionsHaveAtMostEightyLines) {
  const std::regex end(R"(^ {0,4}\}[;,)]*$)");
  const std::regex skipped(R"(^\s*(#|$|(public|private|protected):))");
  const std::regex other(R"(^\s*(namespace|class|struct|enum|union|constexpr|constinit|inline constexpr|extern|//)\b)");
  const std::regex control(R"(^\s*(if|for|while|switch|else|do|try|case|\}))");
  for_each_source([&](const std::string& path, const std::vector<std::string>& lines) {
    for (size_t last = 0; last < lines.size(); ++last) {
      if (!std::regex_search(lines[last], end)) {
        continue;
      }
      // The layout is canonical, so a block begins at the nearest line above that is not indented more than its end.
      size_t first = last;
      while (first-- > 0) {
        if (!std::regex_search(lines[first], skipped) && indentation(lines[first]) <= indentation(lines[last])) {
          break;
        }
      }
      if (first >= lines.size() || std::regex_search(lines[first], other) || std::regex_search(lines[first], control) ||
          lines[first].find('(') == std::string::npos) {
        continue;
      }
      EXPECT_LE(last - first + 1, kMostFunctionLines) << path << ":" << first + 1 << ": " << lines[first];
    }
  });
}

TEST(Sizes, SourcesHaveAtMostThreeHundredAndFiftyLines) {
  // This file may be longer: its loop is read together with a long comment on vector instructions.
  const std::string longer = "planner/partition/partition.cpp";
  for_each_source([&](const std::string& path, const std::vector<std::string>& lines) {
    if (path != longer) {
      EXPECT_LE(lines.size(), kMostSourceLines) << path;
    }
  });
}

TEST(Sizes, LinesOfPagesHaveAtMostAHundredCharacters) {
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(XRUN_SOURCE_DIR) / "docs")) {
    if (entry.path().extension() != ".md" || entry.is_symlink()) {
      continue;
    }
    bool code = false;
    for (const std::string& line : lines_of(entry.path())) {
      code ^= line.find("```") != std::string::npos;
      const bool free = code || line.find("```") != std::string::npos || line.find('|') != std::string::npos ||
                        line.find("](") != std::string::npos || line.starts_with("    ");
      size_t characters = 0;
      for (const char byte : line) {
        characters += (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U ? 1 : 0;
      }
      EXPECT_TRUE(free || characters <= kMostPageColumns) << entry.path() << ": " << line;
    }
  }
}

TEST(Sizes, SourcesHaveTheLayoutOfClangFormat) {
  const std::string tool = "command -v clang-format-14 >/dev/null && command -v git >/dev/null";
  const std::string root = "cd '" XRUN_SOURCE_DIR "' && git rev-parse --git-dir >/dev/null 2>&1";
  if (std::system(tool.c_str()) != 0 || std::system(root.c_str()) != 0) {
    GTEST_SKIP() << "no clang-format-14 (packages/dev.txt) or no checkout: the layout is not checked";
  }
  const std::string check =
      "cd '" XRUN_SOURCE_DIR "' && git ls-files '*.h' '*.cpp' | xargs clang-format-14 --dry-run -Werror";
  EXPECT_EQ(std::system(check.c_str()), 0) << "`make fmt` corrects the layout";
}

}  // namespace
