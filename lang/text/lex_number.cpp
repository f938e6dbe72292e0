// number   = ( digits [ "." digits ] [ "e" [ "+" | "-" ] digits ] [ "%" | multiplier ] | "0x" hex ) [ unit ]
// digits   = digit { [ "_" ] digit } ;   multiplier = k M G T ;   unit = symbol unit | " " word unit
// Tests: tests/lang/text/number_test.cpp
#include <algorithm>
#include <charconv>

#include "lang/text/number_lexer.h"

namespace xrun::lang {

Number NumberLexer::run(uint32_t& end) {
  if (peek() == '0' && (peek(1) == 'x' || peek(1) == 'X')) {
    hex();
  } else {
    decimal();
  }
  end = at_;
  return number_;
}

template <typename IsDigit>
void NumberLexer::digits(IsDigit is_one) {
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

void NumberLexer::hex() {
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

Fix NumberLexer::in_decimal() const {
  const auto end = begin_ + static_cast<uint32_t>(number_.text.size());
  return replacement("write the number in decimal", span(begin_, end), to_text(number_.whole));
}

void NumberLexer::decimal() {
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

int64_t NumberLexer::read_exponent() {
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
void NumberLexer::set_value(int64_t fraction, int64_t shift, bool whole_wanted) {
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

void NumberLexer::set_whole(int64_t fraction, int64_t shift) {
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

void NumberLexer::too_large() {
  if (!reported_size_) {
    faults_.error(
        "XG0109", span(begin_, at_), "number is too large or too small to be kept", "",
        {"write one within the bounds: whole numbers have up to 38 digits, others are between 1e-307 and 1e308"});
  }
  reported_size_ = true;
  number_.is_guess = true;
}

namespace {

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
