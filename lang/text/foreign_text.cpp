// Tests: tests/lang/text/foreign_names_test.cpp, tests/lang/first_time_test.cpp
#include "lang/text/foreign_text.h"

#include <algorithm>
#include <fmt/format.h>
#include <numbers>

#include "graph/base/alike.h"
#include "graph/base/utf8.h"
#include "lang/text/lexer.h"

namespace xrun::lang {
namespace {

struct Sign {
  std::string_view text;
  std::string_view meant;
  TokenKind kind;
  bool sure = true;
};

// The signs of other languages and their replacements. Longer signs come before their prefixes.
constexpr Sign kSigns[] = {
    {"-->", "->", TokenKind::kArrow},        {"~>", "->", TokenKind::kArrow},
    {"|>", "->", TokenKind::kArrow},         {">>", "->", TokenKind::kArrow},
    {"\u2192", "->", TokenKind::kArrow},     {"\u21D2", "->", TokenKind::kArrow},
    {"\u27F6", "->", TokenKind::kArrow},     {"\u2212", "-", TokenKind::kMinus},
    {"\u2010", "-", TokenKind::kMinus},      {"\u2011", "-", TokenKind::kMinus},
    {"\u2013", "-", TokenKind::kMinus},      {"\u2014", "-", TokenKind::kMinus},
    {"\u00D7", "*", TokenKind::kStar},       {"\u22C5", "*", TokenKind::kStar},
    {"\u00B7", "*", TokenKind::kStar},       {"\u00F7", "/", TokenKind::kSlash},
    {"\u2264", "<=", TokenKind::kLessEqual}, {"\u2265", ">=", TokenKind::kGreaterEqual},
    {"\u2260", "!=", TokenKind::kNotEqual},  {"\u2026", "...", TokenKind::kEllipsis},
    {"\u3001", ",", TokenKind::kComma},      {"<>", "!=", TokenKind::kNotEqual},
    {"===", "==", TokenKind::kEqual},        {"!==", "!=", TokenKind::kNotEqual},
    {"&&", "and", TokenKind::kAnd},          {"||", "or", TokenKind::kOr},
    {"**", "^", TokenKind::kCaret},          {":=", "=", TokenKind::kAssign},
    {"!", "not ", TokenKind::kNot},          {"|", "->", TokenKind::kArrow, false},
    {"&", "and", TokenKind::kAnd, false},
};

constexpr std::string_view kBlanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  const size_t first = std::min(text.find_first_not_of(kBlanks), text.size());
  text.remove_prefix(first);
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

std::string_view first_word(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && is_name_char(text[end])) {
    ++end;
  }
  return text.substr(0, end);
}

bool is_word_of_language(std::string_view word) {
  for (TokenKind kind = TokenKind::kTrue; is_reserved(kind); kind = next(kind)) {
    if (text_of(kind) == word) {
      return true;
    }
  }
  return false;
}

constexpr const char* kComments = "a comment starts with `#` and ends with its line";

// A comment from `open` to `close`, possibly of several lines.
ForeignText block_comment(const Place& place, std::string_view open, std::string_view close) {
  const size_t found = place.text.find(close, place.at + open.size());
  const size_t line_end = place.at + place.rest_of_line().size();
  const bool closed = found != std::string_view::npos;
  const auto end = static_cast<uint32_t>(closed ? found + close.size() : line_end);
  const Span all = place.to(end);
  ForeignText made{.end = end, .meant = TokenKind::kNewline, .message = fmt::format("`{}` starts no comment", open)};
  const std::string_view behind = place.text.substr(end, place.text.find('\n', end) - end);
  if (!closed || !trimmed(behind).empty()) {
    made.fix = {kComments};
    return made;
  }
  std::string_view body = place.text.substr(place.at + open.size(), found - place.at - open.size());
  const size_t indent = std::min(place.line_before().find_first_not_of(' '), place.line_before().size());
  std::string text;
  while (!body.empty()) {
    const size_t cut = std::min(body.find('\n'), body.size());
    std::string_view line = trimmed(body.substr(0, cut));
    line.remove_prefix(line.starts_with('*') ? 1 : 0);
    line = trimmed(line);
    if (!line.empty()) {
      text += (text.empty() ? "# " : "\n" + std::string(indent, ' ') + "# ") + std::string(line);
    }
    body.remove_prefix(std::min(cut + 1, body.size()));
  }
  made.fix = replacement(kComments, all, std::move(text), true);
  return made;
}

// The replacement of `=>` after the text `before`: an arrow, except in comparisons and in declarations of functions.
Sign fat_arrow(std::string_view before) {
  const std::string_view line = trimmed(before);
  if (line.starts_with("fn ") || line.starts_with("pointwise ")) {
    return {"=>", "=", TokenKind::kAssign};
  }
  for (size_t at = 0; at < line.size(); ++at) {
    const bool starts = is_name_start(line[at]) && (at == 0 || !is_name_char(line[at - 1]));
    const std::string_view word = starts ? first_word(line.substr(at)) : std::string_view();
    if (word == "if" || word == "assert" || word == "expect" || word == "stop_when") {
      return {"=>", ">=", TokenKind::kGreaterEqual};
    }
  }
  return {"=>", "->", TokenKind::kArrow};
}

// The sign of the language that a full-width character stands for; nullopt if it stands for no sign.
std::optional<Sign> full_width(std::string_view sequence, char ascii) {
  static const std::string kAll = "()[]{},:.=+-*/%^<>";
  const size_t found = kAll.find(ascii);
  if (found == std::string::npos) {
    return std::nullopt;
  }
  for (TokenKind kind = TokenKind::kLeftParen; kind <= TokenKind::kGreaterEqual; kind = next(kind)) {
    if (text_of(kind) == std::string_view(kAll).substr(found, 1)) {
      return Sign{sequence, text_of(kind), kind};
    }
  }
  return std::nullopt;
}

bool is_ascii_word(std::string_view text) {
  return !text.empty() && is_name_start(text[0]) && std::ranges::all_of(text, is_name_char);
}

// Whether the character is punctuation or a symbol, and therefore ends a word.
bool is_symbol(uint32_t code) {
  const auto within = [&](uint32_t first, uint32_t last) { return code >= first && code <= last; };
  return (within(0x80, 0xBF) && code != 0xAA && code != 0xAD && code != 0xB5 && code != 0xBA) || code == 0xD7 ||
         code == 0xF7 || (within(0x2000, 0x206F) && !is_invisible(code)) || within(0x2190, 0x2BFF) ||
         within(0x3000, 0x303F) || within(0xFF00, 0xFF0F) || within(0xFF1A, 0xFF20) || within(0xFF3B, 0xFF3E) ||
         within(0xFF5B, 0xFF65) || within(0x1F000, 0x1FAFF);
}

}  // namespace

