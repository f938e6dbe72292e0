// Reads a number with its unit: lex_number.cpp reads its value, lex_unit.cpp its unit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lang/text/lexer.h"

namespace xrun::lang {

// Factors of ten that touch a number: k is 10^3, M is 10^6, and so on.
inline constexpr std::string_view kMultipliers = "kMGT";

class NumberLexer : private Cursor {
 public:
  NumberLexer(std::string_view text, int32_t file, uint32_t begin, Faults& faults)
      : Cursor(text, file, begin, faults), begin_(begin) {}

  Number run(uint32_t& end);

 private:
  // Reads digits and underscores, and appends the digits to digits_. Reports an underscore at an end or next to
  // another.
  template <typename IsDigit>
  void digits(IsDigit is_one);
  void hex();
  Fix in_decimal() const;
  void decimal();

  static bool is_sign(char c) { return c == '+' || c == '-'; }

  int64_t read_exponent();
  void set_value(int64_t fraction, int64_t shift, bool whole_wanted);
  void set_whole(int64_t fraction, int64_t shift);
  void too_large();

  // lex_unit.cpp
  void unit();
  void percent_with_unit(Span unit, uint32_t end);
  bool word_unit_behind(uint32_t spaces) const;
  std::string_view name_at(uint32_t from) const;
  void unit_behind_spaces();
  bool is_value_of(std::string_view key) const;
  bool assigned_at(uint32_t end) const;
  void in_degrees(Span number);
  void unknown_unit(uint32_t from, std::string_view spelled);

  uint32_t begin_;
  Number number_;
  std::string digits_;
  bool reported_size_ = false;
};

}  // namespace xrun::lang
