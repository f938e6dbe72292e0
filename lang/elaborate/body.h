// The evaluation of bodies: kinds of bodies, and the state of the body of a `pointwise`, an optimizer or a state.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/source.h"
#include "graph/settings/update_rule.h"
#include "graph/types/scalar_expr.h"
#include "lang/elaborate/datum.h"
#include "lang/elaborate/scope.h"
#include "lang/syntax/syntax.h"

namespace xrun::lang {

// An optimizer declared in a file: its update, and the names of its states.
struct OwnOptimizer {
  UpdateRule rule;
  std::vector<std::string> states;
};

// The calls of norm(x) that the update of an optimizer contains.
struct NormCalls {
  int elements = 0;                // number of inputs of the expression for an element; the others are of the step
  int first_input = 0;             // index of the input that is the first norm
  std::vector<ScalarId> summed{};  // for each norm, the number whose squares it sums
  std::vector<Span> spans{};
};

// The calls of batch_mean(x) in the assignment of a state. They are inputs 1, 2, ... of its expression.
struct MeanCalls {
  Scope* scope = nullptr;  // scope of the statement: `x` is one of its tensors
  std::vector<Datum> tensors;
};

// The result of BodyKind::run for a statement. kDone: the statement is evaluated; kShared: it is evaluated as in every
// kind of body; kRefused: it is reported as not allowed in this body; kEnd: the rest of the body is skipped.
enum class Step { kDone, kShared, kRefused, kEnd };

// A kind of body: the function for its own statements, and the message for a statement that is not allowed in it.
struct BodyKind {
  std::function<Step(const Stmt&)> run;
  const char* refusal;
  const char* label;
  const char* help;
};

// Sets the expression to which scalars are appended; the destructor restores the previous one.
class BuildsScalars {
 public:
  BuildsScalars(ScalarExpr*& current, ScalarExpr* expr) : current_(current), outer_(std::exchange(current, expr)) {}
  ~BuildsScalars() { current_ = outer_; }
  BuildsScalars(const BuildsScalars&) = delete;
  BuildsScalars& operator=(const BuildsScalars&) = delete;

 private:
  ScalarExpr*& current_;
  ScalarExpr* outer_;
};

}  // namespace xrun::lang