std::string_view Place::line_before() const {
  const size_t start = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
  return text.substr(start, at - start);
}

std::string_view Place::rest_of_line() const { return rest().substr(0, rest().find('\n')); }

bool is_prose(std::string_view text) {
  text = trimmed(text);
  const std::string_view one = first_word(text);
  const std::string_view behind = text.substr(one.size());
  const std::string_view two = first_word(trimmed(behind));
  const std::string_view after = trimmed(trimmed(behind).substr(two.size()));
  return is_ascii_word(one) && behind.starts_with(' ') && is_ascii_word(two) && !is_word_of_language(one) &&
         !is_word_of_language(two) && !after.starts_with('=') && !after.starts_with('{');
}

std::string radians(double degrees) { return fmt::format("{:.4g}", degrees * std::numbers::pi / 180); }

std::optional<ForeignText> foreign_comment(const Place& place, bool starts_statement) {
  const std::string_view rest = place.rest();
  if (rest.starts_with("/*")) {
    return block_comment(place, "/*", "*/");
  }
  if (rest.starts_with("<!--")) {
    return block_comment(place, "<!--", "-->");
  }
  if (starts_statement && rest.starts_with("\"\"\"")) {
    return block_comment(place, "\"\"\"", "\"\"\"");
  }
  const std::string_view sign = rest.starts_with("//")   ? "//"
                                : rest.starts_with("--") ? "--"
                                : rest.starts_with("%")  ? "%"
                                : rest.starts_with(";")  ? ";"
                                                         : "";
  const std::string_view line = place.rest_of_line();
  if (sign.empty() || rest.starts_with("-->") || (!starts_statement && !is_prose(line.substr(sign.size())))) {
    return std::nullopt;
  }
  return ForeignText{.end = place.at + static_cast<uint32_t>(line.size()),
                     .meant = TokenKind::kNewline,
                     .message = fmt::format("`{}` starts no comment", sign),
                     .fix = replacement(kComments, place.to(place.at + static_cast<uint32_t>(sign.size())), "#", true)};
}

// Replaces `c ? a : b` of C if its parts are clear: the condition has to follow `=`, a comma or a bracket.
std::optional<ForeignText> question_mark(const Place& place) {
  const std::string_view line = place.rest_of_line().substr(1);
  ForeignText made{.end = place.at + 1,
                   .message = "`?` is not a sign of the language",
                   .fix = {"a choice is written `if c { a } else { b }`"}};
  const size_t colon = line.find(':');
  const std::string_view before = place.line_before();
  size_t begin = before.size();
  int depth = 0;
  // Whether the condition starts after this character: a comma, an opening bracket, or a `=` that is not part of a
  // comparison.
  const auto stops = [&](size_t at) {
    const bool compares = (at + 1 < before.size() && before[at + 1] == '=') ||
                          (at > 0 && std::string_view("=<>!").find(before[at - 1]) != std::string_view::npos);
    return std::string_view(",([").find(before[at]) != std::string_view::npos || (before[at] == '=' && !compares);
  };
  while (begin > 0 && (depth > 0 || !stops(begin - 1))) {
    const char c = before[--begin];
    depth += c == ')' || c == ']' ? 1 : c == '(' || c == '[' ? -1 : 0;
  }
  size_t end = colon == std::string_view::npos ? line.size() : colon + 1;
  for (depth = 0;
       end < line.size() && (depth > 0 || std::string_view(",)]#").find(line[end]) == std::string_view::npos); ++end) {
    depth += line[end] == '(' || line[end] == '[' ? 1 : line[end] == ')' || line[end] == ']' ? -1 : 0;
  }
  const std::string_view condition = trimmed(before.substr(begin));
  if (condition.empty() && begin > 0 && before[begin - 1] == '[') {  // the type f32[?, 64]
    made.fix = replacement("the batch is `N`", place.to(made.end), "N", true);
    return made;
  }
  if (begin == 0 || colon == std::string_view::npos || condition.empty()) {
    return made;
  }
  const auto first = static_cast<uint32_t>(condition.data() - place.text.data());
  const std::string_view yes = trimmed(line.substr(0, colon));
  const std::string_view no = trimmed(line.substr(colon + 1, end - colon - 1));
  const auto last = static_cast<uint32_t>(no.data() + no.size() - place.text.data());
  made.end = std::max(place.at + 1, last);
  made.fix = replacement("write `if c { a } else { b }`", {place.file, first, last},
                         {"if {} {{ {} }} else {{ {} }}", condition, yes, no});
  return made;
}

