// `moved "a" -> "b"`: a model with renamed parts is still the same run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/settings/moved.h"
#include "tests/lang/checked.h"

namespace xrun::lang {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<Moved> kMoves{{"a", "b", {}}, {"b", "c", {}}, {"c.x", "c.y", {}}};

TEST(Moved, NamesFollowChainsAndTheLongestPath) {
  EXPECT_EQ(last_name(kMoves, "a.w"), "c.w");
  EXPECT_EQ(last_name(kMoves, "b.x.w"), "c.y.w");
  EXPECT_EQ(last_name(kMoves, "c.x"), "c.y");
  EXPECT_EQ(last_name(kMoves, "ab.w"), "ab.w");
  EXPECT_EQ(first_name(kMoves, "c.y.w"), "a.x.w");
  EXPECT_EQ(first_name(kMoves, "c"), "a");
  EXPECT_EQ(first_name(kMoves, "d.y"), "d.y");
  EXPECT_FALSE(leads_back(kMoves, "a"));
  EXPECT_TRUE(leads_back(std::vector<Moved>{{"a", "b", {}}, {"b", "a", {}}}, "a"));
  EXPECT_TRUE(leads_back(std::vector<Moved>{{"a", "a.b", {}}}, "a"));
}

std::string model_with(const std::string& name, const std::string& moves = {}) {
  return "model net {\n  input x: f32[N, 8]\n\n  feature = x -> linear(4) as " + name + " -> dropout(0.5) as " + name +
         "_drop\n  output feature\n\n  head id = cosine_classifier(feature, 10)\n}\n"
         "data items {\n  source train = synthetic([8], 10, samples=100)\n\n  x = pixels\n}\n"
         "train t {\n  batch = 10\n  epochs = 1\n  loss = softmax_ce(id, label)\n  optimizer = sgd\n  lr = 0.1\n"
         "  groups {\n    " +
         name + " {\n      lr = 0.5\n    }\n  }\n  freeze = [" + name + ".bias]\n}\n" + moves;
}

TEST(Moved, ARenamedModelHasTheDigestOfTheFirstOne) {
  const Checked before(model_with("embed"));
  const Checked renamed(model_with("feat"));
  const Checked moved(model_with("feat", "moved \"embed\" -> \"feat\"\nmoved \"embed_drop\" -> \"feat_drop\"\n"));
  const Checked again(model_with("last",
                                 "moved \"embed\" -> \"feat\"\nmoved \"feat\" -> \"last\"\n"
                                 "moved \"embed_drop\" -> \"feat_drop\"\nmoved \"feat_drop\" -> \"last_drop\"\n"));
  ASSERT_TRUE(moved.file.has_value()) << moved.rendered();
  ASSERT_TRUE(again.file.has_value()) << again.rendered();
  EXPECT_THAT(moved.codes(), IsEmpty());
  EXPECT_NE(renamed.module().math_digest, before.module().math_digest);
  EXPECT_EQ(moved.module().math_digest, before.module().math_digest);
  EXPECT_EQ(again.module().math_digest, before.module().math_digest);
  EXPECT_THAT(moved.tensors(), testing::Contains("feat.weight"));
}

TEST(Moved, MovesOfImportedFilesApply) {
  SourceMap sources;
  Diagnostics diagnostics;
  const OpRegistry ops = test_ops::registry();
  const auto checked = load_texts("m.xgraph",
                                  {{"m.xgraph",
                                    "xgraph 1\nfrom \"b.xgraph\" use part\n\nmodel m {\n  input x: f32[N, 8]\n"
                                    "  y = x -> part\n  output y\n}\n"},
                                   {"b.xgraph",
                                    "xgraph 1\nblock part(x: [N, D]) {\n  return x -> linear(4) as b\n}\n"
                                    "moved \"part.a\" -> \"part.b\"\n"}},
                                  sources, diagnostics, {.ops = &ops});
  ASSERT_TRUE(checked.has_value());
  ASSERT_EQ(checked->run.moved.size(), 1U);
  EXPECT_EQ(last_name(checked->run.moved, "part.a.weight"), "part.b.weight");
}

TEST(Moved, MovesThatContradictTheModelOrEachOtherAreRejected) {
  const auto with = [](const std::string& moves) { return Checked(model_with("embed", moves)); };
  EXPECT_THAT(with("moved \"embed\" -> \"feat\"\n").codes(), ElementsAre("XG0226"));
  EXPECT_THAT(with("moved \"embed\" -> \"feat\"\n").rendered(), HasSubstr("the model still has `embed`"));
  EXPECT_THAT(with("moved \"a\" -> \"embed\"\nmoved \"b\" -> \"embed\"\n").codes(), ElementsAre("XG0226"));
  EXPECT_THAT(with("moved \"a\" -> \"embed\"\nmoved \"a\" -> \"id\"\n").codes(), ElementsAre("XG0226"));
  EXPECT_THAT(with("moved \"a\" -> \"b\"\nmoved \"b\" -> \"a\"\n").codes(), testing::Contains("XG0226"));
  EXPECT_THAT(with("moved \"a\" -> \"a\"\n").codes(), ElementsAre("XG0226"));
  EXPECT_THAT(with("moved \"\" -> \"embed\"\n").codes(), ElementsAre("XG0226"));
  EXPECT_THAT(with("moved \"a b\" -> \"embed\"\n").codes(), ElementsAre("XG0226"));
  const Checked unknown = with("moved \"a\" -> \"embedd\"\n");
  EXPECT_THAT(unknown.codes(), ElementsAre("XG0227"));
  EXPECT_TRUE(unknown.file.has_value());
}

}  // namespace
}  // namespace xrun::lang
