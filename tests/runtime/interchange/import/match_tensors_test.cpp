// The choice of a name table and of the place of a network, and what becomes of each tensor.
#include "runtime/interchange/import/match_tensors.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/interchange/names/name_tables.h"

namespace xrun::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Dims = std::vector<int64_t>;

NameTable table_of(std::string text) {
  SourceMap sources;
  Diagnostics diagnostics;
  const int32_t file = sources.add("t", "names 1\n" + std::move(text));
  auto table = table_of_user(sources, file, diagnostics);
  EXPECT_TRUE(table) << (diagnostics.all().empty() ? "" : diagnostics.all()[0].message);
  return table.value_or(NameTable());
}

// The tensors of a model, with the classifiers below `classifiers`.
struct Model {
  ModelForm form;
  ModelNames names;

  explicit Model(std::vector<ModelTensor> tensors, std::vector<std::string> classifiers = {})
      : form{std::move(tensors), std::move(classifiers)}, names(form) {}
  Model(const Model&) = delete;
};

std::vector<ForeignTensor> file_of(std::vector<std::pair<std::string, Dims>> tensors, size_t file = 0) {
  std::vector<ForeignTensor> all;
  for (auto& [name, dims] : tensors) {
    all.push_back({name, dims, file, all.size()});
  }
  return all;
}

Result<Choice> choose(const std::vector<NameTable>& tables, const std::vector<ForeignTensor>& file, const Model& model,
                      const std::optional<std::string>& at = {}) {
  return choose_table(tables, file, model.names, at, "w.pth");
}

// The lists of a matching as lines.
std::vector<std::string> lines_of(const MatchedTensors& made, const std::vector<ForeignTensor>& file,
                                  const Model& model) {
  std::vector<std::string> lines;
  for (const Fit& fit : made.fits) {
    std::string line = model.form.tensors[fit.to].name + " =";
    for (const size_t from : fit.from) {
      line += " " + file[from].name;
    }
    line += fit.first > 0 ? " from " + std::to_string(fit.first) : "";
    lines.push_back(line + (fit.transposed ? " transposed" : ""));
  }
  for (const LeftOver& one : made.left_over) {
    lines.push_back("left " + file[one.tensor].name + ": " + one.why);
  }
  const auto list = [&](const char* what, const std::vector<size_t>& indices) {
    for (const size_t i : indices) {
      lines.push_back(std::string(what) + " " + file[i].name);
    }
  };
  list("ignored", made.ignored);
  list("repeated", made.repeated);
  list("skipped", made.skipped);
  for (const size_t i : made.missing) {
    lines.push_back("missing " + model.form.tensors[i].name);
  }
  for (const std::string& misfit : made.misfits) {
    lines.push_back("misfit " + misfit);
  }
  return lines;
}

std::vector<std::string> matched(const NameTable& table, const std::vector<ForeignTensor>& file, const Model& model,
                                 const std::vector<std::string>& skip = {}, const std::string& place = "") {
  return lines_of(match_tensors(table, place, file, model.form, model.names, skip), file, model);
}

TEST(MatchTensors, TheFirstLineWhoseTargetIsInTheModelDecides) {
  const NameTable table = table_of("drop module\nignore *.step\na -> x\na -> y\nb -> z\n");
  const Model model({{"net.y.weight", {2}}, {"net.z.weight", {3}}, {"net.rest", {4}}});
  const auto file = file_of({{"module.a.weight", {2}}, {"b.weight", {3}}, {"b.bias", {3}}, {"c", {1}}, {"a.step", {}}});
  EXPECT_THAT(matched(table, file, model, {}, "net"),
              ElementsAre("net.y.weight = module.a.weight", "net.z.weight = b.weight",
                          "left b.bias: the model has no `net.z.bias`", "left c: no line of the name table matches it",
                          "ignored a.step", "missing net.rest"));
}

TEST(MatchTensors, ShapesFitIfOnlyDimensionsOfOneDiffer) {
  const NameTable table = table_of("{a} -> {a}\n");
  const Model model({{"conv", {8, 4, 1, 1}}, {"token", {6}}, {"scalar", {}}});
  const auto file = file_of({{"conv", {8, 4}}, {"token", {1, 1, 6}}, {"scalar", {1}}});
  EXPECT_THAT(matched(table, file, model), ElementsAre("conv = conv", "token = token", "scalar = scalar"));
}

TEST(MatchTensors, AnotherShapeIsAMisfitWithBothShapes) {
  const NameTable table = table_of("{a} -> {a}\n");
  const Model model({{"w", {8, 4}}, {"v", {8, 2, 2}}, {"u", {5}}});
  const auto file = file_of({{"w", {4, 8}}, {"v", {8, 4}}, {"u", {6}}});
  const auto lines = matched(table, file, model);
  EXPECT_THAT(lines, ElementsAre("missing w", "missing v", "missing u",
                                 HasSubstr("misfit `w` is [4, 8], but `w` of the model is [8, 4]: if it is stored by "
                                           "columns, its line in a name table ends in `transposed`"),
                                 HasSubstr("`v` is [8, 4], but `v` of the model is [8, 2, 2]: if its elements have the "
                                           "right order, its line in a name table ends in `reshaped`"),
                                 "misfit `u` is [6], but `u` of the model is [5]"));
}

