// Rows of class weights that no step uses, with `untouched = exact`: once a step uses them, they must be where training
// of all classes would have brought them. That takes a formula for any number of steps with a gradient of zero
// (docs/algorithms.md, "Rows that no step uses").
#pragma once

#include <string>

#include "graph/specs.h"

namespace xrun {

// Up to here the effect of a momentum ends within a few hundred thousand steps, over which a table sums.
inline constexpr double kMostCatchUpMomentum = 0.9999;

// Why the rows of a group cannot be exact with this optimizer, as the rest of a sentence: "adamw divides by ...". Empty
// where they can. `group`: that of the class weights, or null.
std::string why_not_exact(const CallSpec& optimizer, const GroupSpec* group);

}  // namespace xrun
