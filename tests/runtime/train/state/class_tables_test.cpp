#include "runtime/train/state/class_tables.h"

#include <gtest/gtest.h>
#include <tuple>
#include <vector>

#include "runtime/checkpoint/tensors/class_match.h"

namespace xrun::runtime {
namespace {

TEST(ClassTables, NamesAreLookedUpByInput) {
  const ClassTables tables{{"label", true, {"cat", "dog"}}, {"age", false, {}}};
  EXPECT_EQ(names_in(tables, "label"), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_TRUE(names_in(tables, "age").empty());
  EXPECT_TRUE(names_in(tables, "color").empty());
  EXPECT_EQ(find_table(tables, "color"), nullptr);
  EXPECT_EQ(positions_of({"dog", "owl", "cat"}, tables[0].names), (std::vector<int64_t>{1, -1, 0}));
}

TEST(ClassTables, ARenamedInputGetsTheOnlyUnusedTable) {
  const ClassTables trained{{"label", true, {"cat"}}, {"color", true, {"red"}}};
  const ClassTables own{{"kind", true, {"cat"}}, {"color", true, {"red"}}};
  EXPECT_EQ(table_for(trained, own, "color"), &trained[1]);
  EXPECT_EQ(table_for(trained, own, "kind"), &trained[0]);
  const ClassTables two{{"kind", true, {"cat"}}, {"shade", true, {"red"}}};
  EXPECT_EQ(table_for(trained, two, "kind"), nullptr) << "either of two tables may be meant";
  EXPECT_EQ(table_for({}, own, "kind"), nullptr);
}

TEST(ClassTables, RenamesAreAppliedInSequence) {
  const std::vector<MovedClass> moved{
      {.from = "cat", .to = "lynx"}, {.from = "lynx", .to = "puma"}, {.from = "dog", .to = "wolf", .input = "group"}};
  const ClassTable table{"label", true, {"cat", "dog", "owl"}};
  EXPECT_EQ(renamed(table, moved).names, (std::vector<std::string>{"puma", "dog", "owl"}));
  ClassTable group = table;
  group.input = "group";
  EXPECT_EQ(renamed(group, moved).names, (std::vector<std::string>{"puma", "wolf", "owl"}));
}

// Ranges that RowMap::each_run reports: (first row in the checkpoint, first row in the new table, number of rows).
using Runs = std::vector<std::tuple<int64_t, int64_t, int64_t>>;

Runs runs_of(const RowMap& map, int64_t begin, int64_t end) {
  Runs runs;
  map.each_run(begin, end, [&](int64_t from, int64_t first, int64_t count) { runs.emplace_back(from, first, count); });
  return runs;
}

TEST(RowMap, ConsecutiveRowsThatStayTogetherAreOneRange) {
  const RowMap map{.to = {1, 2, -1, 0, 7, 8}, .same_rows = false, .rows = 8};
  EXPECT_EQ(runs_of(map, 0, 6), (Runs{{0, 1, 2}, {3, 0, 1}, {4, 7, 1}}));
  EXPECT_EQ(runs_of(map, 1, 4), (Runs{{1, 2, 1}, {3, 0, 1}}));
  EXPECT_EQ(runs_of(map, 6, 9), Runs());
}

TEST(RowMap, RangesOfUnmovedRowsStopAtTheLastRow) {
  const RowMap map{.to = {}, .same_rows = true, .rows = 5};
  EXPECT_EQ(runs_of(map, 0, 3), (Runs{{0, 0, 3}}));
  EXPECT_EQ(runs_of(map, 3, 9), (Runs{{3, 3, 2}}));
}

}  // namespace
}  // namespace xrun::runtime
