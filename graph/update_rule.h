// UpdateRule: the update of an optimizer that is written in the language, as a value. Numbers that depend on the step
// alone are computed once a step, in f64; all others for each element, in f32.
#pragma once

#include <string>
#include <string_view>

#include "graph/attr.h"
#include "graph/base/result.h"
#include "graph/scalar_expr.h"

namespace xrun {

inline constexpr int kMostUpdateStates = 2;    // f32 numbers that go with each weight
inline constexpr int kMostUpdateScalars = 16;  // numbers of a step that elements read

// The inputs of UpdateRule::scalars.
enum class StepInput : int { kRate, kStep, kDecay };  // the step counts from 1; the decay is that of the tensor
inline constexpr int kStepInputs = 3;

struct UpdateRule {
  int states = 0;
  ScalarExpr scalars;   // of StepInput
  ScalarExpr elements;  // inputs: weight, gradient, states, results of `scalars`; results: the new weight and states

  int inputs() const { return 2 + states + static_cast<int>(scalars.results().size()); }
};

// Separates what elements need from what a step needs. `all`: inputs are weight, gradient, the states, then those of
// StepInput; results are the new weight and states. Errors: XG0216 for more scalars than a step may have.
Result<UpdateRule> make_update_rule(const ScalarExpr& all, int states);

// An own optimizer is a call whose arguments hold its rule: two texts, and the names of its states.
void store_update_rule(const UpdateRule& rule, const std::vector<std::string>& states, Attrs& arguments);
bool has_update_rule(const Attrs& arguments);
Attrs without_update_rule(const Attrs& arguments);  // those that the call gives
// Errors: XG0303 where a text cannot be read, or does not fit the states.
Result<UpdateRule> read_update_rule(const Attrs& arguments);

}  // namespace xrun
