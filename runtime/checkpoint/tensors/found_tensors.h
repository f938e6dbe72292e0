// Finds the tensors of a run in the files of a checkpoint.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "runtime/checkpoint/tensors/checkpoint.h"
#include "runtime/checkpoint/tensors/class_match.h"
#include "runtime/checkpoint/tensors/stored_tensors.h"
#include "runtime/train/state/train_state.h"

namespace xrun::runtime {

// A tensor of the state, and the places of its rows in the files of the checkpoint.
struct Found {
  const StateTensor* tensor = nullptr;
  const std::vector<StoredRows>* rows = nullptr;
  const std::vector<StoredRows>* scales = nullptr;  // scales of class weights that are stored in fp8
  // For class rows that catch up (shifts_of) if the weights are read for inference; null if a run resumes.
  const std::vector<StoredRows>* shifts = nullptr;
  const std::vector<StoredRows>* velocity = nullptr;
  const RowMap* map = nullptr;  // for rows of classes; null: each row keeps its number
};

// Returns the format of stored class weights, which may differ from the format of the run. `dtype`: name of the type in
// safetensors. Nullopt: class weights cannot have this type.
std::optional<RowFormat> row_format(std::string_view dtype);

// Finds the stored rows of a tensor. With a map the checkpoint may have another number of rows. Errors: XG0702 the
// tensor is missing or has another form; XG0710.
Status find_tensor(const CheckpointInfo& info, const StoredTensors& stored, const TrainState& state,
                   const StateTensor& tensor, const RowMap* map, Found& found);

// Finds the values that a weight has in inference: those of its running mean if the run kept one, else the weight.
Status find_in_use(const CheckpointInfo& info, const StoredTensors& stored, const TrainState& state,
                   const StateTensor& tensor, const RowMap* map, Found& found);

}  // namespace xrun::runtime
