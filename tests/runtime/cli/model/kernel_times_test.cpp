// Measured kernel times are kept between runs: they are read as they were written, and any other file is replaced.
#include "runtime/cli/model/kernel_times.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/command.h"
#include "tests/support/tiny_model.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;
using testing::CommandResult;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::read_file;
using testing::run_xrun;
using testing::TemporaryDirectory;

const std::string kOrigin = "avx2, a processor, oneDNN 0, xrun of 1 bytes";

ops::KernelTimes some_times() {
  return {{"relu() f32[N, 8] -> f32[N, 8], 8 rows", {.seconds = 3.0000000000000004e-05, .used = true}},
          {"bn(eps=1e-05) f32[N, 8] -> f32[N, 8], 8 rows, training", {.seconds = 0.1, .used = false}},
          {"head of 70 classes, 8 dims, 256 rows", {.seconds = 0, .used = true}}};
}

std::vector<std::pair<std::string, Seconds>> pairs(const ops::KernelTimes& times) {
  std::vector<std::pair<std::string, Seconds>> out;
  for (const auto& [kernel, time] : times) {
    out.emplace_back(kernel, time.seconds);
  }
  return out;
}

TEST(KernelTimes, AreReadBackExactlyAndMarkedAsKnown) {
  const auto again = parse_kernel_times(print_kernel_times(some_times(), kOrigin), kOrigin);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(pairs(*again), pairs(some_times()));
  for (const auto& [kernel, time] : *again) {
    EXPECT_TRUE(time.known && !time.used) << kernel;
  }
}

TEST(KernelTimes, MalformedTextIsRefused) {
  const std::string head = "xrun kernel times 1\n" + kOrigin + "\n";
  EXPECT_TRUE(parse_kernel_times(head, kOrigin).has_value());
  EXPECT_TRUE(parse_kernel_times(head + "0.5 a()\n1 b()\n", kOrigin).has_value());
  for (const std::string lines :
       {"0.5 a()", "x a()\n", "-1 a()\n", "nan a()\n", "inf a()\n", "1e999 a()\n", "0.50 a()\n", "0.5\n", "\n", " \n",
        "0.5 b()\n0.5 a()\n", "0.5 a()\n0.5 a()\n", "0.5x a()\n"}) {
    EXPECT_FALSE(parse_kernel_times(head + lines, kOrigin).has_value()) << lines;
  }
  EXPECT_FALSE(parse_kernel_times("xrun kernel times 2\n" + kOrigin + "\n", kOrigin).has_value());
  EXPECT_FALSE(parse_kernel_times(head, kOrigin + "2").has_value()) << "times of another build";
}

TEST(KernelTimes, TheOriginDependsOnInstructionSetAndProcessor) {
  EXPECT_NE(times_origin(ops::Isa::kAvx2, "a"), times_origin(ops::Isa::kAvx512, "a"));
  EXPECT_NE(times_origin(ops::Isa::kAvx2, "a"), times_origin(ops::Isa::kAvx2, "b"));
  EXPECT_EQ(times_origin(ops::Isa::kAvx2, "a"), times_origin(ops::Isa::kAvx2, "a"));
}

TEST(KernelTimes, AnyDamageOfTheFileIsDetected) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/sub/times";
  store_kernel_times(path, kOrigin, some_times());
  const std::string good = read_file(path);
  ASSERT_EQ(pairs(load_kernel_times(path, kOrigin)), pairs(some_times()));
  EXPECT_TRUE(load_kernel_times(path, "another").empty());
  EXPECT_TRUE(load_kernel_times(directory.path(), kOrigin).empty()) << "a directory";
  const auto is_seen = [&] { return load_kernel_times(path, kOrigin).empty(); };
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    const auto at = static_cast<std::streamoff>(bit / 8);
    file.seekp(at).put(static_cast<char>(good[bit / 8] ^ (1 << bit % 8))).flush();
    ASSERT_TRUE(is_seen()) << "bit " << bit;
    file.seekp(at).put(good[bit / 8]).flush();
  }
  ASSERT_EQ(read_file(path), good);
  file.seekp(0, std::ios::end).put('x').flush();
  EXPECT_TRUE(is_seen()) << "a byte more";
  for (size_t size = good.size(); size-- > 0;) {
    fs::resize_file(path, size);
    ASSERT_TRUE(is_seen()) << size << " bytes";
  }
  store_kernel_times(path, kOrigin, some_times());
  EXPECT_EQ(read_file(path), good) << "what was damaged is replaced";
  EXPECT_EQ(std::distance(fs::directory_iterator(fs::path(path).parent_path()), {}), 1) << "nothing else is left";
}

TEST(KernelTimes, OnlyTimesOfThisRunAreStoredIfAllWouldBeTooMany) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/times";
  ops::KernelTimes many = some_times();
  for (int i = 0; i < 5000; ++i) {
    many.emplace(std::string(1000, 'x') + std::to_string(i), ops::KernelTime{.seconds = 1, .known = true});
  }
  store_kernel_times(path, kOrigin, many);
  EXPECT_EQ(load_kernel_times(path, kOrigin).size(), 2u);
  // A file above the size limit is not read at all.
  std::ofstream(path, std::ios::binary | std::ios::app) << std::string(5 << 20, '\0');
  EXPECT_TRUE(load_kernel_times(path, kOrigin).empty());
}

