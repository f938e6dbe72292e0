// Checks that tests are in the places where readers look for them. The test of ops/conv/winograd.cpp is
// tests/ops/conv/winograd_test.cpp, and that of runtime/lsp/document.cpp is tests/lsp/document_test.cpp. A source whose
// test has another name gives its path in a comment at the top: `// Tests: tests/planner/emit/emit_test.cpp`.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <regex>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

// Shorter sources need no test of their own.
constexpr std::ptrdiff_t kLongSource = 100;

const std::vector<std::string> kFolders{"graph", "lang", "ops", "planner", "runtime"};

// The sources and tests below `folder` as paths from the root of the repository, in order.
std::vector<std::string> files_below(const std::string& folder) {
  const fs::path root = XRUN_SOURCE_DIR;
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
    const std::string extension = entry.path().extension();
    if (extension == ".cpp" || extension == ".cu") {
      files.push_back(fs::relative(entry.path(), root).string());
    }
  }
  std::ranges::sort(files);
  return files;
}

std::vector<std::string> lines_of(const std::string& file) {
  std::ifstream in(fs::path(XRUN_SOURCE_DIR) / file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
  }
  return lines;
}

std::string mirrored_test(const std::string& source) {
  const std::string language_server = "runtime/lsp/";
  const std::string place =
      source.starts_with(language_server) ? "lsp/" + source.substr(language_server.size()) : source;
  return "tests/" + fs::path(place).replace_extension().string() + "_test.cpp";
}

// The paths in the line `// Tests:` that ends the comment at the top of a source; empty if there is no such line.
std::vector<std::string> named_tests(const std::vector<std::string>& lines) {
  const std::string mark = "// Tests: ";
  const auto end = std::ranges::find_if_not(lines, [](const std::string& line) { return line.starts_with("//"); });
  if (end == lines.begin() || !std::prev(end)->starts_with(mark)) {
    return {};
  }
  const std::string text = std::prev(end)->substr(mark.size());
  const std::regex comma(", ");
  return {std::sregex_token_iterator(text.begin(), text.end(), comma, -1), std::sregex_token_iterator()};
}

bool is_file(const std::string& path) { return fs::is_regular_file(fs::path(XRUN_SOURCE_DIR) / path); }

TEST(MirroredTests, EveryLongSourceHasATestOrNamesIt) {
  for (const std::string& folder : kFolders) {
    const std::vector<std::string> sources = files_below(folder);
    ASSERT_FALSE(sources.empty()) << "no sources of " << folder << " were found below " << XRUN_SOURCE_DIR;
    for (const std::string& source : sources) {
      const std::vector<std::string> lines = lines_of(source);
      if (std::ssize(lines) > kLongSource && !is_file(mirrored_test(source))) {
        EXPECT_FALSE(named_tests(lines).empty())
            << source << " has neither " << mirrored_test(source) << " nor a line \"// Tests:\" with other tests";
      }
    }
  }
}

TEST(MirroredTests, NamedTestsExist) {
  for (const std::string& folder : kFolders) {
    for (const std::string& source : files_below(folder)) {
      const std::vector<std::string> named = named_tests(lines_of(source));
      EXPECT_LE(named.size(), 2u) << source << " names more than two tests";
      for (const std::string& test : named) {
        EXPECT_TRUE(test.starts_with("tests/") && is_file(test)) << source << " names " << test;
      }
    }
  }
}

// Two sources may have the same file name, such as the CSV files of runtime/formats and runtime/data/readers. Then the
// test may be in the folder of either source.
TEST(MirroredTests, TestsWithTheNameOfASourceAreInItsFolder) {
  for (const std::string& folder : kFolders) {
    std::map<std::string, std::vector<std::string>> places;  // places of the tests; key: file name
    for (const std::string& source : files_below(folder)) {
      const std::string test = mirrored_test(source);
      places[fs::path(test).filename()].push_back(test);
    }
    for (const std::string& test : files_below("tests/" + folder)) {
      if (const auto found = places.find(fs::path(test).filename()); found != places.end()) {
        EXPECT_TRUE(std::ranges::find(found->second, test) != found->second.end())
            << test << " belongs at " << found->second.front();
      }
    }
  }
}

}  // namespace
