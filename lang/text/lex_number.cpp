// number   = ( digits [ "." digits ] [ "e" [ "+" | "-" ] digits ] [ "%" | multiplier ] | "0x" hex ) [ unit ]
// digits   = digit { [ "_" ] digit } ;   multiplier = k M G T ;   unit = symbol unit | " " word unit
// Tests: tests/lang/text/number_test.cpp
#include <algorithm>
#include <charconv>

#include "lang/text/foreign_text.h"
#include "lang/text/lexer.h"

namespace xrun::lang {
namespace {

constexpr std::string_view kMultipliers = "kMGT";

class NumberLexer : private Cursor {
 public:
  NumberLexer(std::string_view text, int32_t file, uint32_t begin, Faults& faults)
      : Cursor(text, file, begin, faults), begin_(begin) {}

  Number run(uint32_t& end) {
    if (peek() == '0' && (peek(1) == 'x' || peek(1) == 'X')) {
      hex();
    } else {
      decimal();
    }
    end = at_;
    return number_;
  }

 private:
  // Reads digits and underscores, and appends the digits to digits_. Reports an underscore at an end or next to
  // another.
  template <typename IsDigit>
  void digits(IsDigit is_one) {
    const uint32_t from = at_;
    bool bad = peek() == '_';
    while (is_one(peek()) || peek() == '_') {
      if (peek() == '_') {
        bad = bad || !is_one(peek(1));
      } else {
        digits_ += peek();
      }
      ++at_;
    }
    if (bad && !digits_.empty()) {
      std::string plain(text_.substr(from, at_ - from));
      std::erase(plain, '_');
      faults_.error("XG0105", span(from, at_), "`_` is allowed only between two digits of a number",
                    "not between two digits", replacement("leave it out", span(from, at_), std::move(plain), true));
    }
  }

  void hex() {
    if (peek(1) == 'X') {
      faults_.error("XG0105", span(at_, at_ + 2), "hex numbers start with `0x`", "",
                    replacement("write it in lower case", span(at_ + 1, at_ + 2), "x", true));
    }
    at_ += 2;
    number_.is_hex = true;
    number_.is_whole = true;
    digits([](char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); });
    const uint32_t value_end = at_;
    if (digits_.empty()) {
      number_.is_guess = true;
      faults_.error("XG0105", span(begin_, at_), "`0x` is followed by hexadecimal digits", "there are none",
                    {"write them, as in 0x4E00"});
    }
    for (const char c : digits_) {
      const int digit = is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10;
      if (number_.whole >> 122 != 0) {
        too_large();
        break;
      }
      number_.whole = number_.whole * 16 + digit;
    }
    number_.value = static_cast<double>(number_.whole);
    number_.text = text_.substr(begin_, value_end - begin_);
    const uint32_t tail = at_;
    skip_name();
    if (at_ == tail && (peek() == '%' || word_unit_behind(1))) {
      at_ += peek() == '%' ? 1 : 0;
      faults_.error("XG0105", span(tail, tail + 1), "hex numbers take no percent sign and no unit", "", in_decimal());
    } else if (at_ != tail) {
      faults_.error("XG0105", span(tail, at_), "hex numbers take no exponent, multiplier or unit",
                    "not a hexadecimal digit", in_decimal());
    }
  }

  Fix in_decimal() const {
    const auto end = begin_ + static_cast<uint32_t>(number_.text.size());
    return replacement("write the number in decimal", span(begin_, end), to_text(number_.whole));
  }

