// Arithmetic of constants, and the language's functions of numbers.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lang/elaborate/datum.h"
#include "lang/syntax/syntax.h"

namespace xrun::lang {

// The reason why an operation on constants has no result.
struct Problem {
  const char* code = "XG0304";
  std::string message;
  std::string fix;
};

// Applies an operator to two constants. Returns an error node and fills `problem` if there is no result, for example
// because an operand is a tensor. Float results are finite.
Datum constant_binary(Op op, const Datum& a, const Datum& b, Problem& problem);
// Applies floor, ceil, round, max, min, abs, sqrt, exp, log or len.
Datum constant_function(std::string_view name, std::span<const Datum> args, Problem& problem);
bool is_constant_function(std::string_view name);

}  // namespace xrun::lang
