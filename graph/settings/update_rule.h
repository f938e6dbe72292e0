// UpdateRule: the update of an optimizer written in the language, as a value. Numbers that depend only on the step are
// computed once per step, and numbers that depend only on norms once per tensor; both in f64. All other numbers are
// computed for each element, in f32.
#pragma once

#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/types/attr.h"
#include "graph/types/scalar_expr.h"

namespace xrun {

inline constexpr int kMostUpdateStates = 8;    // f32 numbers that are kept for each weight
inline constexpr int kMostUpdateScalars = 16;  // numbers per step, or per norm, that elements read
inline constexpr int kMostUpdateNorms = 8;

// The inputs of UpdateRule::scalars.
enum class StepInput : int { kRate, kStep, kDecay };  // the step counts from 1; the decay is that of the tensor
inline constexpr int kStepInputs = 3;

// The update of an optimizer. The functions of an element have these inputs, in this order: weight, gradient, states,
// results of `scalars`, results of `ratios`.
struct UpdateRule {
  int states = 0;
  std::vector<double> first;      // initial values of the states
  ScalarExpr scalars;             // functions of StepInput
  std::vector<ScalarExpr> norms;  // the contribution of an element to each norm: one result; reads only norms before it
  ScalarExpr ratios;              // functions of the norms
  ScalarExpr elements;            // functions of an element; results: the new weight and states

  int step_scalars() const { return static_cast<int>(scalars.results().size()); }
  int inputs() const { return 2 + states + step_scalars() + static_cast<int>(ratios.results().size()); }
};

// Makes a rule from the update `all` of one element: separates the numbers that are computed per element, per step and
// per tensor. The inputs of `all` are weight, gradient, the states, those of StepInput, and the norms. Its results are
// the new weight and states, and for each norm the number whose squares it sums. `first` has the initial value of each
// state. Errors: XG0216 for more scalars than a step may have.
Result<UpdateRule> make_update_rule(const ScalarExpr& all, std::vector<double> first, int norms = 0);

// Removes the states on which neither the new weight nor a norm depends, in this step or in a later one, together with
// their names and initial values. An example is the velocity of `sgd` without momentum. Inputs and results of `all` are
// those of make_update_rule.
void leave_out_unread_states(ScalarExpr& all, std::vector<std::string>& names, std::vector<double>& first);

// Level of each norm: 0 if it reads no other norm, else one more than the highest level that it reads. The norms of one
// level are summed in one sweep over a tensor.
std::vector<int> norm_levels(const UpdateRule& rule);
// Whether a norm depends on a state.
bool norms_read_states(const UpdateRule& rule);

// Stores a rule in the arguments of an optimizer's call, as texts, with the names and initial values of its states. The
// names of these arguments begin with `rule.`, as the name of no parameter does.
void store_update_rule(const UpdateRule& rule, const std::vector<std::string>& states, Attrs& arguments);
std::vector<std::string> states_of_rule(const Attrs& arguments);     // names of the states; empty without a rule
std::vector<double> initial_values_of_rule(const Attrs& arguments);  // initial value of each state; index: state
Attrs without_update_rule(const Attrs& arguments);                   // the arguments in the text of the call
// Errors: XG0303 if there is no rule, a text cannot be read, or it does not fit the states.
Result<UpdateRule> read_update_rule(const Attrs& arguments);

}  // namespace xrun
