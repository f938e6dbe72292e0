// An example of a header:
//   xrun rows 1
//   id 53e1b2c4ab79b6a2a6d31e0e5b3c7f44
//   tensor id.weight
//   row_begin 0
//   rows 300000000
//   section weight f8e4m3 64
//   section scale f32 4
//   digest ...
// Tests: tests/runtime/checkpoint/class_rows/class_row_file_test.cpp
#include "runtime/checkpoint/class_rows/class_row_header.h"

#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <sys/random.h>

#include "graph/base/errors.h"
#include "graph/base/xxh128.h"
#include "runtime/checkpoint/files/own_files.h"
#include "runtime/checkpoint/files/owner.h"
#include "runtime/checkpoint/files/sealed_text.h"

namespace xrun::runtime {
namespace {

constexpr std::string_view kKind = "rows";
constexpr int64_t kVersion = 1;
Error bad_header(std::string_view path, std::string_view why) {
  return content_error("XG0710", {"{} {}", path, why},
                       "continue from a checkpoint of another directory, or start again");
}

// Parses a section such as "weight f8e4m3 64": name, type, bytes of a row.
RowsSection parse_section(std::string_view text) {
  const size_t first = std::min(text.find(' '), text.size());
  const size_t last = text.rfind(' ');
  if (last == std::string_view::npos || last <= first) {
    return {};
  }
  return {std::string(text.substr(0, first)), std::string(text.substr(first + 1, last - first - 1)),
          LineReader::to_number(text.substr(last + 1))};
}

}  // namespace

std::string print_class_row_header(const ClassRowHeader& header) {
  const RowsLayout& layout = header.layout;
  std::string lines = fmt::format("xrun {} {}\nid {}\ntensor {}\nrow_begin {}\nrows {}\n", kKind, kVersion, header.id,
                                  layout.tensor, layout.row_begin, layout.rows);
  for (const RowsSection& section : layout.sections) {
    lines += fmt::format("section {} {} {}\n", section.name, section.dtype, section.row_bytes);
  }
  return seal(std::move(lines), static_cast<size_t>(kClassRowHeaderBytes));
}

Result<ClassRowHeader> parse_class_row_header(std::span<const std::byte> start, std::string_view path) {
  const auto version = version_of(start, kKind);
  if (!version) {
    return bad_header(path, "is not a rows file, or its header is damaged");
  }
  if (*version > kVersion) {
    return content_error("XG0714", {"{} has version {}; this xrun knows {}", path, *version, kVersion},
                         "use the xrun that wrote it, or a later one");
  }
  if (start.size() < static_cast<size_t>(kClassRowHeaderBytes)) {
    return bad_header(path, "is cut short within its header");
  }
  const auto header = start.first(static_cast<size_t>(kClassRowHeaderBytes));
  const auto lines = unseal(header);
  if (!lines) {
    return bad_header(path, "has a damaged header");
  }
  LineReader reader(*lines);
  reader.text("xrun");
  ClassRowHeader read{.id = std::string(reader.text("id"))};
  RowsLayout& layout = read.layout;
  layout.tensor = reader.text("tensor");
  layout.row_begin = reader.number("row_begin");
  layout.rows = reader.number("rows");
  while (reader.has("section")) {
    layout.sections.push_back(parse_section(reader.text("section")));
  }
  const std::span<const char> text(reinterpret_cast<const char*>(header.data()), header.size());
  if (!is_digest(read.id) || !is_valid(layout) || !std::ranges::equal(print_class_row_header(read), text)) {
    return bad_header(path, "has a header that no xrun wrote");
  }
  return read;
}

bool is_class_row_file(std::span<const std::byte> start) { return version_of(start, kKind).has_value(); }

std::string draw_id() {
  static std::atomic<uint64_t> drawn{0};
  uint64_t bits[2] = {};
  const ssize_t got = ::getrandom(bits, sizeof bits, 0);  // even if it fails, the other fields make the text unique
  const std::string text =
      fmt::format("{} {} {} {} {}", to_text(this_process()), drawn.fetch_add(1), got, bits[0], bits[1]);
  return xxh128(std::as_bytes(std::span(text)));
}

}  // namespace xrun::runtime
