// The files of a checkpoint for a run's tensors: which rows each file holds, and how it is written.
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

// A file to write: rows [row_begin, row_end) of the tensors of a head, the residuals of a sender, or some whole tensors
// of the trunk.
struct StateFile {
  std::string name;
  std::vector<const StateTensor*> tensors;
  bool by_rows = false;
  int64_t row_begin = 0;
  int64_t row_end = 0;
};

// The files for all tensors that are kept, except class rows that have files of their own. Head files have about
// `range_bytes`. With several ranks, each rank writes its rows of heads, the residuals of its devices and the other
// tensors that it is the first to have, under names of its own; rank 0 has trunk.safetensors even if it is empty.
std::vector<StateFile> plan_files(const TrainState& state, Bytes range_bytes, int rank);

// Copies rows [row_begin, row_end) of a tensor to `out`.
using ReadRows = std::function<void(const StateTensor& tensor, int64_t row_begin, int64_t row_end, std::byte* out)>;

// Writes one of these as a new file of `directory`, kSaveChunk at a time (graph/save_chunk.h);
// SafetensorsWriter::finish then makes it durable. `chunk` is working memory, owned by the caller. Errors: XG0711;
// XG0810 a number is not finite.
Result<SafetensorsWriter> write_file(const StateFile& file, const ReadRows& read, const std::string& directory, Io& io,
                                     std::vector<std::byte>& chunk);

// Errors: XG0711, the disk is clearly too full for the files of all ranks; quotas or limits show only while writing.
Status check_space(const TrainState& state, const std::string& directory);

// Writes all of plan_files, durably. Errors: those of write_file.
Result<std::vector<ManifestFile>> write_state(const TrainState& state, const std::string& directory, Bytes range_bytes,
                                              Io& io, int rank = 0);

}  // namespace xrun::runtime
