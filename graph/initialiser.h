// Initial values of parameters by their names in the language: "he_normal()", "normal(0.02)".
#pragma once

#include <span>
#include <string_view>

#include "graph/base/result.h"
#include "graph/op_def.h"

namespace xrun {

// Fan-in and fan-out of a parameter: the number of terms that one output sums, and the number of outputs that use one
// input.
struct Fans {
  int64_t in = 1;
  int64_t out = 1;
};

// Finds the initialiser that a text names; empty parentheses may be left out. Deviations are standard deviations.
//   he_normal()      deviation sqrt(2 / in)              He et al., ICCV 2015
//   xavier_normal()  deviation sqrt(2 / (in + out))      Glorot, Bengio, AISTATS 2010
//   lecun_normal()   deviation sqrt(1 / in)              LeCun et al., "Efficient BackProp", 1998
//   he_uniform() xavier_uniform() lecun_uniform()        from -a to a with these deviations, a = sqrt(3) times them
//   normal(0.02)     the deviation is 0.02; trunc_normal(0.02) draws values beyond two deviations again
//   uniform(0.1)     from -0.1 to 0.1
//   constant(0.1)  zeros()  ones()
// Errors: XG0201 for an unknown name, XG0204 for an extra or a missing number, XG0303 for a number that is out of
// range.
Result<Init> find_init(std::string_view text, const Fans& fans);

// The initialisers above as messages show them, with the name of the argument if one is required: "he_normal()",
// "normal(deviation)".
std::span<const std::string_view> init_forms();

}  // namespace xrun
