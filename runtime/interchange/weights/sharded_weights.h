// Sets of shards with an index, as the libraries of Hugging Face write them: model.safetensors.index.json or
// pytorch_model.bin.index.json:
//   {"metadata": {"total_size": BYTES}, "weight_map": {NAME OF A TENSOR: FILE OF A SHARD, ...}}
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "runtime/formats/random_file.h"
#include "runtime/interchange/weights/weight_file.h"

namespace xrun::runtime {

// The path of a file that another file names: `name`, relative to the folder of `path`. Errors: XG0412 the name is
// empty or absolute, or has a part `..`, so that it is outside of the folder.
Result<std::string> file_in_folder(const std::string& path, const std::string& name);

using OpenShard = std::function<Result<std::unique_ptr<WeightFile>>(const std::string& path)>;

// Opens all shards of an index. Tensors are in the order of the shards' names, then of the shards. Errors: XG0412 the
// index is not JSON of this form, names a file outside of its folder, or a tensor is missing from its shard; a shard
// has a tensor that the index lists elsewhere or not at all, so it belongs to another set; those of `open`.
Result<std::unique_ptr<WeightFile>> open_shards(const RandomFile& index, const OpenShard& open, StopFlag stop);

}  // namespace xrun::runtime
