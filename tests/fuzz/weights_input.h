// Properties of any file of weights that was opened, for fuzz targets.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "graph/base/check.h"
#include "runtime/formats/random_file.h"
#include "runtime/interchange/weights/weight_file.h"

namespace xrun::test {

inline std::shared_ptr<const runtime::RandomFile> file_of_input(const uint8_t* data, size_t size) {
  return std::make_shared<const runtime::RandomFile>(
      runtime::RandomFile::in_memory(std::as_bytes(std::span(data, size)), "input"));
}

// Reads the first and the last elements of each tensor: they are numbers, or there is an error with a message.
inline void check_weights(const Result<std::unique_ptr<runtime::WeightFile>>& opened) {
  if (!opened.ok()) {
    XRUN_CHECK(!opened.error().message.empty() && !opened.error().code.empty(), "an error has a code and a message");
    return;
  }
  const runtime::WeightFile& file = *opened.value();
  std::set<std::string> names;
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    const runtime::WeightTensor& tensor = file.tensors()[i];
    XRUN_CHECK(names.insert(tensor.name).second, "names are unique");
    XRUN_CHECK(std::ranges::all_of(tensor.dims, [](int64_t dim) { return dim >= 0; }), "dimensions are sizes");
    const int64_t all = tensor.elements();
    const int64_t some = std::min<int64_t>(all, 64);
    std::vector<float> values(static_cast<size_t>(some));
    for (const int64_t first : {int64_t{0}, all - some}) {
      if (const Status read = file.read(i, first, some, values.data()); !read.ok()) {
        XRUN_CHECK(!read.error().message.empty(), "an error has a message");
      }
    }
  }
}

}  // namespace xrun::test
