// State that an evaluator records only for its messages. No value of a model depends on it.
#pragma once

#include <cstdint>
#include <map>

#include "graph/base/source.h"
#include "graph/graph.h"
#include "lang/elaborate/scope.h"

namespace xrun::lang {

struct Recorded {
  SkippedIf skipped;                     // last `if` stage that passed its input through
  Span op_call;                          // the operator call whose arguments are being bound
  Span bound_value;                      // the value of the model's binding that is being evaluated
  std::map<int32_t, Span> inputs;        // key: graph input; value: its reader or stage, for XG0402
  std::map<int32_t, Span> class_counts;  // key: label, as a value of the graph; see class_count_of
  int64_t gather_batch = 0;              // global batch, for XG0305; 0: unknown
  int64_t gather_bytes = 0;              // bytes of an element of the logits, for XG0305

  // The place in the text that sets the number of classes of a head whose logits a loss compares with the label;
  // invalid if it is unknown.
  Span class_count_of(ValueId label) const {
    const auto known = class_counts.find(label.index);
    return known != class_counts.end() ? known->second : Span();
  }
};

}  // namespace xrun::lang
