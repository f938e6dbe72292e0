// The files that a checkpoint has of a run's tensors: which rows each holds, and how they are written.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/base/io.h"
#include "graph/base/result.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/formats/safetensors.h"
#include "runtime/train/train_state.h"

namespace xrun::runtime {

// A file to write: rows [row_begin, row_end) of the tensors of a head, the residuals of a sender, or some tensors of
// the trunk as a whole.
struct StateFile {
  std::string name;
  std::vector<const StateTensor*> tensors;
  bool by_rows = false;
  int64_t row_begin = 0;
  int64_t row_end = 0;
};

// The files for all tensors that are kept, except class rows that lie in files of their own. Head files have about
// `range_bytes`. With several ranks, each has its rows of heads, the residuals that its devices keep and the other
// tensors that it is the first to have, under names of its own; rank 0 has trunk.safetensors even if it is empty.
std::vector<StateFile> plan_files(const TrainState& state, Bytes range_bytes, int rank);

// Copies rows [row_begin, row_end) of a tensor to `out`.
using ReadRows = std::function<void(const StateTensor& tensor, int64_t row_begin, int64_t row_end, std::byte* out)>;

// Writes one of them as a new file of `directory`, kSaveChunk at a time (graph/save_chunk.h); SafetensorsWriter::finish
// then makes it durable. `chunk` is memory to use, kept by the caller. Errors: XG0711; XG0810 a number is not finite.
Result<SafetensorsWriter> write_file(const StateFile& file, const ReadRows& read, const std::string& directory, Io& io,
                                     std::vector<std::byte>& chunk);

// Errors: XG0711, the disk is plainly too full for the files of all ranks; a quota or a limit shows only while writing.
Status check_space(const TrainState& state, const std::string& directory);

// Writes all of plan_files, durably. Errors: those of write_file.
Result<std::vector<ManifestFile>> write_state(const TrainState& state, const std::string& directory, Bytes range_bytes,
                                              Io& io, int rank = 0);

}  // namespace xrun::runtime
