// XG0702: a tensor that a checkpoint lacks or has in another shape, shown where the model asks for it, with what it may
// have been called.
#pragma once

#include <string>
#include <vector>

#include "graph/base/result.h"
#include "runtime/train/train_state.h"

namespace xrun::runtime {

// A tensor with all of its rows, as a checkpoint has it.
struct StoredTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
};

// XG0705: the model at `file` computes something else than that of the checkpoint at `path`; `lines` say what differs.
Error other_model(const std::string& file, const std::string& path, std::vector<std::string> lines);

// `tensor` is not among those that the checkpoint at `path` has.
Error missing_tensor(const std::string& path, const std::vector<StoredTensor>& stored, const TrainState& state,
                     const StateTensor& tensor);

// `tensor` is there in another form: "has 25 rows in the model, but 24 in the checkpoint" says how.
Error other_form(const TrainState& state, const StateTensor& tensor, std::string message, std::string help = {});

std::string shape_text(const std::vector<int64_t>& dims);  // "[64, 3, 7, 7]"

}  // namespace xrun::runtime
