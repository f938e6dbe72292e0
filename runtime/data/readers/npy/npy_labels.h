// Labels in NumPy arrays: whole numbers, or texts that are the names of classes.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "graph/base/units.h"
#include "runtime/formats/tensors/npy_file.h"

namespace xrun::runtime {

// Samples [first, first + count) of an array.
struct NpyPart {
  const NpyFile* file = nullptr;
  int64_t first = 0;
  int64_t count = 0;
};

struct NpyLabels {
  // The label of each sample. kMissing stands for NaN or an empty text. Numbers may be below 0; `ignore` uses them.
  std::vector<int32_t> numbers;
  std::vector<std::string> names;  // names of classes, in the order of their bytes; empty if labels are numbers

  static constexpr int32_t kMissing = std::numeric_limits<int32_t>::min();
  Bytes bytes() const;
};

// Checks that an array has one label a sample: numbers or texts, [samples] or [samples, 1]. Errors: XG0412.
Status check_npy_labels(const NpyFile& file);

// Reads the labels of all parts. REQUIRES: check_npy_labels accepts each. Errors: XG0401; XG0402 a label is not a whole
// number or does not fit i32; XG0412 a text is not Unicode, or one part has texts and another numbers; kInterrupted.
Result<NpyLabels> read_npy_labels(std::span<const NpyPart> parts, StopFlag stop);

}  // namespace xrun::runtime
