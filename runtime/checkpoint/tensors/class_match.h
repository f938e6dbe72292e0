// Decides which rows a run takes from a checkpoint that has other classes. Rows are matched by the names of the
// classes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/train/state/class_tables.h"
#include "runtime/train/state/train_state.h"

namespace xrun::runtime {

// Maps each row of a checkpoint to a row of the run.
struct RowMap {
  std::vector<int64_t> to;  // index: row of the checkpoint; -1: the row is dropped, like all rows after the end of `to`
  bool same_rows = false;   // each row keeps its number; `to` is then empty
  int64_t rows = 0;         // number of rows of the run; the row is dropped if its new number is not below this

  int64_t place(int64_t row) const {
    const int64_t at = same_rows ? row : row < static_cast<int64_t>(to.size()) ? to[static_cast<size_t>(row)] : -1;
    return at < rows ? at : -1;
  }

  // Divides rows [begin, end) of the checkpoint into the longest ranges that stay contiguous in the run, and calls
  // body(from, first, count) for each range: its rows [from, from + count) become rows first, first + 1, ... of the
  // run. Dropped rows are skipped.
  template <typename Body>
  void each_run(int64_t begin, int64_t end, const Body& body) const {
    for (int64_t row = begin; row < end;) {
      const int64_t first = place(row);
      int64_t count = 1;
      while (row + count < end && (first < 0 ? place(row + count) < 0 : place(row + count) == first + count)) {
        ++count;
      }
      if (first >= 0) {
        body(row, first, count);
      }
      row += count;
    }
  }
};

// A part of the model with a row for each class: a head, the layer of dense logits, or a table of embeddings.
struct ClassPart {
  std::string path;
  std::vector<std::string> params;  // names of the part's parameters
  bool head = false;
  RowMap map;
  int64_t classes = 0;  // number of classes of the run
  int64_t matched = 0;  // number of these classes that have a row in the checkpoint
  bool by_name = false;

  bool owns(std::string_view param) const { return std::ranges::find(params, param) != params.end(); }
};

// Finds the parts of a model whose rows are classes, and maps their rows. If the run and the checkpoint both have names
// for the classes, rows are matched by name. If both have numbers, or the classes of one of them are unknown, rows keep
// their numbers. If one of them has names and the other has numbers, no row is taken.
//   run, stored  the classes of the run and of the checkpoint; see `of_graph`
std::vector<ClassPart> match_classes(const TrainState& state, const ClassTables& run, const ClassTables& stored);

}  // namespace xrun::runtime
