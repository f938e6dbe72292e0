// The files of a checkpoint for a run's tensors: which rows each file holds, and how it is written.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/os/io.h"
#include "runtime/checkpoint/files/manifest.h"
#include "runtime/formats/tensors/safetensors.h"
#include "runtime/train/state/train_state.h"

namespace xrun::runtime {

// A file to write: rows [row_begin, row_end) of the tensors of a head, the residuals of a sender, or some whole tensors
// of the trunk.
struct StateFile {
  std::string name;
  std::vector<const StateTensor*> tensors;
  bool by_rows = false;
  int64_t row_begin = 0;
  int64_t row_end = 0;
};

// Returns the files that this rank writes. The files of all ranks together contain all tensors that are saved
// (TrainState::is_saved). Head files have about `range_bytes` bytes. Each rank writes its rows of heads, the residuals
// of its devices, and those other tensors for which it is the first rank (StateTensor::first), in files whose names
// contain the rank. Rank 0 writes trunk.safetensors even if it has no tensors.
std::vector<StateFile> plan_files(const TrainState& state, Bytes range_bytes, int rank);

// Copies rows [row_begin, row_end) of a tensor to `out`.
using ReadRows = std::function<void(const StateTensor& tensor, int64_t row_begin, int64_t row_end, std::byte* out)>;

// Writes `file` as a new file in `directory`, in chunks of kSaveChunk bytes (graph/settings/save_chunk.h). The caller
// then calls SafetensorsWriter::finish, which makes it durable. `read` gives the values; `chunk` is working memory.
// Errors: XG0711; XG0810 a number is not finite.
Result<SafetensorsWriter> write_file(const StateFile& file, const ReadRows& read, const std::string& directory, Io& io,
                                     std::vector<std::byte>& chunk);

// Checks before a save that the disk has space for the files of all ranks. Errors: XG0711. Quotas and limits are not
// known here, so writing may still fail.
Status check_space(const TrainState& state, const std::string& directory);

// Writes all files of plan_files, durably. Errors: those of write_file.
Result<std::vector<ManifestFile>> write_state(const TrainState& state, const std::string& directory, Bytes range_bytes,
                                              Io& io, int rank = 0);

}  // namespace xrun::runtime
