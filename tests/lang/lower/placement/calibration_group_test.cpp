// The measured times of a node in the text of its cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lang/checked.h"

namespace xrun::lang {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Checked calibration(const std::string& text) {
  return Checked("cluster c {\n  node {\n    cpu = zen\n    calibration {\n" + text + "\n    }\n  }\n}\n");
}

TEST(CalibrationGroup, ItsFiguresAreRead) {
  const Checked checked = calibration(R"(
      instructions = avx512
      bandwidth = [10GB/s, 18GB/s]
      slow_down = [1, 1.25]
      update = 9GB/s
      hand_over = 4us
      copy = [4us, 8GB/s]
      all_gather = [5us, 7GB/s]
      reduce_scatter = [6us, 6GB/s]
      decode = 9ns
      head {
        f32 = 100GFLOPS
        bf16 = 400GFLOPS
      }
      f32 {
        conv = [[1e6, 2_000B, 10us], [4e6, 8_000B, 30us]]
        conv1x1_dx = [[1e6, 2_000B, 20us]]
      }
      bf16 {
        conv = [[1e6, 1_000B, 5us]]
      })");
  ASSERT_TRUE(checked.file) << checked.rendered();
  const auto& found = checked.file->run.figures.calibration;
  ASSERT_TRUE(found);
  EXPECT_EQ(found->instructions, "avx512");
  EXPECT_THAT(found->bandwidth, ElementsAre(10e9, 18e9));
  EXPECT_THAT(found->slow_down, ElementsAre(1, 1.25));
  EXPECT_DOUBLE_EQ(found->update, 9e9);
  EXPECT_DOUBLE_EQ(*found->hand_over, 4e-6);
  EXPECT_DOUBLE_EQ(found->copy.rate, 8e9);
  EXPECT_DOUBLE_EQ(found->all_gather.start, 5e-6);
  EXPECT_DOUBLE_EQ(found->reduce_scatter.rate, 6e9);
  EXPECT_DOUBLE_EQ(found->decode, 9e-9);
  EXPECT_DOUBLE_EQ(found->head_bf16, 400e9);
  ASSERT_EQ(found->f32.at("conv").size(), 2U);
  EXPECT_DOUBLE_EQ(found->f32.at("conv")[1].flops, 4e6);
  EXPECT_DOUBLE_EQ(found->f32.at("conv")[1].bytes, 8000);
  EXPECT_DOUBLE_EQ(found->f32.at("conv")[1].time, 30e-6);
  EXPECT_EQ(found->f32.at("conv1x1_dx").size(), 1U);
  EXPECT_DOUBLE_EQ(found->bf16.at("conv")[0].time, 5e-6);
}

TEST(CalibrationGroup, AbsurdFiguresAreRefusedWithPlaceAndRange) {
  struct Case {
    const char* text;
    const char* code;
    const char* part;
  };
  const Case cases[] = {
      {"bandwidth = [10GB/s, 1B/s]", "XG0214", "write 1MB/s to 1_000TB/s"},
      {"bandwidth = 10GB/s", "XG0205", "`bandwidth` expects a list of figures"},
      {"bandwidth = []", "XG0205", "write bandwidth = [10GB/s, 18GB/s]"},
      {"bandwidth = [10]", "XG0107", "has no unit"},
      {"slow_down = [1, 5_000]", "XG0214", "write 0.1 to 1000"},
      {"slow_down = [1us]", "XG0205", "expects a number without a unit"},
      {"hand_over = 2d", "XG0214", "write 0s to 1h"},
      {"decode = 5s", "XG0214", "write 0.001ns to 1ms"},
      {"all_gather = [5us]", "XG0205", "write all_gather = [8us, 12GB/s]"},
      {"all_gather = [5us, 9us]", "XG0107", "`all_gather` expects"},
      {"f32 {\n conv = [[1e30, 20B, 1us]]\n }", "XG0214", "write 0 to 1e18"},
      {"f32 {\n conv = [[1e6, 20B, 0s]]\n }", "XG0214", "write 1ns to 1h"},
      {"f32 {\n conv = [[1e6, 20B]]\n }", "XG0205", "write conv = [[1.2e6, 40960B, 31us]]"},
      {"f32 = 3", "XG0205", "`f32` is a group"},
      {"head {\n f16 = 1GFLOPS\n }", "XG0210", "unknown setting `f16` in `head`"},
      {"bandwith = [10GB/s]", "XG0210", "did you mean `bandwidth`"},
  };
  for (const Case& one : cases) {
    const Checked checked = calibration(std::string("instructions = amx\n") + one.text);
    ASSERT_FALSE(checked.codes().empty()) << one.text;
    EXPECT_EQ(checked.codes()[0], one.code) << one.text << checked.rendered();
    EXPECT_THAT(checked.rendered(), HasSubstr(one.part)) << one.text;
    EXPECT_THAT(checked.rendered(), HasSubstr("test.xgraph:")) << one.text;
  }
}

TEST(CalibrationGroup, ItNamesItsInstructionSet) {
  EXPECT_THAT(calibration("update = 9GB/s").codes(), ElementsAre("XG0501"));
  EXPECT_THAT(Checked("cluster c {\n node {\n calibration = here\n }\n}\n").codes(), ElementsAre("XG0205"));
}

TEST(CalibrationGroup, ItDoesNotGoWithGpus) {
  const Checked checked =
      Checked("cluster c {\n node {\n gpu = h100\n calibration {\n instructions = amx\n }\n }\n}\n");
  EXPECT_THAT(checked.codes(), ElementsAre("XG0513"));
  EXPECT_THAT(checked.rendered(), HasSubstr("`calibration` is about processors, but the devices are h100 GPUs"));
}

}  // namespace
}  // namespace xrun::lang
