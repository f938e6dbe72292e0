// The `text` reader: lines of text with their labels, in one file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "graph/base/stop.h"
#include "runtime/data/readers/reader.h"

namespace xrun::runtime {

// The longest line that is read.
inline constexpr Bytes kLongestTextLine = 16 * kMiB;

// The positions of the columns that are read, counted from 0.
struct TextColumns {
  int64_t label = 0;  // -1: lines have no labels
  int64_t text = 1;
  bool rest = true;  // the text is the rest of the line: the delimiter after its first character is part of it
};

struct TextCells {
  std::optional<std::string_view> label;  // without blanks around it; nullopt: there is no such column, or it is empty
  std::optional<std::string_view> text;   // nullopt: there is no such column, or it is empty
};

// The cells of a line. The delimiter ' ' stands for runs of spaces and tabs.
TextCells split_text(std::string_view line, char delimiter, const TextColumns& columns);

// Opens a text. Each line that is not empty is a sample: a label, the delimiter and the text, or a table with the
// columns that the arguments `label` and `text` name. With `text` alone, lines have no labels. Opening reads the file
// once, to find the lines and the classes (label_texts.h); a line is read from the file when it is needed. The place of
// a line takes 12 bytes of memory, and its label 4.
//
// Fields: `text` u8 [bytes], UTF-8 without the line break; and `label` i64, if there are labels. A line without the
// text, without a label or with bytes that are not UTF-8 is a broken sample. Errors: XG0401; XG0402 labels that are no
// classes; XG0412 compressed, not a text, or a line that is too long; XG0413 there is no column of this name;
// kInterrupted.
Result<std::unique_ptr<Reader>> open_text(const SourceSpec& spec, StopFlag stop);

}  // namespace xrun::runtime
