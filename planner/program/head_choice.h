// A choice for a head that changes what is learned: its active classes and the format of its class rows.
#pragma once

#include "graph/settings/head_def.h"
#include "graph/settings/specs.h"

namespace xrun::planner {

struct HeadChoice {
  ActiveSpec active;
  RowFormat weights = RowFormat::kF32;
  RowFormat states = RowFormat::kF32;
  Untouched untouched = Untouched::kAsIs;  // kExact if the text has kExact and the other fields permit it

  bool same_rows(const HeadChoice& other) const { return weights == other.weights && states == other.states; }
  bool same_active(const HeadChoice& other) const {
    return active.kind == other.active.kind &&
           (active.kind == ActiveSpec::kAll || active.amount == other.active.amount);
  }
};

}  // namespace xrun::planner
