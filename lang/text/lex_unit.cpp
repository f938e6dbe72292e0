// Reads the unit of a number, and reports units that do not exist or are in the wrong place.
// Tests: tests/lang/text/number_test.cpp
#include <algorithm>

#include "lang/text/foreign_text.h"
#include "lang/text/number_lexer.h"

namespace xrun::lang {

void NumberLexer::unit() {
  const uint32_t from = at_;
  skip_name();
  if (at_ == from) {
    unit_behind_spaces();
    return;
  }
  const std::string_view name = text_.substr(from, at_ - from);
  const bool per_second = peek() == '/' && peek(1) == 's' && !is_name_char(peek(2));
  std::optional<Unit> unit = find_unit(name);
  if (per_second) {
    const std::optional<Unit> rate = find_unit(text_.substr(from, at_ + 2 - from));
    if (rate || !unit) {
      at_ += 2;
      unit = rate;
    }
  }
  const std::string_view spelled = text_.substr(from, at_ - from);
  if (!unit) {
    unknown_unit(from, spelled);
    if (word_unit_behind(1)) {  // 10K steps
      number_.unit = *find_unit(name_at(at_ + 1));
      at_ += 1 + static_cast<uint32_t>(info_of(number_.unit).text.size());
    }
  } else if (info_of(*unit).word && is_value_of(spelled)) {  // epochs = 30epochs
    faults_.error("XG0108", span(from, at_), {"`{}` is already the unit of this setting", spelled}, "",
                  replacement("leave it out", span(from, at_), "", true));
  } else if (info_of(*unit).word) {
    faults_.error("XG0108", span(from, at_), {"`{}` follows its number after one space", spelled}, "",
                  replacement("put the space", span(from, from), " ", true));
    number_.unit = *unit;
  } else if (number_.is_percent) {
    percent_with_unit(span(from, at_), from);
  } else {
    number_.unit = *unit;
  }
}

// Reports a unit after `%`. `end` is the end of the number with its `%`.
void NumberLexer::percent_with_unit(Span unit, uint32_t end) {
  faults_.error("XG0108", unit, "a percentage takes no unit", "",
                replacement("leave it out", span(end, unit.end), "", false));
}

// Whether a word unit follows the number after `spaces` spaces.
bool NumberLexer::word_unit_behind(uint32_t spaces) const {
  const std::string_view name = name_at(at_ + spaces);
  const std::optional<Unit> unit = find_unit(name);
  return unit && info_of(*unit).word && text_.substr(at_, spaces) == std::string(spaces, ' ');
}

std::string_view NumberLexer::name_at(uint32_t from) const {
  uint32_t to = from;
  while (to < text_.size() && is_name_char(text_[to])) {
    ++to;
  }
  return from < text_.size() ? text_.substr(from, to - from) : std::string_view();
}

// Reads a word that is a unit after one space. Reports a unit or a multiplier in the wrong place. A word that is the
// key of the next setting is neither.
void NumberLexer::unit_behind_spaces() {
  uint32_t spaces = 0;
  while (peek(spaces) == ' ') {
    ++spaces;
  }
  if (spaces == 0 || !is_name_start(peek(spaces))) {
    return;
  }
  const uint32_t from = at_ + spaces;
  std::string_view name = name_at(from);
  if (const std::string_view rate = text_.substr(from, name.size() + 2); find_unit(rate)) {
    name = rate;
  }
  const auto length = static_cast<uint32_t>(name.size());
  if (assigned_at(from + length)) {
    return;  // the word is the next key: lr = 0.1 epochs = 2
  }
  const std::optional<Unit> unit = find_unit(name);
  if (name == "deg" || name == "degrees") {
    at_ = from + length;
    in_degrees(span(begin_, at_));
    return;
  }
  const bool multiplier = name.size() == 1 && kMultipliers.find(name[0]) != std::string_view::npos;
  if (unit && info_of(*unit).word) {
    if (number_.is_percent) {
      percent_with_unit(span(from, from + length), at_);
    } else if (spaces > 1) {
      faults_.error("XG0108", span(from, from + length), {"`{}` follows its number after one space", name}, "",
                    replacement("leave one space", span(at_, from), " ", true));
    } else {
      number_.unit = *unit;
    }
    at_ = from + length;
  } else if (unit || multiplier) {
    faults_.error("XG0108", span(from, from + length), {"`{}` touches its number: {}{}", name, number_.text, name}, "",
                  replacement("leave out the space", span(at_, from), "", true));
    number_.unit = unit.value_or(kNoUnit);
    at_ = from + length;
  }
}

// Whether the number is the whole value of the setting `key`.
bool NumberLexer::is_value_of(std::string_view key) const {
  std::string_view line = text_.substr(0, begin_);
  line.remove_prefix(line.rfind('\n') + 1);
  const size_t sign = line.find_last_not_of(' ');
  const size_t end = sign == std::string_view::npos || sign == 0 ? sign : line.find_last_not_of(' ', sign - 1);
  return end != std::string_view::npos && line[sign] == '=' && line.substr(0, end + 1).ends_with(key) &&
         line.find_first_not_of(' ') + key.size() == end + 1;
}

// Whether `=` follows the name that ends at `end`, which is then the key of a setting.
bool NumberLexer::assigned_at(uint32_t end) const {
  const size_t sign = text_.find_first_not_of(' ', end);
  return sign != std::string_view::npos && text_[sign] == '=' && text_.substr(sign, 2) != "==";
}

void NumberLexer::in_degrees(Span number) {
  number_.is_guess = true;
  faults_.error("XG0108", number, "an angle in degrees", "angles are in radians",
                replacement("write it in radians", number, radians(number_.value), true));
}

void NumberLexer::unknown_unit(uint32_t from, std::string_view spelled) {
  number_.is_guess = true;
  const auto equal_but_case = [&](std::string_view other) {
    return std::equal(spelled.begin(), spelled.end(), other.begin(), other.end(),
                      [](char a, char b) { return (a | 0x20) == (b | 0x20); });
  };
  std::string_view meant;
  if (spelled.size() == 1 && spelled != "_") {
    const char* close = spelled == "K" ? "k" : spelled == "m" ? "M" : spelled == "g" ? "G" : spelled == "t" ? "T" : "";
    meant = close;
  }
  for (const UnitInfo& info : unit_table()) {
    if (meant.empty() && !info.text.empty() && !info.word && equal_but_case(info.text)) {
      meant = info.text;
    }
  }
  if (spelled == "deg" || spelled == "degrees" || spelled == "degree") {
    in_degrees(span(begin_, at_));
    return;
  }
  Fix fix{
      "known are B KiB GiB/s Gbit/s us ms s min h d GFLOPS W GHz and their like; ` steps`, ` epochs` and "
      "` samples` follow a space"};
  if (spelled[0] == 'E' && (spelled.size() > 1 ? is_digit(spelled[1]) : is_sign(peek()))) {
    fix = replacement("the exponent is a small `e`", span(from, from + 1), "e", true);
  } else if (number_.text == "1" && spelled == "f1b") {
    fix = replacement("the schedule is written `one_f_one_b`", span(begin_, at_), "one_f_one_b");
  } else if (!meant.empty()) {
    fix = replacement({"did you mean `{}`?", meant}, span(from, at_), std::string(meant));
  }
  faults_.error("XG0108", span(from, at_), {"unknown unit `{}`", spelled.substr(0, 40)}, "", std::move(fix));
}

}  // namespace xrun::lang
