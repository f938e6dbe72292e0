// The balanced order of samples (docs/internals/determinism.md, "Order of samples"). loader_test.cpp tests the
// other orders.
#include "runtime/data/order/sample_order.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <set>

#include "tests/runtime/data/data_support.h"

namespace xrun::runtime {
namespace {

using namespace testing;

// Returns a shuffled long tail of labels: class c has 40 / (c + 1) samples, class 3 has no samples, and every tenth
// sample has no class.
std::vector<int32_t> long_tail() {
  std::vector<int32_t> classes;
  for (int32_t i = 0; i < 40; ++i) {
    for (const int32_t c : {0, 1, 2, 4, 7}) {
      if (i % (c + 1) == 0) {
        classes.push_back(c);
      }
    }
    classes.push_back(i % 10 == 0 ? -1 : 0);
  }
  return classes;
}

SampleSequence balanced(uint64_t seed = 5) {
  const std::vector<int32_t> classes = long_tail();
  return {SampleOrder::kBalanced, std::ssize(classes), seed, classes};
}

TEST(BalancedOrder, EachRoundHasEveryClassOnceInAnOrderOfItsOwn) {
  const std::vector<int32_t> classes = long_tail();
  const SampleSequence order = balanced();
  std::set<std::vector<int32_t>> orders;
  for (int64_t round = 0; round < 50; ++round) {
    std::vector<int32_t> found;
    for (int64_t i = 0; i < 5; ++i) {
      found.push_back(classes[static_cast<size_t>(order.at(5 * round + i).sample)]);
    }
    orders.insert(found);
    std::ranges::sort(found);
    EXPECT_EQ(found, (std::vector<int32_t>{0, 1, 2, 4, 7})) << round;
  }
  EXPECT_GT(orders.size(), 20U) << "of 120 orders";
}

TEST(BalancedOrder, AllSamplesOfAClassComeBeforeOneComesAgain) {
  const std::vector<int32_t> classes = long_tail();
  const SampleSequence order = balanced();
  const auto count = [&](int32_t c) { return std::ranges::count(classes, c); };
  std::map<int64_t, int64_t> seen;
  std::map<int32_t, std::set<std::vector<int64_t>>> passes;
  std::map<int32_t, std::vector<int64_t>> pass;
  const int64_t rounds = 4 * count(0);
  for (int64_t p = 0; p < 5 * rounds; ++p) {
    const SamplePlace place = order.at(p);
    EXPECT_EQ(place.epoch, p / std::ssize(classes));
    EXPECT_EQ(place.position, p % std::ssize(classes));
    EXPECT_EQ(place.pass, seen[place.sample]++) << "how often it was drawn before";
    const int32_t c = classes[static_cast<size_t>(place.sample)];
    pass[c].push_back(place.sample);
    if (std::ssize(pass[c]) == count(c)) {
      passes[c].insert(std::exchange(pass[c], {}));
    }
  }
  for (const int32_t c : {0, 1, 2, 4, 7}) {
    const int64_t each = rounds / count(c);
    for (size_t i = 0; i < classes.size(); ++i) {
      if (classes[i] == c) {
        EXPECT_GE(seen[static_cast<int64_t>(i)], each);
        EXPECT_LE(seen[static_cast<int64_t>(i)], each + 1);
      }
    }
    EXPECT_GT(std::ssize(passes[c]), each / 2) << "each pass has an order of its own";
  }
  EXPECT_EQ(seen.contains(std::ranges::find(classes, -1) - classes.begin()), false) << "of no class";
}

TEST(BalancedOrder, IsDeterminedByTheSeed) {
  const auto samples = [](uint64_t seed) {
    const SampleSequence order = balanced(seed);
    std::vector<int64_t> found;
    for (int64_t p = 0; p < 100; ++p) {
      found.push_back(order.at(p).sample);
    }
    return found;
  };
  EXPECT_EQ(samples(5), samples(5));
  EXPECT_NE(samples(5), samples(6));
}

TEST(BalancedOrder, BrokenSamplesAreReplacedByOnesOfTheirClassAndAtLastByAny) {
  const std::vector<int32_t> classes = long_tail();
  const SampleSequence order = balanced();
  std::set<int32_t> any;
  for (int64_t p = 0; p < 60; ++p) {
    const SamplePlace place = order.at(p);
    const int32_t c = classes[static_cast<size_t>(place.sample)];
    std::set<int64_t> found;
    for (uint64_t attempt = 0; attempt < 32; ++attempt) {
      found.insert(order.substitute(place, attempt));
      EXPECT_EQ(classes[static_cast<size_t>(*found.rbegin())], c);
    }
    EXPECT_GT(found.size(), 1U);
    any.insert(classes[static_cast<size_t>(order.substitute(place, 32))]);
  }
  EXPECT_GT(any.size(), 3U);
}

// A reader of a long tail: one sample of class 0 for every ten of class 1.
class TailReader final : public Reader {
 public:
  int64_t samples() const override { return 110; }
  const std::vector<Field>& fields() const override { return fields_; }
  int64_t classes() const override { return 2; }
  Status read(int64_t sample, int, FieldValue& out) const override {
    if (sample == 22) {
      return Error{.code = "XG0412", .message = "torn"};
    }
    out.set_integer(DType::kI32, sample % 11 == 0 ? 0 : 1);
    return {};
  }
  std::string class_name(int64_t) const override { return ""; }
  std::string sample_name(int64_t sample) const override { return "sample " + std::to_string(sample); }
  std::string describe() const override { return "tail"; }

