// Finds the tensors in the files of a checkpoint by name, and the places of their rows. The files are safetensors files
// and files of class rows (class_row_files.h).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "graph/settings/moved.h"
#include "graph/types/tensor_type.h"
#include "runtime/checkpoint/class_rows/class_row_file.h"
#include "runtime/checkpoint/tensors/checkpoint.h"
#include "runtime/checkpoint/tensors/mismatch.h"
#include "runtime/formats/tensors/safetensors.h"

namespace xrun::runtime {

// Returns the name of a type in safetensors files, such as "F8_E4M3".
std::string_view safetensors_name(DType dtype);

// Rows of a tensor that are stored in one of the files.
struct StoredRows {
  size_t file = 0;
  SafeTensor tensor;
  int64_t row_begin = 0;
  int64_t row_end = 0;
};

struct StoredPlace {
  std::string path;
  const ManifestRows* rows = nullptr;  // entry of the manifest if this is a file of class rows; else null
};

// The tensors that the headers of the files list. A file is opened only while it is read, since a checkpoint can have
// more files than a process may open.
struct StoredTensors {
  std::vector<StoredPlace> files;
  std::map<std::string, std::vector<StoredRows>> rows;  // key: name of the tensor; value: its rows by file, in order
};

// Reads the headers of all files. Tensors have their names after the renamings in `moved`. REQUIRES: `info` outlives
// the result. Errors: XG0710, XG0711, XG0713, XG0714, XG0715; XG0719 after the renamings two tensors have equal names,
// or class rows have another name than their file.
Result<StoredTensors> read_headers(const CheckpointInfo& info, std::span<const Moved> moved = {});

// Returns the stored tensors, sorted by name.
std::vector<StoredTensor> list(const StoredTensors& stored);

// An open file of a checkpoint.
class StoredFile {
 public:
  // Opens a file. A file of class rows is first restored to the checkpoint, and stays locked. Errors: those of
  // SafetensorsFile::open and restore_rows.
  static Result<StoredFile> open(const CheckpointInfo& info, const StoredPlace& place);

  // Reads bytes [offset, offset + out.size()) of a tensor.
  Status read(const SafeTensor& tensor, Bytes offset, std::span<std::byte> out) const;

 private:
  std::optional<SafetensorsFile> tensors_;
  std::shared_ptr<ClassRowFile> rows_;  // used instead of `tensors_`
};

}  // namespace xrun::runtime
