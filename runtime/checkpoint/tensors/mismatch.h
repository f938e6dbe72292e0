// Makes the errors for a checkpoint that does not fit the model. XG0702, for a tensor that is missing or has another
// shape, points at the place in the model that needs the tensor. If the tensor may have been renamed, it proposes a
// line that declares the renaming.
#pragma once

#include <string>
#include <vector>

#include "graph/base/result.h"
#include "runtime/train/state/train_state.h"

namespace xrun::runtime {

// A whole tensor that is stored in a checkpoint.
struct StoredTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
};

// XG0705: the model at `file`, or its data, differs from that of the checkpoint at `path`; `lines` list the
// differences.
Error other_model(const std::string& file, const std::string& path, std::vector<std::string> lines);

// XG0702: the checkpoint at `path` has no `tensor`.
Error missing_tensor(const std::string& path, const std::vector<StoredTensor>& stored, const TrainState& state,
                     const StateTensor& tensor);

// XG0702: the stored `tensor` has another form. `message`: "has 25 rows in the model, but 24 in the checkpoint".
Error other_form(const TrainState& state, const StateTensor& tensor, std::string message, std::string help = {});

std::string shape_text(const std::vector<int64_t>& dims);  // "[64, 3, 7, 7]"

}  // namespace xrun::runtime
