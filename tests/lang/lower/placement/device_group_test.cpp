// Devices whose figures a cluster states, and the kinds of the catalogue.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/settings/gpu_def.h"
#include "lang/lower/setting_def.h"
#include "tests/lang/checked.h"

namespace xrun::lang {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Checked node(const std::string& text) { return Checked("cluster c {\n  node {\n    " + text + "\n  }\n}\n"); }

constexpr const char* kFigures = "memory = 24GB\n bandwidth = 1TB/s\n";

TEST(DeviceGroup, ItsFiguresAreThoseOfTheDevices) {
  const Checked checked = node(
      "gpus = 4\n device {\n memory = 24GB\n bandwidth = 1.5TB/s\n link = 64GB/s\n host = "
      "16GB/s\n flops {\n f32 = 60TFLOPS\n bf16 = 0.5PFLOPS\n }\n }");
  ASSERT_TRUE(checked.file) << checked.rendered();
  EXPECT_EQ(checked.module().cluster.gpu, kStatedDevice);
  EXPECT_EQ(checked.module().cluster.gpus, 4);
  const auto& device = checked.file->run.figures.device;
  ASSERT_TRUE(device);
  EXPECT_EQ(*device, (GpuDef{"device", 24'000'000'000, 1.5e12, 60e12, 500e12, kUsualLaunch, 64e9, 16e9}));
}

TEST(DeviceGroup, LinksAndRatesOfBf16HaveDefaults) {
  const Checked checked = node("device {\n memory = 24GB\n bandwidth = 1TB/s\n flops { f32 = 10TFLOPS }\n }");
  ASSERT_TRUE(checked.file) << checked.rendered();
  const GpuDef& device = *checked.file->run.figures.device;
  EXPECT_EQ(device.flops_per_second_bf16, 10e12) << "without units for bf16 its rate is that of f32";
  EXPECT_EQ(device.link_rate, kUsualLinkRate);
  EXPECT_EQ(device.host_rate, kUsualLinkRate);
}

TEST(DeviceGroup, AMissingFigureIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"device {\n bandwidth = 1TB/s\n flops { f32 = 1TFLOPS }\n }", "`device` has no `memory`"},
      {"device {\n memory = 24GB\n flops { f32 = 1TFLOPS }\n }", "`device` has no `bandwidth`"},
      {"device {\n memory = 24GB\n bandwidth = 1TB/s\n }", "`device` has no `flops`"},
      {"device {\n memory = 24GB\n bandwidth = 1TB/s\n flops { bf16 = 1TFLOPS }\n }", "`device` has no `flops.f32`"},
  };
  for (const auto& [text, message] : cases) {
    const Checked checked = node(text);
    EXPECT_THAT(checked.codes(), ElementsAre("XG0501")) << text;
    EXPECT_THAT(checked.rendered(), HasSubstr(message));
  }
}

TEST(DeviceGroup, AFigureOutsideItsRangeOrWithAnotherUnitIsRefused) {
  struct Case {
    std::string text;
    const char* code;
    const char* part;
  };
  const auto with = [](const std::string& flops) {
    return "device {\n " + std::string(kFigures) + " flops { f32 = " + flops + " }\n }";
  };
  const Case cases[] = {
      {with("1e30"), "XG0107", "has no unit"},
      {with("10GB/s"), "XG0107", "`f32` expects"},
      {with("5_000PFLOPS"), "XG0214", "write 0.001GFLOPS to 1_000PFLOPS"},
      {"device {\n memory = 1KiB\n bandwidth = 1TB/s\n flops { f32 = 1TFLOPS }\n }", "XG0214", "write 1MiB to"},
      {"device {\n memory = 24GB\n bandwidth = 1B/s\n flops { f32 = 1TFLOPS }\n }", "XG0214", "write 1MB/s to"},
      {"device {\n memory = 24GB\n bandwith = 1TB/s\n flops { f32 = 1TFLOPS }\n }", "XG0210",
       "did you mean `bandwidth`"},
      {with("1TFLOPS\n f16 = 2TFLOPS"), "XG0210", "unknown setting `f16` in `flops`"},
      {"device = h100", "XG0205", "`device` is a group"},
      {"device {\n memory = 24GB\n bandwidth = 1TB/s\n flops = 1TFLOPS\n }", "XG0205", "`flops` is a group"},
      {"gpu = h100\n " + with("1TFLOPS"), "XG0513", "leave one of them out"},
  };
  for (const Case& one : cases) {
    const Checked checked = node(one.text);
    ASSERT_FALSE(checked.codes().empty()) << one.text;
    EXPECT_EQ(checked.codes()[0], one.code) << one.text << checked.rendered();
    EXPECT_THAT(checked.rendered(), HasSubstr(one.part)) << one.text;
  }
}

TEST(Catalogue, TheSettingNamesEveryKindOfTheTable) {
  const SettingDef* gpu = find_setting(DeclKind::kCluster, "node", "gpu");
  ASSERT_NE(gpu, nullptr);
  std::vector<std::string_view> named;
  for (const SettingChoice& choice : choices_of(*gpu)) {
    if (choice.word != "none" && choice.word != "h100_80g") {
      named.push_back(choice.word);
    }
  }
  std::vector<std::string_view> kinds;
  Bytes memory = 0;
  for (const GpuDef& kind : gpu_defs()) {
    kinds.push_back(kind.name);
    EXPECT_GE(kind.memory, memory) << "kinds are in the order of their memory: " << kind.name;
    memory = kind.memory;
    EXPECT_FALSE(link_of_gpu(kind.name).empty());
    EXPECT_GE(kind.flops_per_second_bf16, kind.flops_per_second_f32) << kind.name;
    EXPECT_GE(kind.bytes_per_second, kind.link_rate) << kind.name;
  }
  EXPECT_EQ(named, kinds);
}

TEST(Catalogue, AnUnknownKindHasASuggestionAndAllNames) {
  const Checked checked = node("gpu = a100_80");
  EXPECT_THAT(checked.codes(), ElementsAre("XG0205"));
  EXPECT_THAT(checked.rendered(), HasSubstr("did you mean `a100_80g`"));
  EXPECT_THAT(checked.rendered(), HasSubstr("tpu_v2, tpu_v3, p100, v100_16g, p40, rtx_4090"));
}

TEST(Catalogue, OnlyTpusAndStatedDevicesCannotRunPrograms) {
  EXPECT_EQ(why_only_planned("tpu_v3"), "xrun has no programs for TPUs");
  EXPECT_EQ(why_only_planned(kStatedDevice),
            "its cluster states the figures of devices and does not name a kind of GPU");
  EXPECT_EQ(why_only_planned("a100_80g"), "");
  EXPECT_EQ(why_only_planned("NVIDIA L4"), "");
}

}  // namespace
}  // namespace xrun::lang
