// The facts by which ranks compare their sources of pairs.
#include "runtime/cli/sources/run_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/data/data_files.h"
#include "tests/runtime/data/data_support.h"

namespace xrun::cli {
namespace {

using ::testing::HasSubstr;

class FactsOfPairs : public runtime::testing::Files {
 protected:
  // The facts of the source `lfw` with these arguments, whose pictures are not read.
  std::string facts(Attrs args) const {
    DataSpec data;
    data.sources.push_back(runtime::testing::source("lfw", "pairs", std::move(args), root_.string()));
    const std::vector<std::string> needed;
    const auto rows = runtime::SampleRows::open(data, "lfw", Graph(), nullptr, &needed);
    EXPECT_TRUE(rows.ok()) << rows.error().message;
    Facts facts;
    add_facts(**rows, facts);
    return to_text(facts);
  }
};

TEST_F(FactsOfPairs, DifferIfAFlagDiffers) {
  write("a.jpg", "A");
  const auto of_list = [&](const std::string& flags) {
    std::string list;
    for (const char flag : flags) {
      list += "a.jpg\tb.jpg\t" + std::string(1, flag) + "\n";
    }
    write("l.txt", list);
    return facts({{"path", std::string("l.txt")}, {"root", std::string()}});
  };
  const std::string first = of_list("0110");
  EXPECT_THAT(first, HasSubstr("pairs of the source `lfw`"));
  EXPECT_EQ(of_list("0110"), first);
  EXPECT_NE(of_list("0111"), first);
  EXPECT_NE(of_list("1010"), first);
}

TEST_F(FactsOfPairs, DifferIfAPairOrATemplateDiffers) {
  write("a.jpg", "A");
  const auto of_templates = [&](const std::string& pictures, const std::string& pairs) {
    write("t.txt", pictures);
    write("pairs.txt", pairs);
    return facts({{"path", std::string("pairs.txt")}, {"root", std::string()}, {"templates", std::string("t.txt")}});
  };
  const std::string pictures = "a.jpg 1 5\na.jpg 1 6\na.jpg 2 7\na.jpg 3 8\n";
  const std::string first = of_templates(pictures, "1 2 1\n1 3 0\n");
  EXPECT_THAT(first, HasSubstr("pairs of the source `lfw`"));
  EXPECT_EQ(of_templates(pictures, "1 2 1\n1 3 0\n"), first);
  EXPECT_NE(of_templates(pictures, "1 2 1\n1 3 1\n"), first);
  EXPECT_NE(of_templates(pictures, "1 2 1\n2 3 0\n"), first);
  EXPECT_NE(of_templates("a.jpg 1 5\na.jpg 1 5\na.jpg 2 7\na.jpg 3 8\n", "1 2 1\n1 3 0\n"), first) << "media";
  EXPECT_NE(of_templates("a.jpg 1 5\na.jpg 2 6\na.jpg 2 7\na.jpg 3 8\n", "1 2 1\n1 3 0\n"), first) << "templates";
}

}  // namespace
}  // namespace xrun::cli
