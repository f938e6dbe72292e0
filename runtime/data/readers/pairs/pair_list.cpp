#include "runtime/data/readers/pairs/pair_list.h"

#include <algorithm>
#include <fmt/format.h>

#include "graph/base/errors.h"
#include "graph/base/utf8.h"

namespace xrun::runtime {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Removes the first line from `text` and returns it without its end.
std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  return line;
}

char delimiter_of(std::string_view line) { return line.find('\t') != std::string_view::npos ? '\t' : ' '; }

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t") == std::string_view::npos; }

std::vector<std::string_view> columns_of(std::string_view line) {
  std::vector<std::string_view> columns;
  const char delimiter = delimiter_of(line);
  for (size_t at = 0; at <= line.size(); at += columns.back().size() + 1) {
    columns.push_back(line.substr(at, line.find(delimiter, at) - at));
  }
  return columns;
}

}  // namespace

std::optional<uint8_t> pair_flag(std::string_view text) {
  constexpr std::string_view kTrue[] = {"1", "True", "true"};
  constexpr std::string_view kFalse[] = {"0", "False", "false"};
  if (std::ranges::find(kTrue, text) != std::end(kTrue)) {
    return uint8_t{1};
  }
  return std::ranges::find(kFalse, text) != std::end(kFalse) ? std::optional<uint8_t>(0) : std::nullopt;
}

bool is_pair_list(std::span<const std::byte> start) {
  std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  if (text.starts_with(kByteOrderMark)) {
    text.remove_prefix(kByteOrderMark.size());
  }
  std::string_view line;
  while (!text.empty() && is_blank(line)) {
    line = take_line(text);
  }
  const auto is_text = [](char c) { return c == '\t' || !is_control(c); };
  if (!std::ranges::all_of(line, is_text)) {
    return false;
  }
  // A pickle of protocol 0 may have spaces in its first line, but no tabs.
  const auto columns = columns_of(line);
  return delimiter_of(line) == '\t' || (columns.size() == 3 && pair_flag(columns[2]));
}

Result<PairList> parse_pair_list(std::string_view text, std::string_view name) {
  PairList list;
  if (text.starts_with(kByteOrderMark)) {
    text.remove_prefix(kByteOrderMark.size());
  }
  for (int64_t number = 1; !text.empty(); ++number) {
    const std::string_view line = take_line(text);
    if (is_blank(line)) {
      continue;
    }
    const auto fault = [&](const std::string& why) {
      return content_error("XG0412", {"{}:{}: {}", name, number, why},
                           "a line of a list of pairs has a path, a tab, a path, a tab, and 1 (same) or 0");
    };
    const auto columns = columns_of(line);
    if (columns.size() != 3) {
      return fault(fmt::format("{} columns instead of 3", columns.size()));
    }
    const auto flag = pair_flag(columns[2]);
    if (!flag) {
      return fault(fmt::format("`{}` is neither 1 nor 0", printable_line(columns[2].substr(0, 32))));
    }
    if (columns[0].empty() || columns[1].empty()) {
      return fault("a path is empty");
    }
    list.paths.insert(list.paths.end(), {columns[0], columns[1]});
    list.same.push_back(*flag);
  }
  return list;
}

}  // namespace xrun::runtime
