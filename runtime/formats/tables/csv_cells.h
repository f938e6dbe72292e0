// The meaning of a cell of a table: a number, a missing value, or a text.
#pragma once

#include <cstdint>
#include <string_view>

namespace xrun::runtime {

struct CsvCell {
  enum Kind {
    kNumber,
    kMissing,      // an empty cell, nan, NA, N/A, ?, null and the like, in any case
    kPlaceholder,  // None, - and similar signs: a missing value among numbers, and a text among texts
    kText,
  };
  Kind kind = kText;
  double value = 0;  // value of a kNumber; infinite also if the number is larger than f32 can hold
};

CsvCell classify_cell(std::string_view text);

// Whether the text is a missing value (kMissing).
bool is_missing_value(std::string_view text);

}  // namespace xrun::runtime
