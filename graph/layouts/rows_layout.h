// Sizes and offsets of class rows in a mapped file, for plans and for rows files (docs/reference/formats.md, "Rows
// files and undo logs").
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/units.h"

namespace xrun {

// An array with one element per row: class weights, their scales, momentum, last-touch steps.
struct RowsSection {
  std::string name;   // "id.weight", "id.weight.scale", "id.weight.velocity"
  std::string dtype;  // "f8e4m3", "f32": the name of the type
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

  Bytes row_bytes() const;  // bytes of one row in all sections
  // Offset of a section in the file: a multiple of 64 KiB, the largest page that Linux has.
  Bytes offset(size_t section) const;
  Bytes file_bytes() const;

  // Most rows of a record of an undo log: about 4 MiB, since reading or writing a record needs as much memory.
  int64_t rows_of_record() const;
  Bytes record_bytes(int64_t in_record) const;
  // Upper bound for an undo log if `changed` rows have changed in `steps` calls of log_old since a checkpoint. A run
  // needs file_bytes() and one more log header in addition.
  Bytes undo_bytes(int64_t changed, int64_t steps) const;
  // Memory in addition to the rows: one bit per row, a record, and its row numbers.
  Bytes memory_bytes() const;
};

// Whether a file can have this layout: 1 to 2^31 - 1 rows; 1 to 16 sections of 1 byte to 64 KiB a row; names of 1 to
// 200 characters without control characters; names of sections and types also without blanks.
bool is_valid(const RowsLayout& layout);

// Describes the difference of two layouts: "has rows 0..20, and the run needs 0..30"; empty if they are equal.
std::string difference(const RowsLayout& found, const RowsLayout& wanted);

// Heads with at least this many classes may have rows in a file: a class block then has at least 4 096 rows, whole
// pages of every section, so that each shard maps its own rows (class_block, graph/layouts/head_shape.h).
inline constexpr int64_t kLeastMappedClasses = 1 << 18;
// Mapped ranges begin and end at multiples of an x86-64 page, in the file and in memory.
inline constexpr Bytes kMappedAlignment = 4 * kKiB;

inline constexpr Bytes kClassRowHeaderBytes = 64 * kKiB;
inline constexpr Bytes kUndoHeaderBytes = 4 * kKiB;
inline constexpr Bytes kUndoRecordHeadBytes = 80;

}  // namespace xrun
