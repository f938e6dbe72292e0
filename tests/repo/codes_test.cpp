// Checks the codes of faults against the families in docs/reference/language.md, "Mistakes". The table has exactly the
// families that are in use, and a code is used only in the folders of its family. Every code in the sources has a page
// in docs/reference/codes.md, and every page has a code in the sources.
#include "graph/base/codes.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

// The first digits of a family's codes, and the beginnings of the paths of the files that may use them.
const std::map<std::string, std::vector<std::string>> kHomes{
    {"XG06", {"planner/", "runtime/"}},
    {"XG07", {"runtime/checkpoint/", "runtime/formats/tensors/safetensors", "runtime/data/sample_rows_open"}},
    {"XG09", {"ops/onnx/", "runtime/"}},
};

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

TEST(Codes, EachFamilyIsUsedOnlyInItsFolders) {
  const fs::path root = XRUN_SOURCE_DIR;
  const std::regex pattern("\"(XG[0-9]{2})[0-9]{2}\"");
  std::map<std::string, int> found;
  for (const char* folder : {"graph", "lang", "ops", "planner", "runtime"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.path().extension() != ".cpp" && entry.path().extension() != ".h") {
        continue;
      }
      const std::string path = fs::relative(entry.path(), root).generic_string();
      const std::string text = text_of(entry.path());
      for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
        const std::string family = (*it)[1].str();
        found[family] += 1;
        const auto homes = kHomes.find(family);
        bool home = homes == kHomes.end();
        for (size_t i = 0; !home && i < homes->second.size(); ++i) {
          home = path.rfind(homes->second[i], 0) == 0;
        }
        EXPECT_TRUE(home) << path << " gives " << it->str() << ", which is of another family";
      }
    }
  }
  for (const auto& [family, homes] : kHomes) {
    EXPECT_GT(found[family], 5) << family;
  }
  const std::string table = text_of(root / "docs/reference/language.md");
  std::set<std::string> named;
  const std::regex row("(XG[0-9]{2})xx");
  for (std::sregex_iterator it(table.begin(), table.end(), row), end; it != end; ++it) {
    named.insert((*it)[1].str());
  }
  for (const auto& [family, count] : found) {
    EXPECT_EQ(named.erase(family), 1u) << family << " is in use and not in the table of docs/reference/language.md";
  }
  EXPECT_TRUE(named.empty()) << *named.begin() << " is in the table of docs/reference/language.md and not in use";
}

TEST(Codes, EachHasAPageAndEachPageHasAUsedCode) {
  const fs::path root = XRUN_SOURCE_DIR;
  // Matches "XG0301", and "error[XG0803]" within the text of a message.
  const std::regex pattern("[\"\\[](XG[0-9]{4})[\"\\]]");
  std::set<std::string> given;
  for (const char* folder : {"graph", "lang", "ops", "planner", "runtime"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.path().extension() == ".cpp" || entry.path().extension() == ".h") {
        std::string text = text_of(entry.path());
        text = std::regex_replace(text, std::regex("//[^\n]*"), "");  // comments have examples
        for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
          given.insert((*it)[1].str());
        }
      }
    }
  }
  EXPECT_GT(given.size(), 150u);
  std::set<std::string> pages;
  std::set<std::string_view> titles;
  const std::vector<xrun::CodePage> all = xrun::code_pages();
  for (const xrun::CodePage& page : all) {
    const std::string code(page.code);
    EXPECT_TRUE(pages.insert(code).second) << code << " has two pages";
    EXPECT_TRUE(titles.insert(page.title).second) << code << " has the title of another page";
    EXPECT_TRUE(given.contains(code)) << code << " has a page and is not given";
    EXPECT_TRUE(std::regex_match(code, std::regex("XG[0-9]{4}"))) << code;
    EXPECT_FALSE(page.title.empty() || page.title.ends_with('.')) << code;
    EXPECT_FALSE(page.text.empty()) << code;
    EXPECT_EQ(page.text.find("```"), std::string_view::npos) << code;
  }
  for (const std::string& code : given) {
    EXPECT_TRUE(pages.contains(code)) << code << " is given and has no page in docs/reference/codes.md";
  }
  EXPECT_FALSE(xrun::find_code("XG9999"));
}

}  // namespace
