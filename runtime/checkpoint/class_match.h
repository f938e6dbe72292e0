// The rows of a checkpoint that a run takes over where its classes are others: by the names of the classes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/train/class_tables.h"
#include "runtime/train/train_state.h"

namespace xrun::runtime {

// The row of the run that each row of a checkpoint becomes.
struct RowMap {
  std::vector<int64_t> to;  // by row of the checkpoint, -1: dropped; rows after its end are dropped, too
  bool same_rows = false;   // each becomes the row of its own number; `to` is then empty
  int64_t rows = 0;         // of the run: rows from here on are dropped

  int64_t place(int64_t row) const {
    const int64_t at = same_rows ? row : row < static_cast<int64_t>(to.size()) ? to[static_cast<size_t>(row)] : -1;
    return at < rows ? at : -1;
  }

  // Calls body(from, first, count) for the longest runs of rows of the checkpoint within [begin, end): rows
  // [from, from + count) become rows first, first + 1, ...
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

// A head, the layer of dense logits or a table of embeddings, with a row for each class.
struct ClassPart {
  std::string path;
  std::vector<std::string> params;  // names of its parameters
  bool head = false;
  RowMap map;
  int64_t classes = 0;  // of the run
  int64_t matched = 0;  // of them, those with a row in the checkpoint
  bool by_name = false;

  bool owns(std::string_view param) const { return std::ranges::find(params, param) != params.end(); }
};

// The parts of a model whose rows are classes. Where both tables have names, rows are taken by name; where both have
// numbers or one is not known, by number; where one has names and the other numbers, no row is taken.
//   run, stored  the classes of the run and of the checkpoint; see `of_graph`
std::vector<ClassPart> match_classes(const TrainState& state, const ClassTables& run, const ClassTables& stored);

}  // namespace xrun::runtime
