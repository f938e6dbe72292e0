// UpdateRule: the update of an optimizer that is written in the language, as a value. Numbers that depend on the step
// alone are computed once a step, and those that depend on norms alone once a tensor, in f64; all others for each
// element, in f32.
#pragma once

#include <string>
#include <vector>

#include "graph/attr.h"
#include "graph/base/result.h"
#include "graph/scalar_expr.h"

namespace xrun {

inline constexpr int kMostUpdateStates = 8;    // f32 numbers that go with each weight
inline constexpr int kMostUpdateScalars = 16;  // numbers of a step, or of norms, that elements read
inline constexpr int kMostUpdateNorms = 8;

// The inputs of UpdateRule::scalars.
enum class StepInput : int { kRate, kStep, kDecay };  // the step counts from 1; the decay is that of the tensor
inline constexpr int kStepInputs = 3;

// Elements have these inputs: weight, gradient, states, results of `scalars`, results of `ratios`.
struct UpdateRule {
  int states = 0;
  std::vector<double> first;      // values of the states before the first step
  ScalarExpr scalars;             // of StepInput
  std::vector<ScalarExpr> norms;  // what an element adds to each norm: one result; reads norms before it alone
  ScalarExpr ratios;              // of the norms
  ScalarExpr elements;            // results: the new weight and states

  int step_scalars() const { return static_cast<int>(scalars.results().size()); }
  int inputs() const { return 2 + states + step_scalars() + static_cast<int>(ratios.results().size()); }
};

// Separates what elements need from what a step and what a tensor needs. `all`: inputs are weight, gradient, the
// states, those of StepInput, then the norms; results are the new weight and states, then for each norm the number
// whose squares it sums. `first`: a value for each state. Errors: XG0216 for more scalars than a step may have.
Result<UpdateRule> make_update_rule(const ScalarExpr& all, std::vector<double> first, int norms = 0);

// Leaves out the states that neither the new weight nor a norm depends on, in this step or in a later one, with their
// names and first values: the velocity of `sgd` without momentum. Inputs and results of `all` as above.
void leave_out_unread_states(ScalarExpr& all, std::vector<std::string>& names, std::vector<double>& first);

// By norm: 0 where it reads no other norm, else one more than the highest of those that it reads. The norms of one
// level are summed in one sweep over a tensor.
std::vector<int> norm_levels(const UpdateRule& rule);
// Whether a norm depends on a state.
bool norms_read_states(const UpdateRule& rule);

// An optimizer is a call whose arguments also hold its rule: texts, and the names and first values of its states. Their
// names begin with `rule.`, as no parameter does.
void store_update_rule(const UpdateRule& rule, const std::vector<std::string>& states, Attrs& arguments);
std::vector<std::string> states_of_rule(const Attrs& arguments);   // their names; empty without a rule
std::vector<double> first_values_of_rule(const Attrs& arguments);  // by state
Attrs without_update_rule(const Attrs& arguments);                 // those that the call gives
// Errors: XG0303 where there is no rule, a text cannot be read, or it does not fit the states.
Result<UpdateRule> read_update_rule(const Attrs& arguments);

}  // namespace xrun