  void decimal() {
    digits(is_digit);
    const size_t before_dot = digits_.size();
    bool has_dot = false;
    if (peek() == '.' && is_digit(peek(1))) {
      has_dot = true;
      ++at_;
      digits(is_digit);
    } else if (peek() == '.' && peek(1) != '.') {
      faults_.error("XG0105", span(begin_, at_ + 1), "a dot must be followed by a digit", "ends in a dot",
                    replacement("write the zero, or leave out the dot", span(at_, at_ + 1), ".0"));
      ++at_;
      skip_name();  // the rest is part of the same mistake
      has_dot = true;
    }
    const auto fraction = static_cast<int64_t>(digits_.size() - before_dot);
    const bool has_exponent = peek() == 'e' && (is_digit(peek(1)) || (is_sign(peek(1)) && is_digit(peek(2))));
    int64_t exponent = 0;
    if (has_exponent) {
      exponent = read_exponent();
    }
    number_.text = text_.substr(begin_, at_ - begin_);
    int64_t shift = 0;
    if (peek() == '%') {
      ++at_;
      number_.is_percent = true;
      shift = -2;
    } else if (const size_t power = kMultipliers.find(peek());
               power != std::string_view::npos && peek() != '\0' && !is_name_char(peek(1))) {
      ++at_;
      shift = 3 * static_cast<int64_t>(power + 1);
    }
    if (shift != 0) {
      number_.text = text_.substr(begin_, at_ - begin_);
    }
    set_value(fraction, exponent + shift, !has_exponent && !number_.is_percent && (!has_dot || shift > 0));
    unit();
  }

  static bool is_sign(char c) { return c == '+' || c == '-'; }

  int64_t read_exponent() {
    ++at_;
    const bool negative = peek() == '-';
    at_ += is_sign(peek()) ? 1 : 0;
    int64_t exponent = 0;
    while (is_digit(peek())) {
      exponent = std::min<int64_t>(exponent * 10 + (peek() - '0'), 1'000'000);
      ++at_;
    }
    return negative ? -exponent : exponent;
  }

  // Sets the value, digits_ * 10^(shift - fraction). If `whole_wanted` is set and the value is whole, also sets
  // is_whole.
  void set_value(int64_t fraction, int64_t shift, bool whole_wanted) {
    if (digits_.empty()) {
      return;  // a number without digits has no value
    }
    if (whole_wanted) {
      set_whole(fraction, shift);
    }
    // The power of ten is left to from_chars, which rounds correctly.
    digits_ += 'e';
    digits_ += std::to_string(shift - fraction);
    const auto [rest, error] = std::from_chars(digits_.data(), digits_.data() + digits_.size(), number_.value);
    if (error == std::errc::result_out_of_range) {
      number_.value = 0;
      too_large();
    }
  }

  void set_whole(int64_t fraction, int64_t shift) {
    size_t used = digits_.size();
    while (fraction > 0 && used > 1 && digits_[used - 1] == '0') {
      --used;
      --fraction;
    }
    if (shift < fraction) {
      return;  // not whole: 0.0001k
    }
    Int128 whole = 0;
    bool overflow = false;
    for (size_t i = 0; i < used + static_cast<size_t>(shift - fraction) && !overflow; ++i) {
      const int digit = i < used ? digits_[i] - '0' : 0;
      overflow =
          __builtin_mul_overflow(whole, Int128{10}, &whole) || __builtin_add_overflow(whole, Int128{digit}, &whole);
    }
    if (overflow) {
      too_large();
      return;
    }
    number_.whole = whole;
    number_.is_whole = true;
  }

  void too_large() {
    if (!reported_size_) {
      faults_.error(
          "XG0109", span(begin_, at_), "number is too large or too small to be kept", "",
          {"write one within the bounds: whole numbers have up to 38 digits, others are between 1e-307 and 1e308"});
    }
    reported_size_ = true;
    number_.is_guess = true;
  }

  void unit() {
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
  void percent_with_unit(Span unit, uint32_t end) {
    faults_.error("XG0108", unit, "a percentage takes no unit", "",
                  replacement("leave it out", span(end, unit.end), "", false));
  }

  // Whether a word unit follows the number after `spaces` spaces.
  bool word_unit_behind(uint32_t spaces) const {
    const std::string_view name = name_at(at_ + spaces);
    const std::optional<Unit> unit = find_unit(name);
    return unit && info_of(*unit).word && text_.substr(at_, spaces) == std::string(spaces, ' ');
  }

  std::string_view name_at(uint32_t from) const {
    uint32_t to = from;
    while (to < text_.size() && is_name_char(text_[to])) {
      ++to;
    }
    return from < text_.size() ? text_.substr(from, to - from) : std::string_view();
  }

  // Reads a word that is a unit after one space. Reports a unit or a multiplier in the wrong place. A word that is the
  // key of the next setting is neither.
  void unit_behind_spaces() {
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
      faults_.error("XG0108", span(from, from + length), {"`{}` touches its number: {}{}", name, number_.text, name},
                    "", replacement("leave out the space", span(at_, from), "", true));
      number_.unit = unit.value_or(kNoUnit);
      at_ = from + length;
    }
  }

