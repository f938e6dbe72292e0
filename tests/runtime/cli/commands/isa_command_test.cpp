// Runs the whole binary under each instruction set, chosen by XRUN_ISA: those of the processor train, and the others
// are rejected.
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/support/command.h"
#include "tests/support/tiny_model.h"

namespace xrun::testing {
namespace {

using ::testing::HasSubstr;

// Reads the kernel's list of processor features, to be independent of our own detection.
bool has(const std::string& isa) {
  std::ifstream in("/proc/cpuinfo");
  std::set<std::string> flags;
  for (std::string line; flags.empty() && std::getline(in, line);) {
    if (line.starts_with("flags")) {
      std::istringstream words(line.substr(line.find(':') + 1));
      for (std::string word; words >> word;) {
        flags.insert(word);
      }
    }
  }
  const auto all = [&](std::initializer_list<const char*> names) {
    return std::all_of(names.begin(), names.end(), [&](const char* name) { return flags.contains(name); });
  };
  const bool avx512 = all({"avx512f", "avx512bw", "avx512vl", "avx512dq"});
  return isa == "avx2"          ? all({"avx2", "fma"})
         : isa == "avx512"      ? avx512
         : isa == "avx512_bf16" ? avx512 && all({"avx512_bf16"})
                                : avx512 && all({"avx512_bf16", "amx_tile", "amx_bf16"});
}

class Isa : public ::testing::TestWithParam<const char*> {
 protected:
  CommandResult run(const std::vector<std::string>& words) {
    return run_xrun(words, {.directory = directory.path(), .environment = {{"XRUN_ISA", GetParam()}}});
  }
  TemporaryDirectory directory;
};

TEST_P(Isa, TheProgramTrainsWithIt) {
  const std::string isa = GetParam();
  if (!has(isa)) {
    GTEST_SKIP() << "this processor lacks " << isa;
  }
  const auto doctor = run({"doctor"});
  ASSERT_EQ(doctor.exit, 0) << doctor.err;
  EXPECT_THAT(doctor.out, HasSubstr("isa      " + isa + ","));
  directory.write("tiny.xgraph", tiny_model());
  for (const std::string precision : {"f32", "mixed(bf16)"}) {
    const auto result = run({"train", "tiny.xgraph", "--progress", "json", "--set", "train.precision=" + precision,
                             "--set", "train.log.every=1 steps", "-C", precision});
    ASSERT_EQ(result.exit, 0) << precision << result.err;
    std::vector<double> losses;
    std::string line;
    for (std::istringstream in(result.out); std::getline(in, line);) {
      const auto event = nlohmann::json::parse(line);
      if (event.at("t") == "step") {
        losses.push_back(event.at("loss"));
      }
    }
    ASSERT_EQ(losses.size(), 60u) << precision;
    EXPECT_LT(losses.back(), 0.7 * losses.front()) << precision;
  }
  EXPECT_THAT(read_file(directory.path() + "/f32/ckpt/quick/step-000060/manifest.json"),
              HasSubstr(R"("isa": ")" + isa + '"'));
}

TEST_P(Isa, IsRejectedOnAProcessorWithoutIt) {
  const std::string isa = GetParam();
  if (has(isa)) {
    GTEST_SKIP() << "this processor has " << isa;
  }
  directory.write("tiny.xgraph", tiny_model());
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"doctor"}, std::vector<std::string>{"train", "tiny.xgraph"}}) {
    const auto result = run(words);
    EXPECT_EQ(result.exit, 2) << words[0];
    EXPECT_THAT(result.err, HasSubstr("XG0802"));
    EXPECT_THAT(result.err, HasSubstr("asks for " + isa + ", which this processor"));
  }
}

INSTANTIATE_TEST_SUITE_P(Command, Isa, ::testing::Values("avx2", "avx512", "avx512_bf16", "amx"),
                         [](const auto& one) { return std::string(one.param); });

TEST(IsaName, UnknownNamesAreRefusedWithTheKnownOnes) {
  const auto result = run_xrun({"doctor"}, {.environment = {{"XRUN_ISA", "sse2"}}});
  EXPECT_EQ(result.exit, 2);
  EXPECT_THAT(result.err, HasSubstr("`sse2` is not an instruction set"));
  EXPECT_THAT(result.err, HasSubstr("avx2, avx512, avx512_bf16, amx"));
}

}  // namespace
}  // namespace xrun::testing