TEST(MatchTensors, LinesTransposeReshapeJoinAndDivide) {
  const NameTable table =
      table_of("kernel -> w transposed\npatch -> p reshaped\n{b}.q, {b}.k, {b}.v -> {b}.qkv\nfused -> f.a, f.b\n");
  const Model model({{"w", {8, 4}}, {"p", {8, 3, 2, 2}}, {"l.qkv", {6, 2}}, {"f.a", {2, 5}}, {"f.b", {1, 5}}});
  const auto file = file_of(
      {{"kernel", {4, 8}}, {"patch", {8, 12}}, {"l.v", {2, 2}}, {"l.q", {2, 2}}, {"l.k", {2, 2}}, {"fused", {3, 5}}});
  EXPECT_THAT(matched(table, file, model), ElementsAre("w = kernel transposed", "p = patch", "l.qkv = l.q l.k l.v",
                                                       "f.a = fused", "f.b = fused from 10"));
}

TEST(MatchTensors, IncompleteOrDoubleGroupsAreMisfits) {
  const NameTable table = table_of("q, k -> qk\na -> x\nb -> x\nfused -> f, g\n");
  const Model model({{"qk", {4, 2}}, {"x", {1}}, {"f", {2}}, {"g", {2}}});
  const auto file = file_of({{"q", {2, 2}}, {"a", {1}}, {"b", {1}}, {"fused", {5}}});
  const MatchedTensors made = match_tensors(table, "", file, model.form, model.names, {});
  EXPECT_THAT(
      made.misfits,
      ElementsAre("`a` and `b` would both become `x` of the model", HasSubstr("the file has none that `k` matches"),
                  HasSubstr("`fused` is [5], but `f` of the model is [2]: the 2 tensors of the model have 4")));
}

TEST(MatchTensors, ClassesAreTheOnlyClassifierOfTheModel) {
  const NameTable table = table_of("fc -> <classes>\n");
  const auto file = file_of({{"fc.weight", {10, 4}}, {"fc.bias", {10}}});
  EXPECT_THAT(matched(table, file, Model({{"id.weight", {10, 4}}}, {"id"})),
              ElementsAre("id.weight = fc.weight", "left fc.bias: the model has no `id.bias`"));
  EXPECT_THAT(matched(table, file, Model({{"x", {1}}})),
              ElementsAre(HasSubstr("the model has no classifier"), HasSubstr("fc.bias"), "missing x"));
  EXPECT_THAT(matched(table, file, Model({{"a.weight", {10, 4}}, {"b.weight", {10, 4}}}, {"a", "b"}))[0],
              HasSubstr("the model has several classifiers: a, b"));
}

TEST(MatchTensors, SkippedPathsAreLeftOut) {
  const NameTable table = table_of("fc -> <classes>\n{a} -> {a}\n");
  const Model model({{"id.weight", {5, 4}}, {"w", {2}}}, {"id"});
  const auto file = file_of({{"fc.weight", {10, 4}}, {"w", {2}}});
  EXPECT_THAT(matched(table, file, model, {"id"}), ElementsAre("w = w", "skipped fc.weight", "missing id.weight"));
}

