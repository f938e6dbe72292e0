// Finds strings in the quotes of other languages, and statements that end in `;`.
#include <algorithm>

#include "lang/text/foreign_text.h"

namespace xrun::lang {
namespace {

// A pair of quotes of other languages or of word processors.
struct Quotes {
  std::string_view open;
  std::string_view close;
};
constexpr Quotes kForeignQuotes[] = {
    {"'", "'"},           {"`", "`"},           {"\u201C", "\u201D"}, {"\u201D", "\u201D"},
    {"\u2018", "\u2019"}, {"\u201E", "\u201C"}, {"\u00AB", "\u00BB"}, {"\uFF02", "\uFF02"},
};

}  // namespace

// A string such as 'abc' is reported as one fault, since its meaning is clear.
std::optional<ForeignText> foreign_string(const Place& place) {
  const std::string_view line = place.rest_of_line();
  const auto quotes =
      std::ranges::find_if(kForeignQuotes, [&](const Quotes& one) { return line.starts_with(one.open); });
  if (quotes == std::end(kForeignQuotes)) {
    return std::nullopt;
  }
  const size_t close = line.find(quotes->close, quotes->open.size());
  const bool closed = close != std::string_view::npos;
  const auto end = place.at + static_cast<uint32_t>(closed ? close + quotes->close.size() : quotes->open.size());
  ForeignText made{
      .end = end, .message = "strings are written in double quotes", .fix = {"write \" before and after the string"}};
  if (closed && line.find_first_of("\"\\") > close) {
    const std::string_view inner = line.substr(quotes->open.size(), close - quotes->open.size());
    made.fix = replacement("write it in double quotes", place.to(end), {"\"{}\"", inner}, true);
  }
  return made;
}

Fix statement_end(const Place& place) {
  const std::string_view line = place.line_before();
  const uint32_t behind = place.at + 1;
  const size_t next = std::min(place.text.find_first_not_of(" \t\r", behind), place.text.size());
  if (next == place.text.size() || place.text[next] == '\n' || place.text[next] == '#') {
    return replacement("a newline ends a statement", place.to(behind), "", true);
  }
  const size_t indent = std::min(line.find_first_not_of(' '), line.size());
  return replacement("a newline ends a statement", place.to(static_cast<uint32_t>(next)),
                     "\n" + std::string(indent, ' '), true);
}

}  // namespace xrun::lang
