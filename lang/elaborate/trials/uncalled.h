// Expands the declarations of a file that nothing calls, with made-up arguments, so that their mistakes are found
// before the first call.
#pragma once

#include "lang/elaborate/evaluator.h"
#include "lang/syntax/loader.h"

namespace xrun::lang {

// Values for the dimensions and constants that a declaration leaves open.
struct Trial {
  int64_t first_dim = 1;  // value of the first dimension variable
  int64_t step = 0;       // difference to the next dimension variable; 0: all are equal
  int open_dims = 0;      // number of dimensions that `...` stands for
  int64_t whole = 1;
  double real = 1;
  bool flag = false;
  bool spread = false;  // each constant parameter gets another number
};

// Tries the blocks, functions and models of `file` that `evaluator` has not expanded, and reports faults in their
// bodies: names and calls that are wrong for any arguments, and faults of types and shapes that every trial has. The
// latter are warnings if other arguments may avoid them.
void check_uncalled(Evaluator& evaluator, const SourceFile& file);
}  // namespace xrun::lang
