// A value of a pickle as a tensor: _rebuild_tensor_v2(storage, offset, size, stride, ...) of PyTorch, or an array of
// NumPy.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "graph/base/result.h"
#include "runtime/formats/pickle/pickle.h"
#include "runtime/interchange/weights/byte_source.h"
#include "runtime/interchange/weights/stored_weights.h"

namespace xrun::runtime {

// A storage of PyTorch, which a persistent id names: ("storage", type, key, location, elements, view).
struct PickledStorage {
  std::string key;
  Bytes bytes = 0;
  Bytes element_bytes = 1;
  Bytes view_begin = 0;  // files of early versions have views, which begin at this byte of their storage
  int row = 0;           // row of its type in torch_dtypes()
};

// The storage of a reference. Errors: XG0412 the persistent id is not that of a storage.
Result<PickledStorage> pickled_storage(const Pickle& pickle, PickleId reference);

// The key of a dict as a part of a name: a text, a whole number, or in parentheses what else it is.
Result<std::string> pickled_key(const Pickle& pickle, PickleId id);

struct PickledSources {
  std::shared_ptr<const PickleInput> input;  // the pickle; arrays lie in it
  std::shared_ptr<UnpackedBytes> memory;     // for arrays that have to be decoded
  // Returns the bytes of a storage. Empty if the pickle is not of PyTorch.
  std::function<Result<Source>(const PickledStorage&)> storage;
  bool big_endian = false;  // whether the storages are
};

// Whether a value is a tensor, of numbers or of another type.
bool is_tensor(const Pickle& pickle, PickleId id);

struct PickledTensor {
  std::optional<StoredTensor> tensor;
  std::string unread;  // without a tensor: what it is, "a complex64 tensor, which is not read"
};

// REQUIRES: is_tensor. In pickles that are not of PyTorch, an array of u16 has bf16, since PaddlePaddle, which has no
// u16, writes bf16 so. Errors: XG0412 it is damaged; those of `sources`.
Result<PickledTensor> pickled_tensor(const Pickle& pickle, PickleId id, const PickledSources& sources);

}  // namespace xrun::runtime
