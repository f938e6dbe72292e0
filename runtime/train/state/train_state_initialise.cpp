// The initial values of weights and states. Each device sets its own rows, which several threads share.
#include <algorithm>
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include "graph/base/check.h"
#include "runtime/train/state/initial_values.h"
#include "runtime/train/state/train_state.h"

namespace xrun::runtime {
namespace {

// Rows [begin, end) of one copy of a piece.
struct FirstRows {
  const StateTensor* tensor = nullptr;
  const TensorPiece* piece = nullptr;
  planner::BufferId copy;
  int64_t begin = 0;
  int64_t end = 0;
};

// Divides the rows of a piece into parts, and adds these to `parts`.
void add_parts(const StateTensor& tensor, const TensorPiece& piece, planner::BufferId copy,
               std::vector<FirstRows>& parts) {
  constexpr int64_t kMost = 64 * 1024;  // values in a part: a few hundred microseconds of random numbers
  const int64_t most = std::max<int64_t>(1, kMost / std::max<int64_t>(1, tensor.row_elements()));
  for (int64_t row = piece.row_begin; row < piece.row_end; row += most) {
    parts.push_back({&tensor, &piece, copy, row, std::min(row + most, piece.row_end)});
  }
}

}  // namespace

void TrainState::initialise(uint64_t seed, const std::function<bool(const StateTensor&)>& wanted,
                            std::span<const Moved> moved) {
  std::vector<std::vector<FirstRows>> parts(static_cast<size_t>(program_.devices));
  for (const StateTensor& tensor : tensors_) {
    const bool made = tensor.role != StateTensor::Role::kScale && tensor.role != StateTensor::Role::kGraph &&
                      tensor.role != StateTensor::Role::kShift;
    if (!made || (wanted && !wanted(tensor))) {
      continue;  // scales are written with their rows, graphs are built, shifts are computed
    }
    if (tensor.role == StateTensor::Role::kOptimizer && tensor.type.dtype != DType::kI32 && tensor.first_value == 0 &&
        lies_in_file(tensor)) {
      continue;  // a new file is filled with zeros
    }
    for (const TensorPiece& piece : tensor.pieces) {
      for (const planner::BufferId copy : piece.copies) {
        add_parts(tensor, piece, copy, parts[static_cast<size_t>(program_.buffer(copy).device)]);
      }
    }
  }
  const auto make_values = [&](Device& device) -> Status {
    const auto& own = parts[static_cast<size_t>(device.index())];
    const auto make = [&](const tbb::blocked_range<size_t>& range) {
      std::vector<float> values;
      for (size_t item = range.begin(); item != range.end(); ++item) {
        const FirstRows& part = own[item];
        const StateTensor& tensor = *part.tensor;
        const bool optimizer =
            tensor.role == StateTensor::Role::kOptimizer || tensor.role == StateTensor::Role::kResidual;
        if (tensor.type.dtype == DType::kI32) {
          const std::vector<int32_t> never(static_cast<size_t>(part.end - part.begin), -1);
          write_rows(tensor, part.begin, part.end, reinterpret_cast<const std::byte*>(never.data()));
          continue;
        }
        values.resize(static_cast<size_t>((part.end - part.begin) * tensor.row_elements()));
        fill_initial_values(optimizer ? Init{.value = tensor.first_value} : module_.graph.param(tensor.param).init,
                            seed, first_name(moved, tensor.name),
                            static_cast<uint64_t>(part.begin * tensor.row_elements()), values);
        if (tensor.type.dtype != DType::kF32) {
          write_values(tensor, part.begin, part.end, values.data());  // rows of a head have one copy each
          continue;
        }
        memory_.write(part.copy, (part.begin - part.piece->row_begin) * tensor.row_bytes(),
                      std::as_bytes(std::span(values)));
      }
    };
    tbb::parallel_for(tbb::blocked_range<size_t>(0, own.size()), make);
    return {};
  };
  const Status made = run_on_each(devices_, make_values);
  XRUN_CHECK(made.ok(), "first values are made without errors");
}

}  // namespace xrun::runtime
