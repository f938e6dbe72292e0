// Every file of models/ and the standard library passes the check with the real operators, and their tests hold.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lang/frontend.h"
#include "ops/op.h"
#include "tests/support/golden.h"

namespace xrun {
namespace {

namespace fs = std::filesystem;

std::string rendered(const Diagnostics& diagnostics, const SourceMap& sources) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics.all()) {
    text += render(diagnostic, sources);
  }
  return text;
}

TEST(Models, PassTheCheckAndTheirOwnTests) {
  int files = 0;
  int expectations = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(XRUN_SOURCE_DIR) / "models")) {
    if (entry.path().extension() != ".xgraph") {
      continue;
    }
    SourceMap sources;
    Diagnostics diagnostics;
    const auto file = lang::load(entry.path().string(), sources, diagnostics, {.ops = &ops::registry()});
    EXPECT_EQ(rendered(diagnostics, sources), "") << entry.path();
    ASSERT_TRUE(file.has_value()) << entry.path();
    for (const lang::TestResult& test : file->tests) {
      EXPECT_TRUE(test.passed) << entry.path() << ": " << test.name;
      expectations += test.expectations;
    }
    ++files;
  }
  EXPECT_GE(files, 10);
  EXPECT_GE(expectations, 8);
}

// Checkpoints and plans identify the mathematics of their run by this digest. If it changes, no existing checkpoint or
// plan can be used.
TEST(Models, MathDigestsDoNotChange) {
  std::vector<fs::path> paths;
  for (const char* folder : {"models", "tests/golden/refusals"}) {
    for (const auto& entry : fs::directory_iterator(fs::path(XRUN_SOURCE_DIR) / folder)) {
      if (entry.path().extension() == ".xgraph") {
        paths.push_back(entry.path());
      }
    }
  }
  std::sort(paths.begin(), paths.end());
  std::string digests;
  for (const fs::path& path : paths) {
    SourceMap sources;
    Diagnostics diagnostics;
    const auto file = lang::load(path.string(), sources, diagnostics, {.ops = &ops::registry()});
    digests += fmt::format("{} {}\n", path.stem().string(), file ? file->module.math_digest : "does not check");
  }
  EXPECT_TRUE(test::matches_golden(digests, "math/models.txt"));
}

TEST(Models, TrainableModelsUseNoUnavailableFeatures) {
  for (const std::string name : {"glyphs", "mnist", "omniglot", "digits", "synthetic"}) {
    SourceMap sources;
    Diagnostics diagnostics;
    const auto file = lang::load(fs::path(XRUN_SOURCE_DIR) / "models" / (name + ".xgraph"), sources, diagnostics,
                                 {.ops = &ops::registry()});
    ASSERT_TRUE(file.has_value()) << rendered(diagnostics, sources);
    EXPECT_TRUE(file->module.not_yet.empty()) << name << ": " << file->module.not_yet.front().message;
    EXPECT_TRUE(file->module.has_data && file->module.has_train) << name;
    EXPECT_FALSE(file->module.graph.loss.empty()) << name;
  }
}

TEST(Models, LayersAcceptInitialValues) {
  const auto inits_of = [](const std::string& body, std::string& faults) {
    SourceMap sources;
    Diagnostics diagnostics;
    const auto file = lang::check_text(
        "first.xgraph",
        "xgraph 1\n\nlet s = 0.01\n\nmodel m {\n  input x: f32[N, 6, 4, 4]\n  y = x -> " + body + "\n  output y\n}\n",
        sources, diagnostics, {.ops = &ops::registry()});
    std::vector<Init> inits;
    if (file) {
      for (const Parameter& param : file->module.graph.params) {
        inits.push_back(param.init);
      }
    }
    faults = rendered(diagnostics, sources);
    return inits;
  };
  std::string faults;
  const std::vector<Init> inits = inits_of(
      "conv(8, 3, init=xavier_normal()) -> dwconv(3, init=zeros) -> deconv(4, 2, stride=2, init=normal(2 * s)) "
      "-> flatten -> linear(8, bias=false, init=lecun_normal()) -> linear(8, bias=false, init=constant(0.1)) "
      "-> linear(8, bias=false, init=0.5) -> linear(8, bias=false, init=he_normal()) -> linear(8, bias=false) "
      "-> linear(8, bias=false, init=trunc_normal(s)) -> linear(8, bias=false, init=lecun_uniform())",
      faults);
  const std::vector<Init> wanted{{Init::kNormal, std::sqrt(2.0 / (54 + 72))},
                                 {Init::kConstant, 0},
                                 {Init::kNormal, 0.02},
                                 {Init::kNormal, std::sqrt(1.0 / 256)},
                                 {Init::kConstant, 0.1},
                                 {Init::kConstant, 0.5},
                                 {Init::kHeNormal, 0, 8},
                                 {Init::kHeNormal, 0, 8},
                                 {Init::kTruncNormal, 0.01},
                                 {Init::kUniform, std::sqrt(3.0 / 8)}};
  EXPECT_EQ(inits, wanted) << faults;
  for (const std::string wrong : {"glorot()", "normal(-1)", "normal", "zeros(3)", "constant()", "uniform(-1)",
                                  "trunc_normal()", "he_uniform(2)", "true"}) {
    inits_of("conv(8, init=" + wrong + ")", faults);
    EXPECT_NE(faults.find("XG0303"), std::string::npos) << wrong << "\n" << faults;
  }
}

