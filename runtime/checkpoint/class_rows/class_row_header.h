// The header of a rows file (docs/reference/formats.md, "Rows files and undo logs"): its tensor, rows and sections.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "graph/base/result.h"
#include "graph/layouts/rows_layout.h"

namespace xrun::runtime {

struct ClassRowHeader {
  std::string id;  // 32 random hex digits, generated when the file is created
  RowsLayout layout;
};

// Prints a header as text of kClassRowHeaderBytes bytes. Equal headers give the same text.
std::string print_class_row_header(const ClassRowHeader& header);

// Parses the header. `start`: the first bytes of a file, or the whole file if it is shorter than a header; `path`: for
// messages. Errors: XG0710 it is not a rows file, or is damaged or truncated; XG0714 a later version wrote it.
Result<ClassRowHeader> parse_class_row_header(std::span<const std::byte> start, std::string_view path);

bool is_class_row_file(std::span<const std::byte> start);

// Returns a random id of 32 hex digits, a different one for each call.
std::string draw_id();

}  // namespace xrun::runtime
