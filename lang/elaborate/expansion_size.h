// The least work of expanding a declaration, computed from its text before it is expanded. Each call of a block or a
// function counts the body of the callee again. A few lines in which each block calls the one before it twice are
// therefore found to be too large.
#pragma once

#include <unordered_map>

#include "graph/op_def.h"
#include "lang/syntax/loader.h"

namespace xrun::lang {

// Lower bounds of the work. They are doubles because twenty lines can cause more doublings than an integer can count.
// The smaller one of two alternatives is counted. A `repeat` whose count is not a number in the text counts as nothing.
struct ExpansionSize {
  double steps = 0;  // steps of evaluation
  double nodes = 0;  // operators, tensors and parameters
};

class ExpansionSizes {
 public:
  explicit ExpansionSizes(const OpRegistry* ops) : ops_(ops) {}

  // The size of one call of a function or a block, or of a model. Each declaration is counted once.
  ExpansionSize of(const DeclRef& ref);

 private:
  friend class SizeCounter;

  const OpRegistry* ops_;
  std::unordered_map<const Decl*, ExpansionSize> known_;  // 0 while a declaration is being counted
  int depth_ = 0;                                         // number of declarations that are being counted
};

}  // namespace xrun::lang
