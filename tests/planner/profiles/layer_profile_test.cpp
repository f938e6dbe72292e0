#include "planner/profiles/layer_profile.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace xrun::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::string layer(const std::string& name, const std::string& kind, const std::string& forward = "1.500",
                  const std::string& backward = "2.000") {
  return name + " -- " + kind + " -- forward_compute_time=" + forward + ", backward_compute_time=" + backward +
         ", activation_size=[8.0; 4.0], parameter_size=0.000\n";
}

TEST(LayerProfile, HasLayersAndEdgesInTheOrderOfTheText) {
  const auto profile = parse_profile(
      layer("node2", "Conv2d(3, 64, kernel_size=(1, 1))") + layer("node1", "Input", "9.5") + "\tnode1 -- node2\r\n\n",
      "p.txt");
  ASSERT_TRUE(profile.ok()) << profile.error().message;
  ASSERT_EQ(profile->layers.size(), 2U);
  EXPECT_EQ(profile->layers[0].name, "node2");
  EXPECT_EQ(profile->layers[0].kind, "Conv2d(3, 64, kernel_size=(1, 1))");
  EXPECT_DOUBLE_EQ(profile->layers[0].forward, 1.5e-3);
  EXPECT_DOUBLE_EQ(profile->layers[0].time(), 3.5e-3);
  EXPECT_EQ(profile->layers[1].time(), 0) << "reading the batch is no work of a stage";
  EXPECT_THAT(profile->edges, ElementsAre(Pair(1, 0)));
  EXPECT_DOUBLE_EQ(profile->time(), 3.5e-3);
}

TEST(LayerProfile, AByteOrderMarkIsSkipped) {
  const auto profile = parse_profile("\xEF\xBB\xBF" + layer("a", "Input") + layer("b", "Conv") + "\ta -- b\n", "p.txt");
  ASSERT_TRUE(profile.ok()) << profile.error().message;
  EXPECT_EQ(profile->layers[0].name, "a");
}

TEST(LayerProfile, ALongCycleIsNamedInPart) {
  std::string text;
  for (int i = 0; i < 10; ++i) {
    text += layer(fmt::format("n{}", i), "Conv");
  }
  for (int i = 0; i < 10; ++i) {
    text += fmt::format("\tn{} -- n{}\n", i, (i + 1) % 10);
  }
  const auto profile = parse_profile(text, "p.txt");
  ASSERT_FALSE(profile.ok());
  EXPECT_EQ(profile.error().message,
            "p.txt:20: the edges form a cycle: n0 -> n1 -> n2 -> n3 -> n4 -> n5 -> n6 -> ... -> n0");
}

TEST(LayerProfile, SourcesReadNoOtherLayer) {
  const auto profile =
      parse_profile(layer("a", "Input") + layer("b", "Conv") + layer("c", "ReLU") + "\ta -- b\n", "p.txt");
  ASSERT_TRUE(profile.ok()) << profile.error().message;
  EXPECT_THAT(profile->sources(), ElementsAre(2));
}

TEST(LayerProfile, FaultsNameTheirLine) {
  const std::string a = layer("a", "Conv");
  const std::string b = layer("b", "Conv");
  const std::pair<std::string, std::string> cases[] = {
      {"", "p.txt:1: the profile has no layers"},
      {"a Conv\n", "p.txt:1: neither a layer nor an edge"},
      {a + "b -- Conv -- backward_compute_time=1\n\ta -- b\n", "p.txt:2: no `forward_compute_time`"},
      {layer("a", "Conv", "-1"), "p.txt:1: `forward_compute_time=-1` is not a time in milliseconds"},
      {layer("a", "Conv", "1", "nan"), "p.txt:1: `backward_compute_time=nan` is not a time in milliseconds"},
      {layer("a", "Conv", "1e999"), "is not a time in milliseconds"},
      {a + a + "\ta -- a\n", "p.txt:2: `a` is there twice"},
      {a + b, "p.txt:2: the profile has no edges"},
      {a + b + "\ta -- c\n", "p.txt:3: there is no layer `c`"},
      {a + b + "\ta b\n", "p.txt:3: an edge needs two layers"},
      {a + b + "\ta -- b\n\tb -- a\n", "p.txt:4: the edges form a cycle: a -> b -> a"},
      {a + "\ta -- a\n", "p.txt:2: the edges form a cycle: a -> a"},
      {a + b + layer("c", "Conv") + layer("d", "Conv") + "\tb -- c\n\td -- b\n\tc -- d\n\tb -- a\n",
       "p.txt:7: the edges form a cycle: b -> c -> d -> b"},
      {layer("a", "Conv", "1e10"), "p.txt:1: `forward_compute_time=1e10` is not a time in milliseconds"},
      {layer("a", "Conv", "1.0 ms"), "p.txt:1: `forward_compute_time=1.0 ms` is not a time in milliseconds"},
      {layer("a", "Conv", "1,5"), "p.txt:1: `5` is not KEY=VALUE"},
      {layer("a", "Conv", "1, forward_compute_time=2"), "p.txt:1: `forward_compute_time` is there twice"},
  };
  for (const auto& [text, message] : cases) {
    const auto profile = parse_profile(text, "p.txt");
    ASSERT_FALSE(profile.ok()) << text;
    EXPECT_EQ(profile.error().code, "XG0631");
    EXPECT_THAT(profile.error().message, HasSubstr(message));
    EXPECT_FALSE(profile.error().help.empty());
  }
}

}  // namespace
}  // namespace xrun::planner
