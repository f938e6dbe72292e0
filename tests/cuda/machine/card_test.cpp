// The figures with which the planner plans for a card.
#include "runtime/device/cuda/machine/card.h"

#include <gmock/gmock.h>

#include "runtime/device/cuda/driver/driver_open.h"
#include "tests/cuda/planted.h"

namespace xrun::cuda {
namespace {

using ::testing::HasSubstr;

Card card_of(const std::string& name, int capability = 90) { return {.name = name, .capability = capability}; }

std::string kind_of(const std::string& name) { return figures_of(card_of(name)).gpu.name; }

TEST(CardFigures, ModulesHaveThePublishedFiguresOfTheirKind) {
  const CardFigures h100 = figures_of(card_of("NVIDIA H100 80GB HBM3"));
  EXPECT_EQ(h100.gpu, *find_gpu("h100"));
  EXPECT_EQ(h100.assumption, "");
  EXPECT_EQ(figures_of(card_of("NVIDIA H200")).assumption, "");
  EXPECT_EQ(kind_of("NVIDIA H200"), "h200");
}

TEST(CardFigures, OtherFormsOfAKindReportTheirAssumption) {
  for (const char* name : {"NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA H100-PCIE-80GB"}) {
    EXPECT_EQ(kind_of(name), "h100") << name;
    EXPECT_EQ(figures_of(card_of(name)).assumption, "planned as h100, with the published figures of the SXM module");
  }
  EXPECT_EQ(kind_of("NVIDIA H200 NVL"), "h200");
}

TEST(CardFigures, PartsOfAGpuAndSimilarNamesAreNoKind) {
  for (const char* name : {"NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA GH200 480GB", "NVIDIA H20", "Tesla H1000"}) {
    EXPECT_EQ(kind_of(name), name);
  }
}

// The expected figures are those of NVIDIA's data sheets, and the clocks are those that drivers report.
TEST(CardFigures, FiguresOfOtherCardsFollowFromTheirClocks) {
  struct Expected {
    Card card;
    double bytes, f32, bf16;
  };
  const Expected all[] = {
      {{0, "NVIDIA A100-SXM4-80GB", 80, 108, 1.41e9, 1.593e9, 5120}, 2039e9, 19.5e12, 312e12},
      {{0, "NVIDIA GeForce RTX 4090", 89, 128, 2.52e9, 10.501e9, 384}, 1008e9, 82.6e12, 165.2e12},
      {{0, "NVIDIA GeForce RTX 3090", 86, 82, 1.695e9, 9.751e9, 384}, 936e9, 35.6e12, 71e12},
      {{0, "NVIDIA L40S", 89, 142, 2.52e9, 9.001e9, 384}, 864e9, 91.6e12, 362e12},
      {{0, "NVIDIA GeForce RTX 5090", 120, 170, 2.407e9, 14.001e9, 512}, 1792e9, 104.8e12, 209.5e12},
  };
  for (const Expected& one : all) {
    const CardFigures figures = figures_of(one.card);
    EXPECT_EQ(figures.gpu.name, one.card.name);
    EXPECT_NEAR(figures.gpu.bytes_per_second, one.bytes, 0.02 * one.bytes) << one.card.name;
    EXPECT_NEAR(figures.gpu.flops_per_second_f32, one.f32, 0.02 * one.f32) << one.card.name;
    EXPECT_NEAR(figures.gpu.flops_per_second_bf16, one.bf16, 0.03 * one.bf16) << one.card.name;
  }
  EXPECT_EQ(figures_of(all[0].card).assumption,
            "planned with rates from its driver: 19.5 TFLOPS in f32, 311.9 in bf16, 2039 GB/s");
}

TEST(CardFigures, ACardWithoutClocksHasPositiveFigures) {
  const GpuDef gpu = figures_of(card_of("Orin", 87)).gpu;
  EXPECT_EQ(gpu.bytes_per_second, 100e9);
  EXPECT_EQ(gpu.flops_per_second_f32, 256e9);
  EXPECT_GT(gpu.flops_per_second_bf16, 0);
}

TEST(CardFigures, TheDriverIsAskedForItsProperties) {
  const fake::FakeDriver fake({.gpus = 2, .names = {"", "NVIDIA L4"}, .capability = 80});
  must(start_driver(fake.table()));
  const Card card = must(read_card(fake.table(), 1));
  EXPECT_EQ(card.number, 1);
  EXPECT_EQ(card.name, "NVIDIA L4");
  EXPECT_EQ(card.capability, 80);
  EXPECT_EQ(card.multiprocessors, 16);
  EXPECT_EQ(card.clock, 1.5e9);
  EXPECT_EQ(card.memory_clock, 1e9);
  EXPECT_EQ(card.bus_bits, 256);
  EXPECT_EQ(must(read_card(fake.table(), 0)).name, "xrun fake GPU 80");
  const auto none = read_card(fake.table(), 2);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, "XG0852");
}

TEST(CardFigures, AnAttributeThatTheDriverDoesNotKnowIsZero) {
  const fake::FakeDriver fake({.errors = {{"cuDeviceGetAttribute", 4, CUDA_ERROR_INVALID_VALUE}}});
  must(start_driver(fake.table()));
  const Card card = must(read_card(fake.table(), 0));
  EXPECT_EQ(card.clock, 0);
  EXPECT_EQ(card.multiprocessors, 16);
}

TEST(CardFigures, FiguresAreALineOfAPlan) {
  for (const GpuDef& gpu : {*find_gpu("h200"), figures_of(card_of("NVIDIA; a name", 89)).gpu}) {
    GpuDef with_memory = gpu;
    with_memory.memory = 12345678901;
    EXPECT_EQ(parse_gpu(print_gpu(with_memory)), with_memory);
  }
  for (const char* text : {"", "h100", "1;2;3;4;5;6;7;", "1;2;3;4;5;6;0;h100", "1;2;x;4;5;6;7;h100",
                           "1;inf;3;4;5;6;7;h", "-1;2;3;4;5;6;7;h100", "1;2;3;4;5;6;7"}) {
    EXPECT_FALSE(parse_gpu(text)) << text;
  }
}

}  // namespace
}  // namespace xrun::cuda
