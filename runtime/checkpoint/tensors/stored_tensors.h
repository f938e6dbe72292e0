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
#include "runtime/formats/safetensors.h"

namespace xrun::runtime {

// The name of a type in safetensors: "F8_E4M3".
std::string_view safetensors_name(DType dtype);

// Rows of a tensor in one of the files.
struct StoredRows {
  size_t file = 0;
  SafeTensor tensor;
  int64_t row_begin = 0;
  int64_t row_end = 0;
};

struct StoredPlace {
  std::string path;
  const ManifestRows* rows = nullptr;  // entry of the manifest, for a file of class rows
};

// The tensors according to the headers of the files. A file is opened only while it is read, since a checkpoint can
// have more files than a process may open.
struct StoredTensors {
  std::vector<StoredPlace> files;
  std::map<std::string, std::vector<StoredRows>> rows;  // key: name of the tensor; value: its parts in row order
};

// Reads the headers of all files. Tensors have the names that `moved` gives them. REQUIRES: `info` outlives the result.
// Errors: XG0710, XG0711, XG0713, XG0714, XG0715; XG0719 after the renamings two tensors would have the same name, or
// class rows would not have the name of their file.
Result<StoredTensors> read_headers(const CheckpointInfo& info, std::span<const Moved> moved = {});

// The tensors, sorted by name.
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
