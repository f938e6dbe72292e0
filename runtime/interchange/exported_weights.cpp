#include "runtime/interchange/exported_weights.h"

#include <algorithm>
#include <vector>

#include "runtime/formats/tensors/safetensors.h"

namespace xrun::runtime {
namespace {

constexpr Bytes kPart = 16 * kMiB;  // size of the rows that are read at once

bool is_exported(const StateTensor& tensor, std::span<const std::string> heads) {
  const bool is_value = tensor.role == StateTensor::Role::kWeight || tensor.role == StateTensor::Role::kState;
  return is_value && (tensor.head.empty() || std::ranges::find(heads, tensor.head) != heads.end());
}

Status write_tensor(const TrainState& state, const StateTensor& tensor, SafetensorsWriter& file, StopFlag stop) {
  const Bytes row_bytes = tensor.row_elements() * static_cast<Bytes>(sizeof(float));
  const int64_t most = std::max<int64_t>(1, kPart / std::max<Bytes>(row_bytes, 1));
  std::vector<float> values;
  for (int64_t begin = 0; begin < tensor.rows(); begin += most) {
    XRUN_TRY(check_stop(stop));
    const int64_t end = std::min(tensor.rows(), begin + most);
    values.resize(static_cast<size_t>((end - begin) * tensor.row_elements()));
    state.read_current(tensor, begin, end, values.data());
    XRUN_TRY(file.write(std::as_bytes(std::span(values))));
  }
  return {};
}

}  // namespace

Result<WeightsWritten> write_weights(const TrainState& state, std::span<const std::string> heads,
                                     std::map<std::string, std::string> metadata, const std::string& path,
                                     StopFlag stop) {
  std::vector<SafeTensor> tensors;
  for (const StateTensor& tensor : state.tensors()) {
    const bool is_new = tensors.empty() || tensors.back().name != tensor.name;
    if (is_new && is_exported(tensor, heads)) {
      tensors.push_back({.name = tensor.name, .dtype = "F32", .shape = tensor.type.dims});
    }
  }
  lay_out(tensors);
  metadata.emplace(kWeightsKey, "xrun");
  XRUN_ASSIGN(SafetensorsWriter file, SafetensorsWriter::create(path, tensors, metadata));
  for (const SafeTensor& tensor : tensors) {
    XRUN_TRY(write_tensor(state, *state.find(tensor.name), file, stop));
  }
  XRUN_TRY(file.finish());
  return WeightsWritten{.tensors = std::ssize(tensors), .bytes = file.bytes()};
}

}  // namespace xrun::runtime
