// The names of the classes of a run, for each input of the graph that contains class numbers, such as a label. They
// come from the training source, checkpoints store them, and sources that are opened later use the same numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/settings/specs.h"

namespace xrun::runtime {

// The classes of one input of the graph.
struct ClassTable {
  std::string input;               // empty: the label of the first head (checkpoints of formats 1 to 4)
  bool named = false;              // whether classes have names; if not, their numbers are their names
  std::vector<std::string> names;  // names of the classes, valid UTF-8, class 0 first

  bool operator==(const ClassTable&) const = default;
};

// The tables of a run, in the order of Graph::inputs. A checkpoint of an older format has only one table, so the
// classes of other inputs are unknown.
using ClassTables = std::vector<ClassTable>;

const ClassTable* find_table(const ClassTables& tables, std::string_view input);  // null: not found
// Returns the table of an input of `own`, which may have another name in `tables`: if exactly one input of `own` has no
// table, and exactly one table has no input in `own`, they belong together. Null: not found.
const ClassTable* table_for(const ClassTables& tables, const ClassTables& own, std::string_view input);
// Returns the names of the classes of an input; empty if they are numbers or unknown.
const std::vector<std::string>& names_in(const ClassTables& tables, std::string_view input);

// Returns the position in `to` of each name of `from`; -1 for a name that `to` does not contain.
std::vector<int64_t> positions_of(const std::vector<std::string>& from, const std::vector<std::string>& to);

// Adapts the tables of a checkpoint to this graph, which includes its loss: a table without an input becomes the table
// of the label of the first head, or of the first loss.
ClassTables of_graph(ClassTables tables, const Graph& graph);

// Applies the renamings of `moved` to the classes of `table`. The new name in one renaming may be the old name in
// another one; both are then applied.
ClassTable renamed(ClassTable table, const std::vector<MovedClass>& moved);

}  // namespace xrun::runtime