std::optional<ForeignText> foreign_sign(const Place& place) {
  const std::string_view rest = place.rest();
  const uint32_t length = sequence_length(rest);
  if (rest[0] == '?') {
    return question_mark(place);
  }
  if (rest.starts_with("~/")) {
    const std::string_view path = rest.substr(0, rest.find_first_of(" ,)]\"\r\n"));
    const auto path_end = place.at + static_cast<uint32_t>(path.size());
    return ForeignText{.end = path_end,
                       .message = "a path is written in double quotes",
                       .fix = replacement("write it in double quotes", place.to(path_end), {"\"{}\"", path}, true)};
  }
  std::optional<Sign> sign;
  if (rest.starts_with("=>")) {
    sign = fat_arrow(place.line_before());
  } else {
    const auto found = std::ranges::find_if(kSigns, [&](const Sign& one) { return rest.starts_with(one.text); });
    sign = found != std::end(kSigns) ? std::optional(*found) : std::nullopt;
  }
  if (length > 1 && !sign) {
    const uint32_t code = characters(rest.substr(0, length))[0];
    const char ascii = ascii_alike(code);
    const uint32_t end = place.at + length;
    if (is_invisible(code)) {
      return ForeignText{end, TokenKind::kNewline, fmt::format("an invisible character, {}", number_of_character(code)),
                         replacement("leave it out", place.to(end), "", true)};
    }
    if (ascii == ' ') {
      return ForeignText{end, TokenKind::kNewline,
                         fmt::format("a space of another kind, {}", number_of_character(code)),
                         replacement("write a plain space", place.to(end), " ", true)};
    }
    sign = full_width(rest.substr(0, length), ascii);
  }
  if (!sign) {
    return std::nullopt;
  }
  const auto end = place.at + static_cast<uint32_t>(sign->text.size());
  return ForeignText{end, sign->kind, fmt::format("`{}` is not a sign of the language", sign->text),
                     replacement({"write `{}`", sign->meant}, place.to(end), std::string(sign->meant), sign->sure)};
}

std::optional<ForeignText> foreign_word(const Place& place) {
  uint32_t end = place.at;
  std::string plain;                // the word with ASCII letters in place of the characters that look like them
  std::optional<uint32_t> foreign;  // first character that names cannot have
  for (bool goes_on = true; goes_on && end < place.text.size();) {
    const std::string_view rest = place.text.substr(end);
    const uint32_t length = sequence_length(rest);
    if (length == 1) {
      goes_on = is_name_char(rest[0]);
      plain += goes_on ? std::string(1, rest[0]) : "";
    } else if (length > 1) {
      const uint32_t code = characters(rest.substr(0, length))[0];
      goes_on = !is_symbol(code);
      const char ascii = ascii_alike(code);
      foreign = goes_on && !foreign ? code : foreign;
      plain += !goes_on || is_invisible(code)      ? std::string()
               : ascii != 0 && is_name_char(ascii) ? std::string(1, ascii)
                                                   : std::string(rest.substr(0, length));
    }
    goes_on = goes_on && length > 0;
    end += goes_on ? length : 0;
  }
  if (!foreign) {
    return std::nullopt;
  }
  const std::string word(place.text.substr(place.at, end - place.at));
  ForeignText made{.end = end};
  if (std::ranges::all_of(plain, is_name_char) && !plain.empty()) {
    made.message = fmt::format("`{}` has {}, which {}", word, number_of_character(*foreign),
                               is_invisible(*foreign)
                                   ? std::string("is invisible")
                                   : fmt::format("looks like `{}` and is another character", ascii_alike(*foreign)));
    made.fix = replacement({"write `{}`", plain}, place.to(end), plain, true);
  } else {
    made.message = fmt::format("`{}` has {}, which names cannot have", word, number_of_character(*foreign));
    made.fix = {"names are made of a-z, A-Z, 0-9 and `_`; other characters are allowed only in strings and comments"};
  }
  return made;
}

}  // namespace xrun::lang
