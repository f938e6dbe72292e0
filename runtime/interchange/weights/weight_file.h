// Files of weights that other programs wrote: .pth, .pdparams, .safetensors and .onnx. A file is a list of tensors with
// names; elements are converted to f32 when they are read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/stop.h"

namespace xrun::runtime {

struct WeightTensor {
  std::string name;           // "layer1.0.conv1.weight", unique in its file
  std::string dtype;          // the name in the format, for messages: "torch.float16", "BF16"
  std::vector<int64_t> dims;  // empty: one element
  int64_t elements() const;   // the product of dims
};

// An open file. Immutable; any number of threads may read at once.
class WeightFile {
 public:
  virtual ~WeightFile() = default;

  // Describes the file for people: "PyTorch, zip, 161 tensors" or "safetensors, 3 shards".
  virtual const std::string& format() const = 0;
  // Tensors of numbers, in the order of the file.
  virtual const std::vector<WeightTensor>& tensors() const = 0;
  // Entries that are not tensors of numbers, for messages: "epoch (an integer)".
  virtual const std::vector<std::string>& others() const = 0;
  // Converts elements [first, first + count) of tensor `index`, in the order of C, to f32. REQUIRES: they exist.
  // Errors: XG0401 the file cannot be read; XG0412 it is damaged, or an integer is not exact or a float too large in
  // f32; kInterrupted.
  virtual Status read(size_t index, int64_t first, int64_t count, float* to) const = 0;
};

// Opens a file, and recognises its format by its contents; `path` may also be the index of a set of shards
// (model.safetensors.index.json). Nothing of the file is executed, and elements stay in the file until they are read:
// docs/reference/formats.md, "Weights of other programs". Errors: XG0401; XG0407 a pickle needs code of Python; XG0412
// the file is damaged, of an unknown format, or two tensors have one name; XG0715 a damaged safetensors file; XG0931
// the module for ONNX files is missing; kInterrupted. `stop` must outlive the file.
Result<std::unique_ptr<WeightFile>> open_weight_file(const std::string& path, StopFlag stop = nullptr);

}  // namespace xrun::runtime
