// The text files that accompany a file of records: the index (.idx), the list (.lst) and InsightFace's `property`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "graph/base/units.h"

namespace xrun::runtime {

// A line `key<tab>offset` of an index: the record with this key begins at this byte.
struct IndexEntry {
  int64_t key = 0;
  Bytes offset = 0;
};

// Reads an index and sorts it by offset. If a key has several lines, the last one counts, as in MXNet. Errors: XG0401;
// XG0412 with the line; kInterrupted.
Result<std::vector<IndexEntry>> read_record_index(const std::string& path, StopFlag stop);

// The labels of a list by im2rec: lines `key<tab>label<tab>...<tab>path`, all with the same number of labels.
class RecordList {
 public:
  // Reads a list. Errors: XG0401; XG0412 with the line, also for a key that has two lines; kInterrupted.
  static Result<RecordList> read(const std::string& path, StopFlag stop);
  // Whether a line has the form of such a list. InsightFace's own .lst files have another one.
  static bool is_line(std::string_view line);

  int64_t labels() const { return width_; }  // number of labels of a line
  // The line of a key, for label(); -1 if there is none.
  int64_t find(int64_t key) const;
  double label(int64_t line, int64_t i) const { return labels_[static_cast<size_t>(line * width_ + i)]; }

 private:
  Status add(std::string_view line, const std::string& place);

  int64_t width_ = 0;
  std::vector<double> labels_;                      // [lines, width]
  std::vector<std::pair<int64_t, int64_t>> lines_;  // (key, line), sorted by key
};

// The number of classes in a file `property`, whose first line is `classes,height,width`. Errors: XG0401; XG0412 the
// file has another form.
Result<int64_t> read_property_classes(const std::string& path);

// The whole number that is all of `text`; nullopt for other texts, and for numbers that i64 does not hold.
std::optional<int64_t> whole_number(std::string_view text);
// The finite number that is all of `text`, such as 3.000000; nullopt for other texts.
std::optional<double> decimal_number(std::string_view text);

}  // namespace xrun::runtime
