// Networks built from operators alone have their published shapes and sizes; the parameters are those that infer
// declares.
#include <gtest/gtest.h>

#include "graph/graph.h"
#include "ops/op.h"

namespace xrun::ops {
namespace {

// Chains calls by name and counts trained elements.
class Chain {
 public:
  explicit Chain(std::vector<int64_t> dims) {
    TensorType type;
    type.dims = std::move(dims);
    at_ = graph_.add_input("image", type);
  }
  Chain& call(std::string_view op, Attrs attrs = {}) {
    auto node =
        call_op(graph_, find_op(op)->def, {at_}, std::move(attrs), "n" + std::to_string(graph_.nodes.size()), Span{});
    EXPECT_TRUE(node.ok()) << node.error().message;
    at_ = graph_.node(*node).outputs[0];
    return *this;
  }
  Chain& conv(int64_t width, int64_t k, int64_t stride, bool bias = false, int64_t pad = -1) {
    return call("conv", {{"width", width},
                         {"k", k},
                         {"stride", stride},
                         {"pad", pad < 0 ? k / 2 : pad},
                         {"dilation", int64_t{1}},
                         {"groups", int64_t{1}},
                         {"bias", bias}});
  }
  Chain& bn() { return call("bn", {{"momentum", 0.1}, {"eps", 1e-5}}); }
  Chain& add(ValueId other) {
    auto node =
        call_op(graph_, find_op("add")->def, {at_, other}, {}, "n" + std::to_string(graph_.nodes.size()), Span{});
    EXPECT_TRUE(node.ok()) << node.error().message;
    at_ = graph_.node(*node).outputs[0];
    return *this;
  }
  ValueId at() const { return at_; }
  Chain& go_to(ValueId value) {
    at_ = value;
    return *this;
  }
  const Graph& graph() const { return graph_; }
  std::string shape() const { return to_text(graph_.value(at_).type); }

 private:
  Graph graph_;
  ValueId at_;
};

TEST(Models, ResNet50HasItsPublishedSize) {
  Chain net({kBatch, 3, 224, 224});
  net.conv(64, 7, 2).bn().call("relu").call("max_pool",
                                            {{"k", int64_t{3}}, {"stride", int64_t{2}}, {"pad", int64_t{1}}});
  EXPECT_EQ(net.shape(), "f32[N, 64, 56, 56]");
  const std::vector<std::pair<int64_t, int>> stages{{64, 3}, {128, 4}, {256, 6}, {512, 3}};
  for (const auto& [width, depth] : stages) {
    for (int i = 0; i < depth; ++i) {
      const int64_t stride = i == 0 && width != 64 ? 2 : 1;
      const ValueId x = net.at();
      net.conv(width, 1, 1).bn().call("relu").conv(width, 3, stride).bn().call("relu").conv(4 * width, 1, 1).bn();
      const ValueId y = net.at();
      ValueId skip = x;
      if (i == 0) {
        skip = net.go_to(x).conv(4 * width, 1, stride).bn().at();
      }
      net.go_to(y).add(skip).call("relu");
    }
  }
  net.call("global_avg_pool");
  EXPECT_EQ(net.shape(), "f32[N, 2048]");
  EXPECT_EQ(net.graph().parameter_count(), 23'508'032);
}

TEST(Models, VitB16HasItsPublishedSize) {
  Chain net({kBatch, 3, 224, 224});
  net.conv(768, 16, 16, true, 0)
      .call("flatten", {{"from", int64_t{2}}})
      .call("transpose", {{"a", int64_t{1}}, {"b", int64_t{2}}});
  net.call("class_token").call("position_embedding");
  EXPECT_EQ(net.shape(), "f32[N, 197, 768]");
  for (int i = 0; i < 12; ++i) {
    ValueId x = net.at();
    net.call("layer_norm", {{"eps", 1e-6}})
        .call("attention", {{"heads", int64_t{12}}, {"qkv_bias", true}})
        .call("drop_path", {{"p", 0.1}})
        .add(x);
    x = net.at();
    net.call("layer_norm", {{"eps", 1e-6}})
        .call("linear", {{"out", int64_t{3072}}, {"bias", true}})
        .call("gelu")
        .call("linear", {{"out", int64_t{768}}, {"bias", true}})
        .add(x);
  }
  net.call("layer_norm", {{"eps", 1e-6}})
      .call("take", {{"i", int64_t{0}}})
      .call("linear", {{"out", int64_t{1000}}, {"bias", true}});
  EXPECT_EQ(net.shape(), "f32[N, 1000]");
  EXPECT_EQ(net.graph().parameter_count(), 86'567'656);
}

}  // namespace
}  // namespace xrun::ops
