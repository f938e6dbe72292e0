// How many bytes class rows in a mapped file take, and where they lie in it, as plans and rows files count them
// (docs/formats.md, "Rows files and undo logs").
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/units.h"

namespace xrun {

// An array that has an element a row: class weights, their scales, momentum, last-touch steps.
struct RowsSection {
  std::string name;   // "id.weight", "id.weight.scale", "id.weight.velocity"
  std::string dtype;  // "f8e4m3", "f32": for people, and to be compared
  Bytes row_bytes = 0;

  bool operator==(const RowsSection&) const = default;
};

// Rows [row_begin, row_begin + rows) of a tensor. In the file each section follows the one before it.
struct RowsLayout {
  std::string tensor;  // "id.weight"
  int64_t row_begin = 0;
  int64_t rows = 0;
  std::vector<RowsSection> sections;

  bool operator==(const RowsLayout&) const = default;

  Bytes row_bytes() const;  // of all sections
  // Where a section begins in the file: a multiple of 64 KiB, the largest page that Linux has.
  Bytes offset(size_t section) const;
  Bytes file_bytes() const;

  // A record of an undo log has at most so many rows: about 4 MiB, since who reads or writes one needs as much memory.
  int64_t rows_of_record() const;
  Bytes record_bytes(int64_t in_record) const;
  // The most that an undo log takes when `changed` rows have changed in `steps` steps since a checkpoint. A run needs
  // file_bytes() and twice the header of a log besides.
  Bytes undo_bytes(int64_t changed, int64_t steps) const;
  // Memory beyond the rows: a bit a row, and a record.
  Bytes memory_bytes() const;
};

// Whether a file can have it: 1 to 2^31 - 1 rows; 1 to 16 sections of 1 byte to 64 KiB a row; names of 1 to 200
// characters, without control characters, and without blanks in those of sections and types.
bool is_valid(const RowsLayout& layout);

// "has rows 0..20, and the run needs 0..30"; empty where both are equal.
std::string difference(const RowsLayout& found, const RowsLayout& wanted);

// Heads of so many classes may have rows in a file: then a class block has 4 096 rows and more, whole pages of every
// section, so that each shard maps its own rows (class_block, graph/head_shape.h).
inline constexpr int64_t kLeastMappedClasses = 1 << 18;
// What is mapped begins and ends at multiples of it, in the file and in memory: a page of x86-64.
inline constexpr Bytes kMappedAlignment = 4 * kKiB;

inline constexpr Bytes kRowsHeaderBytes = 64 * kKiB;
inline constexpr Bytes kUndoHeaderBytes = 4 * kKiB;
inline constexpr Bytes kUndoRecordHeadBytes = 80;

}  // namespace xrun
