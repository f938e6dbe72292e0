#include "graph/layouts/rows_layout.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <string_view>

namespace xrun {
namespace {

constexpr Bytes kSectionAlignment = 64 * kKiB;
constexpr Bytes kMostRowBytes = 64 * kKiB;
constexpr size_t kMostSections = 16;
constexpr Bytes kRecordTarget = 4 * kMiB;
constexpr Bytes kRowNumber = sizeof(int32_t);

bool is_name(std::string_view text, char first) {
  return !text.empty() && text.size() <= 200 && std::ranges::all_of(text, [&](char c) {
    return static_cast<unsigned char>(c) >= static_cast<unsigned char>(first) && c != '\x7f';
  });
}

std::string list_of(const std::vector<RowsSection>& sections) {
  std::string text;
  for (const RowsSection& section : sections) {
    text += fmt::format("{}{} {} ({} bytes a row)", text.empty() ? "" : ", ", section.name, section.dtype,
                        section.row_bytes);
  }
  return text;
}

}  // namespace

Bytes RowsLayout::row_bytes() const {
  Bytes sum = 0;
  for (const RowsSection& section : sections) {
    sum += section.row_bytes;
  }
  return sum;
}

Bytes RowsLayout::offset(size_t section) const {
  Bytes at = kClassRowHeaderBytes;
  for (size_t i = 0; i < section; ++i) {
    at += align_up(rows * sections[i].row_bytes, kSectionAlignment);
  }
  return at;
}

Bytes RowsLayout::file_bytes() const { return offset(sections.size()); }

int64_t RowsLayout::rows_of_record() const {
  return std::clamp<int64_t>(kRecordTarget / (row_bytes() + kRowNumber), 1, rows);
}

Bytes RowsLayout::record_bytes(int64_t in_record) const {
  return kUndoRecordHeadBytes + align_up(in_record * (row_bytes() + kRowNumber), 8);
}

Bytes RowsLayout::undo_bytes(int64_t changed, int64_t steps) const {
  const int64_t records = steps + changed / rows_of_record() + 1;  // the last one closes the log
  return kUndoHeaderBytes + changed * (row_bytes() + kRowNumber) + records * (kUndoRecordHeadBytes + 8);
}

Bytes RowsLayout::memory_bytes() const {
  return align_up(rows, 64) / 8 + record_bytes(rows_of_record()) + rows_of_record() * kRowNumber;
}

bool is_valid(const RowsLayout& layout) {
  const auto fits = [](const RowsSection& section) {
    return is_name(section.name, '!') && is_name(section.dtype, '!') && section.row_bytes >= 1 &&
           section.row_bytes <= kMostRowBytes;
  };
  return is_name(layout.tensor, ' ') && layout.row_begin >= 0 && layout.rows >= 1 &&
         layout.rows <= std::numeric_limits<int32_t>::max() &&
         layout.row_begin <= std::numeric_limits<int64_t>::max() - layout.rows && !layout.sections.empty() &&
         layout.sections.size() <= kMostSections && std::ranges::all_of(layout.sections, fits);
}

std::string difference(const RowsLayout& found, const RowsLayout& wanted) {
  if (found.tensor != wanted.tensor) {
    return fmt::format("has rows of {}, but the run needs {}", found.tensor, wanted.tensor);
  }
  if (found.rows != wanted.rows || found.row_begin != wanted.row_begin) {
    return fmt::format("has rows {}..{}, but the run needs {}..{}", found.row_begin, found.row_begin + found.rows,
                       wanted.row_begin, wanted.row_begin + wanted.rows);
  }
  return found == wanted
             ? ""
             : fmt::format("has {}, but the run needs {}", list_of(found.sections), list_of(wanted.sections));
}

}  // namespace xrun