  // Whether the number is the whole value of the setting `key`.
  bool is_value_of(std::string_view key) const {
    std::string_view line = text_.substr(0, begin_);
    line.remove_prefix(line.rfind('\n') + 1);
    const size_t sign = line.find_last_not_of(' ');
    const size_t end = sign == std::string_view::npos || sign == 0 ? sign : line.find_last_not_of(' ', sign - 1);
    return end != std::string_view::npos && line[sign] == '=' && line.substr(0, end + 1).ends_with(key) &&
           line.find_first_not_of(' ') + key.size() == end + 1;
  }

  // Whether `=` follows the name that ends at `end`, which is then the key of a setting.
  bool assigned_at(uint32_t end) const {
    const size_t sign = text_.find_first_not_of(' ', end);
    return sign != std::string_view::npos && text_[sign] == '=' && text_.substr(sign, 2) != "==";
  }

  void in_degrees(Span number) {
    number_.is_guess = true;
    faults_.error("XG0108", number, "an angle in degrees", "angles are in radians",
                  replacement("write it in radians", number, radians(number_.value), true));
  }

  void unknown_unit(uint32_t from, std::string_view spelled) {
    number_.is_guess = true;
    const auto equal_but_case = [&](std::string_view other) {
      return std::equal(spelled.begin(), spelled.end(), other.begin(), other.end(),
                        [](char a, char b) { return (a | 0x20) == (b | 0x20); });
    };
    std::string_view meant;
    if (spelled.size() == 1 && spelled != "_") {
      const char* close = spelled == "K"   ? "k"
                          : spelled == "m" ? "M"
                          : spelled == "g" ? "G"
                          : spelled == "t" ? "T"
                                           : "";
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
    } else if (!meant.empty()) {
      fix = replacement({"did you mean `{}`?", meant}, span(from, at_), std::string(meant));
    }
    faults_.error("XG0108", span(from, at_), {"unknown unit `{}`", spelled.substr(0, 40)}, "", std::move(fix));
  }

  uint32_t begin_;
  Number number_;
  std::string digits_;
  bool reported_size_ = false;
};

// A fast path for most numbers of large texts: those with few digits and without text after them that could belong to
// the number.
bool lex_plain(std::string_view text, uint32_t begin, uint32_t& end, Number& number) {
  constexpr uint32_t kExact = 15;  // decimal digits that a double holds exactly
  int64_t value = 0;
  uint32_t at = begin;
  const auto next = [&](uint32_t ahead) { return at + ahead < text.size() ? text[at + ahead] : '\n'; };
  for (; at - begin < kExact && is_digit(next(0)); ++at) {
    value = value * 10 + (next(0) - '0');
  }
  const bool ends = next(0) == ' ' ? next(1) != ' ' && !is_name_start(next(1))
                                   : std::string_view(",)]}\n").find(next(0)) != std::string_view::npos;
  if (at == begin || !ends) {
    return false;
  }
  end = at;
  number.text = text.substr(begin, at - begin);
  number.whole = value;
  number.value = static_cast<double>(value);
  number.is_whole = true;
  return true;
}

}  // namespace

Number lex_number(std::string_view text, int32_t file, uint32_t begin, uint32_t& end, Faults& faults) {
  Number number;
  if (lex_plain(text, begin, end, number)) {
    return number;
  }
  return NumberLexer(text, file, begin, faults).run(end);
}

}  // namespace xrun::lang
