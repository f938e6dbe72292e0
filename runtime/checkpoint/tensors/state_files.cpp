// Tests: tests/runtime/checkpoint/tensors/checkpoint_test.cpp
#include "runtime/checkpoint/tensors/state_files.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fmt/format.h>
#include <map>
#include <sys/statvfs.h>

#include "graph/settings/save_chunk.h"
#include "runtime/checkpoint/files/directory.h"
#include "runtime/checkpoint/tensors/stored_tensors.h"

namespace xrun::runtime {
namespace {

// Returns the ranges of a head's rows that this process has, in row order; with one rank it has all rows. Tensors of
// kind kGraph are ignored, since every rank has all of their rows.
std::vector<ClassRange> runs_of(const TrainState& state, std::string_view head) {
  std::vector<ClassRange> runs;
  const auto tensor = std::ranges::find_if(state.tensors(), [&](const StateTensor& one) {
    return one.head == head && one.role != StateTensor::Role::kGraph && !one.pieces.empty();
  });
  for (size_t i = 0; tensor != state.tensors().end() && i < tensor->pieces.size(); ++i) {
    const TensorPiece& piece = tensor->pieces[i];
    if (!runs.empty() && runs.back().end == piece.row_begin) {
      runs.back().end = piece.row_end;
    } else {
      runs.push_back({piece.row_begin, piece.row_end});
    }
  }
  return runs;
}

// Whether no element is NaN or infinite: such an element has all exponent bits set. The loop does not stop at the first
// such element, so that the compiler can vectorize it.
template <typename Bits>
bool is_finite(std::span<const std::byte> rows, Bits exponent) {
  const std::span numbers(reinterpret_cast<const Bits*>(rows.data()), rows.size() / sizeof(Bits));
  unsigned found = 0;
  for (const Bits number : numbers) {
    found |= (number & exponent) == exponent ? 1U : 0U;
  }
  return found == 0;
}

// Whether no element of rows in memory is NaN or infinite.
bool is_finite(DType dtype, std::span<const std::byte> rows) {
  switch (dtype) {
    case DType::kF32:
      return is_finite<uint32_t>(rows, 0x7F800000U);
    case DType::kBF16:
      return is_finite<uint16_t>(rows, 0x7F80U);
    case DType::kF8E4M3:
      return is_finite<uint8_t>(rows, 0x7FU);
    default:
      return true;
  }
}

// Rejects rows that are not finite, since they must not replace an older checkpoint.
Status expect_finite(const StateTensor& tensor, std::span<const std::byte> rows) {
  if (is_finite(tensor.type.dtype, rows)) {
    return {};
  }
  return Error{ErrorKind::kNonFinite, "XG0810", "`" + tensor.name + "` is no longer finite, so it is not saved",
               "continue from an older checkpoint with a lower `train.lr` or with `train.clip = norm(1)`"};
}

}  // namespace

std::vector<StateFile> plan_files(const TrainState& state, Bytes range_bytes, int rank) {
  const std::string of_rank = rank == 0 ? "" : fmt::format(".r{:010}", rank);
  StateFile trunk{.name = fmt::format("trunk{}.safetensors", of_rank)};
  StateFile optimizer{.name = fmt::format("trunk.optim{}.safetensors", of_rank)};
  std::map<std::string, std::vector<const StateTensor*>> heads;
  std::map<int64_t, std::vector<const StateTensor*>> residuals;  // key: sender
  for (const StateTensor& tensor : state.tensors()) {
    if (!state.is_saved(tensor)) {
      continue;
    }
    if (!tensor.head.empty()) {
      heads[tensor.head].push_back(&tensor);
    } else if (tensor.role == StateTensor::Role::kResidual) {
      for (const TensorPiece& piece : tensor.pieces) {
        residuals[piece.row_begin].push_back(&tensor);
      }
    } else if (tensor.first) {
      (tensor.role == StateTensor::Role::kOptimizer ? optimizer : trunk).tensors.push_back(&tensor);
    }
  }
  std::vector<StateFile> files;
  if (rank == 0 || !trunk.tensors.empty()) {
    files.push_back(trunk);
  }
  if (!optimizer.tensors.empty()) {
    files.push_back(optimizer);
  }
  for (const auto& [sender, tensors] : residuals) {
    files.push_back({.name = fmt::format("trunk.residual.{}.r{:010}.safetensors", sender, rank),
                     .tensors = tensors,
                     .by_rows = true,
                     .row_begin = sender,
                     .row_end = sender + 1});
  }
  for (const auto& [head, tensors] : heads) {
    Bytes row_bytes = 0;
    for (const StateTensor* tensor : tensors) {
      row_bytes += tensor->row_bytes();
    }
    int64_t range = std::max<int64_t>(1, range_bytes / std::max<Bytes>(row_bytes, 1));
    range = range > 64 ? range / 64 * 64 : range;
    for (const ClassRange& run : runs_of(state, head)) {
      for (int64_t row = run.begin; row < run.end; row += range) {
        files.push_back({.name = fmt::format("head.{}.r{:010}.safetensors", head, row),
                         .tensors = tensors,
                         .by_rows = true,
                         .row_begin = row,
                         .row_end = std::min(run.end, row + range)});
      }
    }
  }
  return files;
}

Result<SafetensorsWriter> write_file(const StateFile& file, const ReadRows& read, const std::string& directory, Io& io,
                                     std::vector<std::byte>& chunk) {
  std::vector<SafeTensor> layout;
  std::map<std::string, const StateTensor*> by_name;
  std::map<std::string, std::string> metadata{{"format", "xrun 1"}};
  for (const StateTensor* tensor : file.tensors) {
    SafeTensor one{
        .name = tensor->name, .dtype = std::string(safetensors_name(tensor->type.dtype)), .shape = tensor->type.dims};
    if (file.by_rows) {
      one.shape[0] = file.row_end - file.row_begin;
    }
    layout.push_back(std::move(one));
    by_name[tensor->name] = tensor;
  }
  if (file.by_rows) {
    metadata["tensor"] = file.tensors[0]->name;
    metadata["row_begin"] = std::to_string(file.row_begin);
    metadata["row_end"] = std::to_string(file.row_end);
    metadata["rows"] = std::to_string(file.tensors[0]->rows());
  }
  lay_out(layout);
  XRUN_ASSIGN(auto writer, SafetensorsWriter::create(directory + "/" + file.name, layout, metadata, io));
  for (const SafeTensor& one : layout) {
    const StateTensor& tensor = *by_name.at(one.name);
    const Bytes row_bytes = tensor.row_bytes();
    const int64_t end = file.by_rows ? file.row_end : tensor.rows();
    const int64_t step = std::max<int64_t>(1, kSaveChunk / std::max<Bytes>(row_bytes, 1));
    for (int64_t row = file.row_begin; row < end && row_bytes > 0; row += step) {
      const int64_t last = std::min(end, row + step);
      chunk.resize(static_cast<size_t>((last - row) * row_bytes));
      read(tensor, row, last, chunk.data());
      XRUN_TRY(expect_finite(tensor, chunk));
      XRUN_TRY(writer.write(chunk));
    }
  }
  return writer;
}

Status check_space(const TrainState& state, const std::string& directory) {
  Bytes need = kMiB;
  for (const StateTensor& tensor : state.tensors()) {
    need += state.is_saved(tensor) ? tensor.row_bytes() * tensor.rows() : 0;
  }
  struct statvfs info {};
  if (::statvfs(directory.c_str(), &info) == 0 &&
      static_cast<double>(info.f_bavail) * static_cast<double>(info.f_frsize) < static_cast<double>(need)) {
    Error error = checkpoint_write_error(directory, ENOSPC);
    error.message += fmt::format(" (a checkpoint needs {})", format_bytes(need));
    return error;
  }
  return {};
}

Result<std::vector<ManifestFile>> write_state(const TrainState& state, const std::string& directory, Bytes range_bytes,
                                              Io& io, int rank) {
  const ReadRows read = [&state](const StateTensor& tensor, int64_t row_begin, int64_t row_end, std::byte* out) {
    state.read_rows(tensor, row_begin, row_end, out);
  };
  std::vector<ManifestFile> files;
  std::vector<std::byte> chunk;
  for (const StateFile& file : plan_files(state, range_bytes, rank)) {
    XRUN_ASSIGN(SafetensorsWriter writer, write_file(file, read, directory, io, chunk));
    XRUN_TRY(writer.finish());
    files.push_back({file.name, writer.bytes(), writer.digest()});
  }
  XRUN_TRY(state.status());
  return files;
}

}  // namespace xrun::runtime
