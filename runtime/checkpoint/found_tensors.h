// Finds the tensors of a run in the files of a checkpoint.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/class_match.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "runtime/train/train_state.h"

namespace xrun::runtime {

// A tensor of the state with its parts in the files; class weights in fp8 with their scales.
struct Found {
  const StateTensor* tensor = nullptr;
  const std::vector<StoredRows>* rows = nullptr;
  const std::vector<StoredRows>* scales = nullptr;
  // For rows that catch up, if they are read for use and not to resume.
  const std::vector<StoredRows>* shifts = nullptr;
  const std::vector<StoredRows>* velocity = nullptr;
  const RowMap* map = nullptr;  // for rows of classes; null: each row keeps its number
};

// The format of stored class weights; that of the run may be another one.
std::optional<RowFormat> row_format(std::string_view dtype);

// Finds a tensor as it is stored. With a map the checkpoint may have another number of rows. Errors: XG0702 the tensor
// is missing or has another form, XG0710.
Status find_tensor(const CheckpointInfo& info, const StoredTensors& stored, const TrainState& state,
                   const StateTensor& tensor, const RowMap* map, Found& found);

// Finds the values that a weight has in use: those of its running mean if the run kept one.
Status find_in_use(const CheckpointInfo& info, const StoredTensors& stored, const TrainState& state,
                   const StateTensor& tensor, const RowMap* map, Found& found);

}  // namespace xrun::runtime