TEST(Models, WindowsTakeOneSizeOrTwo) {
  const auto checked = [](const std::string& body) {
    SourceMap sources;
    Diagnostics diagnostics;
    const auto file = lang::check_text(
        "pairs.xgraph",
        "xgraph 1\n\nlet k = [3, 5]\n\nblock tall(x: [N, C, H, W], k: pair = 3) {\n"
        "  return x -> conv(4, k, pad=[k[0] // 2, 0])\n}\n\nmodel m {\n  input x: f32[N, 6, 8, 9]\n  y = x -> " +
            body + "\n  output y\n}\n",
        sources, diagnostics, {.ops = &ops::registry()});
    const bool good = file && diagnostics.all().empty() && !file->module.graph.outputs.empty();
    return good ? to_text(file->module.graph.value(file->module.graph.outputs[0].value).type)
                : rendered(diagnostics, sources);
  };
  EXPECT_EQ(checked("conv(4, [1, 7])"), "f32[N, 4, 8, 9]");
  EXPECT_EQ(checked("conv(4, (7, 1), stride=(2, 3), pad=[3, 0])"), "f32[N, 4, 4, 3]");
  EXPECT_EQ(checked("conv(4, k, pad=k // 2 - 1)"), "f32[N, 4, 6, 7]");
  EXPECT_EQ(checked("conv(4, [3, 3])"), checked("conv(4, 3)"));
  EXPECT_EQ(checked("tall"), "f32[N, 4, 8, 7]");
  EXPECT_EQ(checked("tall((3, 3)) -> tall([1, 2])"), "f32[N, 4, 8, 6]");
  EXPECT_THAT(checked("conv(4, [4, 2], stride=[4, 2])"), testing::HasSubstr("XG0308"));
  EXPECT_EQ(checked("dwconv([1, 5], stride=[1, 2]) -> max_pool((2, 1), stride=(2, 1))"), "f32[N, 6, 4, 5]");
  EXPECT_EQ(checked("deconv(4, [2, 3], stride=[2, 1], pad=[0, 1])"), "f32[N, 4, 16, 9]");
  EXPECT_THAT(checked("conv(4, [1, 2, 3])"),
              testing::HasSubstr("XG0205]: `k` of `conv` expects a whole number, or two such as"));
  EXPECT_THAT(checked("conv(4, [1.5, 2])"), testing::HasSubstr("XG0205"));
  EXPECT_THAT(checked("conv(4, [9, 13], pad=0)"), testing::HasSubstr("a window of 9 x 13 does not fit"));
  EXPECT_THAT(checked("conv(4, [0, 3])"), testing::HasSubstr("XG0303]: `conv` has k = 0, outside 1..4096"));
}

TEST(StandardLibrary, NetworksHaveTheirPublishedSizes) {
  SourceMap sources;
  Diagnostics diagnostics;
  const auto file = lang::check_text("sizes.xgraph", R"(xgraph 1

from "std/nets" use amoebanet_d, basic_resnet, efficientnet_b0, iresnet, mbf_large, mobilefacenet, resnet, swin, vit

test "published sizes" {
  expect params(resnet(f32[N, 3, 224, 224], [3, 4, 6, 3])) == 23_508_032
  expect params(resnet(f32[N, 3, 224, 224], [3, 4, 23, 3])) == 42_500_160
  expect params(basic_resnet(f32[N, 3, 224, 224], [2, 2, 2, 2])) == 11_176_512
  expect round(params(iresnet(f32[N, 3, 112, 112], [3, 4, 14, 3])) / 10_000) == 4_359
  expect params(vit(f32[N, 3, 224, 224], 768, 12, 12, 16)) == 86_567_656 - 769_000
  expect params(vit(f32[N, 3, 224, 224], 384, 12, 6, 16)) == 22_050_664 - 385_000
  expect params(swin(f32[N, 3, 224, 224], 96, [2, 2, 6, 2], [3, 6, 12, 24])) == 28_288_354 - 769_000
  expect params(efficientnet_b0(f32[N, 3, 224, 224])) == 5_288_548 - 1_281_000
  expect params(mobilefacenet(f32[N, 3, 112, 112])) == 1_003_136
  expect params(mobilefacenet(f32[N, 3, 112, 112], 512, scale=2)) == 2_059_520
  expect params(mbf_large(f32[N, 3, 112, 112])) == 6_314_880
  expect params(amoebanet_d(f32[N, 3, 224, 224], 18, 208)) == 81_505_540 - 3_329_000
  expect params(amoebanet_d(f32[N, 3, 224, 224], 18, 416)) == 319_024_120 - 6_657_000
}
)",
                                     sources, diagnostics, {.ops = &ops::registry()});
  ASSERT_TRUE(file.has_value()) << rendered(diagnostics, sources);
  EXPECT_TRUE(file->tests.at(0).passed);
}

}  // namespace
}  // namespace xrun
