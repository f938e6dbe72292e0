// An input of a graph that a source fills: the field that it is read from, and how the field is transformed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/data/augment/label_faults.h"
#include "runtime/data/augment/transform.h"

namespace xrun::runtime {

struct RowInput {
  std::string name;
  size_t index = 0;       // position in Graph::inputs
  size_t partner = 0;     // place_of the input with the partner's labels
  int field = 0;          // number of the reader's field
  bool is_label = false;  // one i32 class per sample
  bool needed = true;     // false: the input becomes zeros
  int64_t classes = 0;    // the number of the source's classes; 0: unknown
  LabelPlaces places;
  Transform transform;
};

}  // namespace xrun::runtime
