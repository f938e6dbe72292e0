// Arithmetic of constants, and the functions of numbers that the language has.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lang/datum.h"
#include "lang/syntax.h"

namespace xrun::lang {

// A constant operation on numbers, strings, booleans and lists; on failure `problem` says why.
Datum constant_binary(Op op, const Datum& a, const Datum& b, std::string& problem);
// floor, ceil, max, min, abs, sqrt, exp, log, round, len; `known` is false for another name.
Datum constant_function(std::string_view name, std::span<const Datum> args, std::string& problem);
bool is_constant_function(std::string_view name);

}  // namespace xrun::lang