// InsightFace's Partial FC gives each of W ranks C // W rows, and the first C % W ranks one more.
TEST(MatchTensors, RowsOfRanksAreJoinedInTheirOrder) {
  const NameTable table = table_of("drop backbone\nhead -> <classes> by rank\na -> a\n");
  const Model model({{"a", {1}}, {"id.weight", {8, 2}}}, {"id"});
  const auto ranks = [&](const std::vector<int64_t>& rows) {
    std::vector<ForeignTensor> all;
    for (size_t rank = 0; rank < rows.size(); ++rank) {
      const auto one = file_of({{"backbone.a", {1}}, {"head.weight", {rows[rank], 2}}, {"odd", {1}}}, rank);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  };
  const auto good = ranks({3, 3, 2});
  EXPECT_THAT(matched(table, good, model),
              ElementsAre("a = backbone.a", "id.weight = head.weight head.weight head.weight", HasSubstr("left odd"),
                          "repeated backbone.a", "repeated odd", "repeated backbone.a", "repeated odd"));
  EXPECT_THAT(matched(table, ranks({3, 2, 3}), model).back(),
              HasSubstr("rank 1 of 3 should have 3 of the 8 rows; name the files of all ranks in their order"));
  EXPECT_THAT(matched(table, ranks({3, 3}), model).back(), HasSubstr("the 2 tensors have 6 rows together"));
  EXPECT_THAT(matched(table, ranks({8}), model)[1], "id.weight = head.weight");
}

TEST(ChooseTable, TakesTheTableThatExplainsMostNames) {
  const std::vector<NameTable> tables{table_of("a -> x\n"), table_of("a -> x\nb -> y\n"), table_of("{p} -> {p}\n")};
  const auto file = file_of({{"a.w", {1}}, {"b.w", {1}}});
  const auto choice = choose(tables, file, Model({{"net.x.w", {1}}, {"net.y.w", {1}}}));
  ASSERT_TRUE(choice.ok()) << choice.error().message;
  EXPECT_EQ(choice->table, 1U);
  EXPECT_EQ(choice->place, "net");
  const auto own = choose(tables, file, Model({{"a.w", {1}}, {"b.w", {1}}, {"net.z", {1}}}));
  ASSERT_TRUE(own.ok()) << own.error().message;
  EXPECT_EQ(own->table, 2U) << "two tables explain both names, and the model has those of the third";
  const auto other = choose({tables[1]}, file, Model({{"a.w", {1}}, {"b.w", {1}}}));
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(other.error().message, HasSubstr("w.pth has the names of `t`, but the model has none of the 2 "
                                               "tensors of that network"));
  EXPECT_THAT(other.error().help, HasSubstr("`x.w`"));
  std::vector<std::pair<std::string, Dims>> many;
  for (int i = 0; i < 11; ++i) {
    many.push_back({"u" + std::to_string(i), {1}});
  }
  const auto few = choose({table_of("u{i} -> v{i}\n")}, file_of(many), Model({{"m.v3", {1}}, {"n.w", {1}}}));
  ASSERT_FALSE(few.ok()) << "a name that two networks share is no place";
  EXPECT_THAT(few.error().message, HasSubstr("the model has 1 of the 11 tensors"));
  const auto same = choose({tables[2]}, file, Model({{"a.w", {1}}, {"b.w", {1}}}));
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same->place, "");
}

TEST(ChooseTable, AFewCommonNamesInSeveralPlacesAreNoChoice) {
  std::vector<std::pair<std::string, Dims>> many;
  for (int i = 0; i < 9; ++i) {
    many.push_back({"u" + std::to_string(i), {1}});
  }
  const auto few = choose({table_of("u{i} -> v{i}\n")}, file_of(many), Model({{"m.v3", {1}}, {"n.v3", {1}}}));
  ASSERT_FALSE(few.ok());
  EXPECT_THAT(few.error().message, HasSubstr("the model has 1 of the 9 tensors"));
}

TEST(ChooseTable, ReportsWhatItCannotDecide) {
  const auto file = file_of({{"a.w", {1}}});
  const Model two({{"m.x.w", {1}}, {"n.x.w", {1}}});
  const std::vector<NameTable> one{table_of("a -> x\n")};
  const auto places = choose(one, file, two);
  ASSERT_FALSE(places.ok());
  EXPECT_EQ(places.error().code, "XG0941");
  EXPECT_THAT(places.error().message, HasSubstr("several places for the network of w.pth: `m`, `n`"));
  EXPECT_THAT(places.error().help, HasSubstr("--at n"));
  const auto at = choose(one, file, two, "m");
  ASSERT_TRUE(at.ok());
  EXPECT_EQ(at->place, "m");
  const auto tables = choose({one[0], table_of("a -> x\nq -> r\n")}, file, Model({{"x.w", {1}}}));
  ASSERT_FALSE(tables.ok());
  EXPECT_THAT(tables.error().message, HasSubstr("fits several name tables"));
  EXPECT_THAT(tables.error().help, HasSubstr("--names"));
  const auto none = choose(one, file_of({{"q.w", {1}}, {"r", {1}}}), two);
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, HasSubstr("no name table explains the names in w.pth, such as `q.w`, `r`"));
}

// The tables of the program do not compete for the names of their own networks.
TEST(ChooseTable, DistinguishesTheTablesOfTheProgram) {
  std::vector<NameTable> tables;
  for (const NameText& one : name_texts()) {
    tables.push_back(known_table(one.name));
  }
  const Model resnet({{"backbone.stem.weight", {1}},
                      {"backbone.bn.weight", {1}},
                      {"backbone.layer1.basic.conv.weight", {1}},
                      {"backbone.layer1.basic.bn.weight", {1}}});
  const auto file = file_of(
      {{"conv1.weight", {1}}, {"bn1.weight", {1}}, {"layer1.0.conv1.weight", {1}}, {"layer1.0.bn1.weight", {1}}});
  const auto choice = choose(tables, file, resnet);
  ASSERT_TRUE(choice.ok()) << choice.error().message;
  EXPECT_EQ(tables[choice->table].name, "torchvision_resnet");
  EXPECT_EQ(choice->place, "backbone");
  const auto own = file_of({{"backbone.stem.weight", {1}}, {"backbone.bn.weight", {1}}, {"constant_2", {}}});
  const auto same = choose(tables, own, resnet);
  ASSERT_TRUE(same.ok()) << same.error().message;
  EXPECT_EQ(tables[same->table].name, "xrun");
}

}  // namespace
}  // namespace xrun::runtime