 private:
  std::vector<Field> fields_{{"label", label_type(2)}};
};

TEST(BalancedOrder, GivesTheLoaderEquallyManyRowsOfEachClassAndTheirWeights) {
  const Graph graph = inputs({{"label", label_type(2)}, {"label.class_weight", {DType::kF32, {kBatch}}}});
  const auto open = [&] {
    return SampleRows::make("train", std::make_unique<TailReader>(), {.name = "d"}, graph).value();
  };
  // Returns the batches from step `first` on, as labels with their weights.
  const auto run = [&](int64_t first, int workers) {
    auto rows = open();
    const std::vector<int32_t> labels = rows->labels_of("label").value();
    EXPECT_EQ(labels[0], 0);
    EXPECT_EQ(labels[1], 1);
    EXPECT_EQ(labels[22], -1) << "broken";
    rows->weigh(graph, "label", "label.class_weight", {2.5F, 0.5F});
    auto loader = make_loader(std::move(rows), {.batch = 12,
                                                .seed = 3,
                                                .order = SampleOrder::kBalanced,
                                                .classes = labels,
                                                .max_bad = 0.1,
                                                .workers = workers})
                      .value();
    Batch slot(graph, 12);
    EXPECT_TRUE(loader->start(first, {&slot.view, 1}).ok());
    std::vector<std::pair<int32_t, float>> found;
    for (int64_t step = first; step < 20; ++step) {
      EXPECT_TRUE(loader->wait(step).ok());
      for (int i = 0; i < 12; ++i) {
        found.emplace_back(slot.integers(0)[i], slot.floats(1)[i]);
      }
      EXPECT_EQ(std::ranges::count(std::span(found).last(12), std::pair(0, 2.5F)), 6);
      EXPECT_EQ(std::ranges::count(std::span(found).last(12), std::pair(1, 0.5F)), 6);
      loader->release(step);
    }
    loader->stop();
    return found;
  };
  const auto whole = run(0, 1);
  EXPECT_EQ(run(0, 4), whole);
  const auto rest = run(7, 2);
  EXPECT_TRUE(std::equal(rest.begin(), rest.end(), whole.end() - std::ssize(rest)));
}

}  // namespace
}  // namespace xrun::runtime
