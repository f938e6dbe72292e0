// Holds the codes of faults to the families of docs/language.md, section 12: a code of a family is given where the
// family is at home.
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <regex>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

// By the first digits of a code: how paths of files begin that may give it.
const std::map<std::string, std::vector<std::string>> kHomes{
    {"XG06", {"planner/", "runtime/"}},
    {"XG07", {"runtime/checkpoint/"}},
};

TEST(Codes, EachFamilyIsGivenWhereItIsAtHome) {
  const fs::path root = XRUN_SOURCE_DIR;
  const std::regex pattern("\"(XG[0-9]{2})[0-9]{2}\"");
  std::map<std::string, int> found;
  for (const char* folder : {"graph", "lang", "ops", "planner", "runtime"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.path().extension() != ".cpp" && entry.path().extension() != ".h") {
        continue;
      }
      const std::string path = fs::relative(entry.path(), root).generic_string();
      std::ifstream in(entry.path());
      const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
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
}

}  // namespace
