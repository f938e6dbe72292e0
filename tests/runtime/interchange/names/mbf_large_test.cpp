// The tensors of InsightFace's mbf_large, with the names and shapes that its class MobileFaceNet gives them
// (recognition/arcface_torch/backbones/mobilefacenet.py), find their places in `mbf_large` of std/nets.
#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "lang/frontend.h"
#include "ops/catalog.h"
#include "runtime/interchange/import/match_tensors.h"
#include "runtime/interchange/names/name_tables.h"

namespace xrun::runtime {
namespace {

using ::testing::IsEmpty;

class Tensors {
 public:
  std::vector<ForeignTensor> take() { return std::move(all_); }

  void add(const std::string& name, std::vector<int64_t> dims) {
    all_.push_back({name, std::move(dims), 0, all_.size()});
  }
  void norm(const std::string& name, int64_t channels) {
    for (const char* part : {"weight", "bias", "running_mean", "running_var"}) {
      add(name + "." + part, {channels});
    }
    add(name + ".num_batches_tracked", {});
  }
  void linear(const std::string& name, int64_t from, int64_t to, int64_t k) {
    add(name + ".layers.0.weight", {to, from, k, k});
    norm(name + ".layers.1", to);
  }
  void conv(const std::string& name, int64_t from, int64_t to, int64_t k) {
    linear(name, from, to, k);
    add(name + ".layers.2.weight", {to});
  }
  void unit(const std::string& name, int64_t from, int64_t to, int64_t inner) {
    conv(name + ".layers.0", from, inner, 1);
    conv(name + ".layers.1", 1, inner, 3);
    linear(name + ".layers.2", inner, to, 1);
  }
  void units(const std::string& name, int64_t count, int64_t width, int64_t inner) {
    for (int64_t i = 0; i < count; ++i) {
      unit(name + ".layers." + std::to_string(i), width, width, inner);
    }
  }

 private:
  std::vector<ForeignTensor> all_;
};

TEST(MbfLarge, EveryTensorOfInsightfaceHasItsPlace) {
  Tensors made;
  made.conv("layers.0", 3, 256, 3);
  made.units("layers.1", 2, 256, 128);
  made.unit("layers.2", 256, 256, 128);
  made.units("layers.3", 8, 256, 128);
  made.unit("layers.4", 256, 512, 256);
  made.units("layers.5", 12, 512, 256);
  made.unit("layers.6", 512, 512, 512);
  made.units("layers.7", 4, 512, 256);
  made.conv("conv_sep", 512, 512, 1);
  made.linear("features.layers.0", 1, 512, 7);
  made.add("features.layers.2.weight", {512, 512});
  made.norm("features.layers.3", 512);
  const std::vector<ForeignTensor> tensors = made.take();

  SourceMap sources;
  Diagnostics diagnostics;
  const auto file = lang::check_text("m.xgraph",
                                     "xgraph 1\nfrom \"std/nets\" use mbf_large\nmodel m {\n"
                                     "  input image: f32[N, 3, 112, 112]\n"
                                     "  y = image -> mbf_large as backbone\n  output y\n}\n",
                                     sources, diagnostics, {.ops = &ops::registry()});
  ASSERT_TRUE(file.has_value());
  const ModelForm form = form_of(file->module.graph);
  const ModelNames names(form);
  const NameTable table = known_table("insightface_mobilefacenet");
  const auto choice = choose_table(std::vector{table}, tensors, names, {}, "w.pth");
  ASSERT_TRUE(choice.ok()) << choice.error().message;
  EXPECT_EQ(choice->place, "backbone");
  const MatchedTensors matched = match_tensors(table, choice->place, tensors, form, names, {});
  EXPECT_THAT(matched.missing, IsEmpty());
  EXPECT_THAT(matched.left_over, IsEmpty());
  EXPECT_THAT(matched.misfits, IsEmpty());
  EXPECT_EQ(matched.fits.size(), form.tensors.size());
  // Norms with 512 channels have the same shape, so their order is compared by name.
  for (const auto& [ours, theirs] :
       {std::pair("backbone.bn.weight", "layers.0.layers.1.weight"),
        {"backbone.stage0.repeat.0.inverted.bn_2.bias", "layers.1.layers.1.layers.1.layers.1.bias"},
        {"backbone.stage5.inverted.conv_2.weight", "layers.7.layers.0.layers.2.layers.0.weight"},
        {"backbone.bn_3.weight", "conv_sep.layers.1.weight"},
        {"backbone.prelu_3.slope", "conv_sep.layers.2.weight"},
        {"backbone.bn_4.weight", "features.layers.0.layers.1.weight"},
        {"backbone.bn_5.weight", "features.layers.3.weight"}}) {
    const int64_t place = names.find(ours);
    ASSERT_GE(place, 0) << ours;
    const auto fit = std::ranges::find(matched.fits, static_cast<size_t>(place), &Fit::to);
    ASSERT_NE(fit, matched.fits.end()) << ours;
    EXPECT_EQ(tensors[fit->from[0]].name, theirs) << ours;
  }
}

}  // namespace
}  // namespace xrun::runtime
