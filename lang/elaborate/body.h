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
  int elements = 0;                // inputs of the expression that belong to an element; the others belong to the step
  int first_input = 0;             // input of the expression that is the first norm
  std::vector<ScalarId> summed{};  // the number whose squares each norm sums
  std::vector<Span> spans{};
};

// The calls of batch_mean(x) in the assignment of a state. They are inputs 1, 2, ... of its expression.
struct MeanCalls {
  Scope* scope = nullptr;  // scope of the statement: `x` is one of its tensors
  std::vector<Datum> tensors;
};

// The next step after a body has handled one of its own statements: kDone: nothing; kShared: the statement is run as in
// every kind of body; kRefused: the statement is reported; kEnd: the rest of the body is skipped.
enum class Step { kDone, kShared, kRefused, kEnd };

// A kind of body: how it handles its own statements, and the message for a statement that it cannot have.
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