TEST(KernelTimes, AreNotKeptWithoutADirectory) {
  store_kernel_times("", kOrigin, some_times());
  EXPECT_TRUE(load_kernel_times("", kOrigin).empty());
  store_kernel_times("/dev/null/xrun/times", kOrigin, some_times());
  EXPECT_TRUE(load_kernel_times("/dev/null/xrun/times", kOrigin).empty());
}

class MeasuredCost : public ::testing::Test {
 protected:
  MeasuredCost() { directory.write("tiny.xgraph", testing::tiny_model()); }

  // The memory is set, because plans print it and the free memory of the machine may change between two plans.
  CommandResult plan(const std::vector<std::pair<std::string, std::string>>& environment = {},
                     const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{"plan", "tiny.xgraph", "--cost", "measured", "--set", "cluster.node.memory=1GiB"};
    words.insert(words.end(), more.begin(), more.end());
    auto all = environment;
    all.emplace_back("XDG_CACHE_HOME", directory.path() + "/cache");
    const auto result = run_xrun(words, {.directory = directory.path(), .environment = all});
    EXPECT_EQ(result.exit, 0) << result.err;
    return result;
  }
  std::vector<std::string> kept() const {
    std::vector<std::string> paths;
    for (const auto& entry : fs::directory_iterator(directory.path() + "/cache/xrun")) {
      paths.push_back(entry.path().string());
    }
    return paths;
  }
  TemporaryDirectory directory;
};

TEST_F(MeasuredCost, TheSecondPlanReusesTheTimesOfTheFirst) {
  const auto first = plan();
  EXPECT_EQ(first.err, "");
  ASSERT_EQ(kept().size(), 1u);
  const std::string content = read_file(kept()[0]);
  const auto written = fs::last_write_time(kept()[0]);
  const auto second = plan();
  EXPECT_EQ(second.out, first.out) << "the same plan, id and predicted times";
  const auto kernels = std::to_string(std::ranges::count(content, '\n') - 2);
  EXPECT_EQ(second.err, "note: " + kernels + " of " + kernels + " measured times are from " + kept()[0] +
                            "; remove it to measure again\n");
  EXPECT_EQ(fs::last_write_time(kept()[0]), written);
  // Predictions use these times: if the kernels are a thousand times slower, the predictions change.
  std::string origin = content.substr(content.find('\n') + 1);
  origin.resize(origin.find('\n'));
  auto slow = load_kernel_times(kept()[0], origin);
  for (auto& [kernel, time] : slow) {
    time.seconds *= 1000;
  }
  store_kernel_times(kept()[0], origin, slow);
  EXPECT_NE(plan().out, first.out);
}

TEST_F(MeasuredCost, OnlyKernelsThatAreNewAreMeasured) {
  plan();
  const std::string before = read_file(kept()[0]);
  std::string more = testing::tiny_model();  // other classes give another head and other data
  for (size_t at = 0; (at = more.find("37", at)) != std::string::npos;) {
    more.replace(at, 2, "75");
  }
  directory.write("tiny.xgraph", more);
  const auto wider = plan();
  const auto backbone = std::to_string(std::ranges::count(before, '\n') - 4);
  EXPECT_THAT(wider.err, HasSubstr("note: " + backbone + " of "));
  EXPECT_GT(read_file(kept()[0]).size(), before.size());
}

TEST_F(MeasuredCost, ADamagedFileIsReplacedByNewMeasurements) {
  plan();
  const std::string path = kept()[0];
  const auto size = fs::file_size(path);
  fs::resize_file(path, size / 2);
  EXPECT_EQ(plan().err, "");
  EXPECT_THAT(plan().err, HasSubstr("are from " + path));
}

TEST_F(MeasuredCost, AnotherInstructionSetHasTimesOfItsOwn) {
  plan({{"XRUN_ISA", "avx2"}});
  const std::string path = kept()[0];
  EXPECT_THAT(read_file(path), HasSubstr("\navx2, "));
  if (ops::choose_isa().value() == ops::Isa::kAvx2) {
    GTEST_SKIP() << "this processor has no other";
  }
  EXPECT_EQ(plan().err, "");
  EXPECT_EQ(kept().size(), 2u);
  EXPECT_THAT(plan({{"XRUN_ISA", "avx2"}}).err, HasSubstr("are from " + path));
}

TEST_F(MeasuredCost, ACacheThatCannotBeWrittenIsNoError) {
  directory.write("cache", "a file where a directory should be");
  EXPECT_EQ(plan().err, "");
  EXPECT_EQ(plan().err, "");
}

TEST_F(MeasuredCost, JsonAndQuietDoNotMentionTheCache) {
  plan();
  EXPECT_EQ(plan({}, {"--format", "json"}).err, "");
  EXPECT_EQ(plan({}, {"--quiet"}).err, "");
}

TEST_F(MeasuredCost, RunningAPlanMeasuresNothing) {
  plan();
  fs::remove_all(directory.path() + "/cache");
  const auto result =
      run_xrun({"train", "tiny.xplan", "--progress", "none", "--steps", "1"},
               {.directory = directory.path(), .environment = {{"XDG_CACHE_HOME", directory.path() + "/cache"}}});
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_FALSE(fs::exists(directory.path() + "/cache"));
}

}  // namespace
}  // namespace xrun::runtime
