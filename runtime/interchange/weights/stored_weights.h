// Tensors whose elements lie in files: all formats of weights end in these.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "graph/base/units.h"
#include "runtime/interchange/weights/byte_source.h"
#include "runtime/interchange/weights/element_type.h"
#include "runtime/interchange/weights/weight_file.h"

namespace xrun::runtime {

struct StoredTensor {
  std::string dtype;  // the name in the format
  ElementType type = ElementType::kF32;
  bool big_endian = false;
  Source source;
  Bytes begin = 0;  // offset of element 0 in the source
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;  // in elements; empty: the order of C, without gaps
};

// Checks that all elements are within the source. Errors XG0412: the number of elements overflows, or they are not;
// `where` begins the message: "conv.weight in model.pth".
Status check_extent(const StoredTensor& tensor, std::string_view where);

// The contents of a file, which its reader collects.
struct WeightContents {
  std::string path;
  std::vector<WeightTensor> tensors;
  std::vector<StoredTensor> places;  // one for each tensor
  std::vector<std::string> others;

  // Checks the extent of a tensor and adds it. Bytes of the name that are not UTF-8 become escapes. Errors: those of
  // check_extent; XG0412 the number of its elements is too large.
  Status add(std::string name, StoredTensor tensor);
  // Adds an entry that is not a tensor of numbers: "epoch (an integer)".
  void add_other(std::string_view name, std::string_view what);
};

// Makes the open file. `format`: "PyTorch, zip", to which the number of tensors is added. Errors: XG0412 two tensors
// have one name.
Result<std::unique_ptr<WeightFile>> make_stored_weights(WeightContents contents, std::string_view format,
                                                        StopFlag stop);

}  // namespace xrun::runtime
