#include "tests/support/golden.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

namespace xrun::test {
namespace {

namespace fs = std::filesystem;

const fs::path kTree = XRUN_SOURCE_DIR;

std::optional<std::string> read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return std::nullopt;
  }
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return lines;
}

}  // namespace

std::string diff_lines(std::string_view expected, std::string_view actual) {
  const std::vector<std::string_view> a = split_lines(expected);
  const std::vector<std::string_view> b = split_lines(actual);
  // Equal lines at the beginning and at the end are left out; the lines between are few enough to be shown in full.
  size_t head = 0;
  while (head < a.size() && head < b.size() && a[head] == b[head]) {
    ++head;
  }
  size_t tail = 0;
  while (tail < a.size() - head && tail < b.size() - head && a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) {
    ++tail;
  }
  if (head == a.size() && head == b.size()) {
    return {};
  }
  std::string out = "@@ line " + std::to_string(head + 1) + "\n";
  const auto put = [&](char sign, std::string_view line) {
    out += sign;
    out += line;
    if (line.empty() || line.back() != '\n') {
      out += "<no newline>\n";
    }
  };
  for (size_t i = head - std::min<size_t>(head, 3); i < head; ++i) {
    put(' ', a[i]);
  }
  constexpr size_t kShown = 60;
  const auto put_side = [&](char sign, const std::vector<std::string_view>& side) {
    const size_t end = side.size() - tail;
    for (size_t i = head; i < std::min(end, head + kShown); ++i) {
      put(sign, side[i]);
    }
    if (end > head + kShown) {
      out += std::string(1, sign) + "... " + std::to_string(end - head - kShown) + " lines more\n";
    }
  };
  put_side('-', a);
  put_side('+', b);
  for (size_t i = a.size() - tail; i < std::min(a.size(), a.size() - tail + 3); ++i) {
    put(' ', a[i]);
  }
  return out;
}

::testing::AssertionResult matches_golden(std::string_view actual, const std::string& name) {
  const fs::path path = kTree / "tests" / "golden" / name;
  const char* update = std::getenv("XRUN_UPDATE_GOLDENS");
  if (update != nullptr && std::string_view(update) == "1") {
    fs::create_directories(path.parent_path());
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out << actual;
    return out.good() ? testing::AssertionSuccess() : testing::AssertionFailure() << "cannot write " << path;
  }
  const std::optional<std::string> expected = read_file(path);
  if (!expected) {
    return testing::AssertionFailure() << "no golden " << path << "; XRUN_UPDATE_GOLDENS=1 writes it. The text is:\n"
                                       << actual;
  }
  if (*expected == actual) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "differs from " << path << " (XRUN_UPDATE_GOLDENS=1 rewrites it)\n"
                                     << diff_lines(*expected, actual);
}

std::vector<std::string> golden_cases(const std::string& folder, const std::string& ending) {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(kTree / "tests" / "golden" / folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(ending)) {
      names.push_back(folder + "/" + name);
    }
  }
  std::sort(names.begin(), names.end());
  EXPECT_FALSE(names.empty()) << "no golden cases in " << folder;
  return names;
}

std::string read_source_file(const std::string& path) {
  std::optional<std::string> text = read_file(kTree / path);
  EXPECT_TRUE(text.has_value()) << "cannot read " << (kTree / path);
  return std::move(text).value_or("");
}

}  // namespace xrun::test
