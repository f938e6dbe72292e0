#include "runtime/data/readers/sku_tree.h"

#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <iostream>
#include <numeric>

#include "runtime/data/open_reader.h"
#include "tests/support/best_rule.h"

namespace xrun::runtime {
namespace {

struct Shop {
  int64_t classes = 1000;
  int64_t samples = 27'000;
  double noise = 0.6;
  double tail = 0.3;
  double conflicts = 0;
  int64_t seed = 1;
  int64_t dim = 64;
};

Attrs arguments(const Shop& shop) {
  return {{"classes", shop.classes},    {"samples", shop.samples}, {"dim", shop.dim},
          {"seed", shop.seed},          {"noise", shop.noise},     {"tail", shop.tail},
          {"conflicts", shop.conflicts}};
}

std::vector<float> prototype_of(const SkuTree& tree, int64_t label) {
  std::vector<float> out(static_cast<size_t>(tree.dim()));
  tree.prototype(label, out);
  return out;
}

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

TEST(SkuTree, ArticlesOfAGroupAreNearAndOfAnotherDepartmentFar) {
  const SkuTree tree(arguments({}));
  EXPECT_EQ(tree.branches(), 10);
  double siblings = 0;
  double cousins = 0;
  double strangers = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    const auto one = prototype_of(tree, i);
    EXPECT_NEAR(cosine(one, one), 1, 1e-6);
    siblings += cosine(one, prototype_of(tree, i / 10 * 10 + (i + 1) % 10)) / 1000;
    cousins += cosine(one, prototype_of(tree, i / 100 * 100 + (i + 10) % 100)) / 1000;
    strangers += cosine(one, prototype_of(tree, (i + 500) % 1000)) / 1000;
  }
  // The expected means over many trees are 1.36 / 1.52, 1 / 1.52 and 0.
  EXPECT_NEAR(siblings, 0.89, 0.02);
  EXPECT_NEAR(cousins, 0.66, 0.04);
  EXPECT_NEAR(strangers, 0, 0.1);
}

TEST(SkuTree, ClassesHaveTheFrequenciesOfTheirRanks) {
  for (const double tail : {0.0, 0.3, 0.9}) {
    const SkuTree tree(arguments({.tail = tail}));
    std::vector<int64_t> counts(1000);
    for (int64_t sample = 0; sample < tree.samples(); ++sample) {
      ++counts[static_cast<size_t>(tree.class_of(sample))];
    }
    double sum = 0;
    for (int64_t rank = 0; rank < 1000; ++rank) {
      const double wanted = tree.share_of(rank) * 27'000;
      // The samples at both ends of a class's range may be counted for a neighbouring class.
      EXPECT_NEAR(static_cast<double>(counts[static_cast<size_t>(tree.class_at(rank))]), wanted, 2)
          << "tail " << tail << ", rank " << rank;
      sum += tree.share_of(rank);
    }
    EXPECT_NEAR(sum, 1, 1e-12);
    EXPECT_NEAR(tree.share_of(0) * 1000, std::pow(1000, tail), 1e-6 * std::pow(1000, tail));
  }
}

TEST(SkuTree, FewSamplesOfManyClassesHaveTheSameFrequencies) {
  const SkuTree tree(arguments({.classes = 1'000'000, .samples = 4000}));
  std::vector<int64_t> rank_of(1'000'000);
  for (int64_t rank = 0; rank < 1'000'000; ++rank) {
    rank_of[static_cast<size_t>(tree.class_at(rank))] = rank;
  }
  double before = 0;
  for (int64_t sample = 0; sample < 4000; ++sample) {
    before += rank_of[static_cast<size_t>(tree.class_of(sample))] < 100'000 ? 1 / 4000.0 : 0;
  }
  EXPECT_NEAR(before, std::pow(0.1, 0.7), 0.001);
}

TEST(SkuTree, AcceptsHugeNumbersOfClassesAndSamples) {
  constexpr int64_t kMost = int64_t{1} << 40;
  for (const auto& [classes, samples] : std::vector<std::pair<int64_t, int64_t>>{
           {100'000'000, 2'700'000'000}, {kMost, 1}, {kMost, kMost}, {1, kMost}, {2, 5}}) {
    for (const double tail : {0.0, 0.3, 0.9}) {
      const SkuTree tree(arguments({.classes = classes, .samples = samples, .tail = tail, .conflicts = 1}));
      for (const int64_t sample : {int64_t{0}, samples / 2, samples - 1}) {
        for (const int64_t label : {tree.class_of(sample), tree.label_of(sample)}) {
          EXPECT_GE(label, 0);
          EXPECT_LT(label, classes);
        }
      }
    }
  }
  EXPECT_EQ(SkuTree(arguments({.classes = 100'000'000})).branches(), 465);
  EXPECT_EQ(SkuTree(arguments({.classes = kMost})).branches(), 10'322);
  EXPECT_EQ(SkuTree(arguments({.classes = 1})).branches(), 1);
}

TEST(SkuTree, ConflictsAreLabelsOfTheSameGroup) {
  const SkuTree tree(arguments({.conflicts = 0.25}));
  int64_t others = 0;
  for (int64_t sample = 0; sample < tree.samples(); ++sample) {
    const int64_t drawn = tree.class_of(sample);
    const int64_t label = tree.label_of(sample);
    ASSERT_EQ(label / 10, drawn / 10);
    others += label != drawn ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(others) / 27'000, 0.25, 0.01);
  EXPECT_EQ(SkuTree(arguments({})).label_of(17), SkuTree(arguments({})).class_of(17));
}

TEST(SkuTree, AnotherSeedGivesOtherSamplesOfTheSameClasses) {
  const SkuTree one(arguments({}));
  const SkuTree two(arguments({.seed = 2}));
  std::vector<float> a(64);
  std::vector<float> b(64);
  one.draw(5, a);
  two.draw(5, b);
  EXPECT_NE(a, b);
  EXPECT_EQ(prototype_of(one, 5), prototype_of(two, 5));
  EXPECT_EQ(one.class_at(5), two.class_at(5));
}

// Returns the accuracy of the Bayes rule over `count` samples of another seed.
double accuracy_of_best_rule(Shop shop, int64_t count) {
  shop.seed = 2;
  shop.samples = count;
  const SkuTree tree(arguments(shop));
  const auto dim = static_cast<size_t>(shop.dim);
  std::vector<float> means(static_cast<size_t>(shop.classes) * dim);
  std::vector<double> shares(static_cast<size_t>(shop.classes));
  for (int64_t c = 0; c < shop.classes; ++c) {
    tree.prototype(c, std::span(means).subspan(static_cast<size_t>(c) * dim, dim));
    shares[static_cast<size_t>(tree.class_at(c))] = tree.share_of(c);
  }
  for (float& v : means) {
    v *= std::sqrt(static_cast<float>(shop.dim));
  }
  std::vector<float> samples(static_cast<size_t>(count) * dim);
  for (int64_t i = 0; i < count; ++i) {
    tree.draw(i, std::span(samples).subspan(static_cast<size_t>(i) * dim, dim));
  }
  const auto labels = testing::most_probable_labels({.dim = shop.dim,
                                                     .means = means,
                                                     .shares = shares,
                                                     .deviation = shop.noise,
                                                     .group = tree.branches(),
                                                     .conflicts = shop.conflicts},
                                                    samples);
  int64_t hits = 0;
  for (int64_t i = 0; i < count; ++i) {
    hits += labels[static_cast<size_t>(i)] == tree.label_of(i) ? 1 : 0;
  }
  return static_cast<double>(hits) / static_cast<double>(count);
}

TEST(SkuTree, TheErrorOfTheBayesRuleGrowsWithNoiseAndConflicts) {
  EXPECT_GT(accuracy_of_best_rule({.noise = 0.3}, 2000), 0.999);
  const double middle = accuracy_of_best_rule({}, 2000);
  EXPECT_GT(middle, 0.95);
  EXPECT_LT(middle, 0.999);
  EXPECT_LT(accuracy_of_best_rule({.noise = 1.2}, 2000), 0.8);
  EXPECT_NEAR(accuracy_of_best_rule({.noise = 0.3, .conflicts = 0.25}, 2000), 0.75, 0.03);
  // Nine labels in ten come from the other articles of the group, so all labels of the group are equally probable.
  EXPECT_NEAR(accuracy_of_best_rule({.noise = 0.3, .conflicts = 0.9}, 2000), 0.1, 0.03);
}

// For two equally frequent classes at the distance d, the error is 1 / 2 · erfc(d / (2 sqrt(2) noise)).
TEST(SkuTree, TheBayesRuleForTwoClassesHasTheKnownError) {
  const SkuTree tree(arguments({.classes = 2}));
  const double squared = 2 * 64 * (1 - cosine(prototype_of(tree, 0), prototype_of(tree, 1)));
  const double noise = std::sqrt(squared) / 2;
  const double wanted = 1 - 0.5 * std::erfc(1 / std::sqrt(2.0));
  EXPECT_NEAR(accuracy_of_best_rule({.classes = 2, .noise = noise, .tail = 0}, 20'000), wanted, 0.01);
}

// Prints the accuracy that docs/reference/benchmarks.md reports for the tree. XRUN_SKU_CLASSES and similar variables
// choose another tree.
TEST(SkuTree, PrintsTheAccuracyOfTheBayesRule) {
  const auto number = [](const char* name, double otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtod(text, nullptr);
  };
  Shop shop;
  shop.classes = static_cast<int64_t>(number("XRUN_SKU_CLASSES", 1000));
  shop.dim = static_cast<int64_t>(number("XRUN_SKU_DIM", 64));
  shop.noise = number("XRUN_SKU_NOISE", 0.6);
  shop.tail = number("XRUN_SKU_TAIL", 0.3);
  shop.conflicts = number("XRUN_SKU_CONFLICTS", 0);
  const auto samples = static_cast<int64_t>(number("XRUN_SKU_SAMPLES", 2000));
  ASSERT_TRUE(shop.classes >= 1 && shop.dim >= 1 && shop.noise > 0 && samples >= 1);
  const double share = accuracy_of_best_rule(shop, samples);
  const double deviation = std::sqrt(share * (1 - share) / static_cast<double>(samples));
  std::cout << fmt::format(
      "sku_tree({}, dim={}, noise={}, tail={}, conflicts={}): the Bayes rule is right in {:.2f} % "
      "(± {:.2f}) of {} samples\n",
      shop.classes, shop.dim, shop.noise, shop.tail, shop.conflicts, 100 * share, 100 * deviation, samples);
  EXPECT_GT(share, 1 / static_cast<double>(shop.classes + 1));
}

TEST(SkuTree, IsASourceThatIsReportedAsSynthetic) {
  SourceSpec spec;
  spec.name = "train";
  spec.reader = {"sku_tree", arguments({}), {}};
  const auto reader = open_reader(spec);
  ASSERT_TRUE(reader.ok()) << reader.error().message;
  EXPECT_EQ((*reader)->describe(), "sku_tree: 27 000 samples of [64], 1 000 classes in groups of 10");
  FieldValue value;
  ASSERT_TRUE((*reader)->read(3, 0, value).ok());
  EXPECT_EQ(value.elements(), 64);
  ASSERT_TRUE((*reader)->read(3, 1, value).ok());
  DataSpec data;
  data.sources.push_back(spec);
  EXPECT_EQ(synthetic_sources(data), std::vector<std::string>{"train"});
}

}  // namespace
}  // namespace xrun::runtime
