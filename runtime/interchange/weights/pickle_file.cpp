// A file of PyTorch before version 1.6 (also called legacy) has five pickles, then the storages:
//   the number 0x1950a86a20f9469cfc6c, the number 1001, facts of the machine, the value, a list of keys of storages
//   for each key: i64 elements, then the elements, little-endian
// The size of an element is that of the storage's type, to which a reference in the value belongs. A reference may be
// to a view: a part of a storage that starts at an offset.
// Source: _legacy_save and _legacy_load in torch/serialization.py of PyTorch 2.13.
#include "runtime/interchange/weights/pickle_file.h"

#include <fmt/format.h>
#include <map>
#include <utility>
#include <vector>

#include "graph/base/errors.h"
#include "runtime/formats/open_file.h"
#include "runtime/interchange/weights/pickled_weights.h"

namespace xrun::runtime {
namespace {

constexpr uint8_t kMagic[] = {0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};
constexpr int64_t kProtocol = 1001;

using Input = std::shared_ptr<const PickleInput>;

Result<bool> is_magic(const Pickle& pickle) {
  const PickleValue& value = pickle[pickle.root()];
  if (value.kind != PickleKind::kBigInteger || value.string.size != std::ssize(kMagic)) {
    return false;
  }
  XRUN_ASSIGN(const auto bytes, read_pickle_bytes(pickle.input(), value.string));
  return std::ranges::equal(bytes, std::as_bytes(std::span(kMagic)));
}

// The sizes of the elements of all storages to which a pickle refers.
Result<std::map<std::string, Bytes>> element_sizes(const Pickle& pickle) {
  std::map<std::string, Bytes> sizes;
  for (PickleId id = 0; id < pickle.values(); ++id) {
    if (pickle[id].kind == PickleKind::kReference) {
      XRUN_ASSIGN(const PickledStorage storage, pickled_storage(pickle, id));
      const auto [known, is_new] = sizes.emplace(storage.key, storage.element_bytes);
      if (!is_new && known->second != storage.element_bytes) {
        return pickle.fault(id, fmt::format("the storage {} has elements of two sizes", storage.key));
      }
    }
  }
  return sizes;
}

// The places of the storages after the keys.
Result<std::map<std::string, Source>> storages_of(const std::shared_ptr<const RandomFile>& file, const Pickle& keys,
                                                  const std::map<std::string, Bytes>& sizes) {
  std::map<std::string, Source> storages;
  Bytes at = keys.end();
  for (const PickleId id : keys[keys.root()].items) {
    XRUN_ASSIGN(const std::string key, pickled_key(keys, id));
    const auto size = sizes.find(key);
    if (size == sizes.end()) {
      return keys.fault(id, fmt::format("no tensor refers to the storage {}, so its size is unknown", key));
    }
    int64_t elements = 0;
    XRUN_TRY(file->read(at, std::as_writable_bytes(std::span(&elements, 1))));
    at += static_cast<Bytes>(sizeof elements);
    Bytes bytes = 0;
    if (elements < 0 || __builtin_mul_overflow(elements, size->second, &bytes) || bytes > file->size() - at) {
      return broken_file(file->path(),
                         fmt::format("offset {}: the storage {} has {} elements, but the file ends at byte {}",
                                     at - static_cast<Bytes>(sizeof elements), key, elements, file->size()));
    }
    if (!storages.emplace(key, bytes_of_file(file, at, bytes)).second) {
      return keys.fault(id, fmt::format("the storage {} occurs twice", key));
    }
    at += bytes;
  }
  return storages;
}

Result<std::unique_ptr<WeightFile>> open_legacy(const std::shared_ptr<const RandomFile>& file, const Input& input,
                                                Bytes at, StopFlag stop) {
  const PickleRules rules = weight_pickle_rules();
  XRUN_ASSIGN(const Pickle protocol, parse_pickle(*input, at, rules, stop));
  if (protocol[protocol.root()].number != kProtocol) {
    return protocol.fault(protocol.root(), fmt::format("a file of PyTorch of the protocol {}; only {} is read",
                                                       protocol[protocol.root()].number, kProtocol));
  }
  XRUN_ASSIGN(const Pickle machine, parse_pickle(*input, protocol.end(), rules, stop));
  XRUN_ASSIGN(const Pickle value, parse_pickle(*input, machine.end(), rules, stop));
  XRUN_ASSIGN(const Pickle keys, parse_pickle(*input, value.end(), rules, stop));
  XRUN_ASSIGN(const auto sizes, element_sizes(value));
  XRUN_ASSIGN(const auto storages, storages_of(file, keys, sizes));
  const auto find = [&](const PickledStorage& storage) -> Result<Source> {
    const auto found = storages.find(storage.key);
    return found != storages.end() && storage.bytes <= found->second->bytes()
               ? Result<Source>(found->second)
               : broken_file(file->path(), fmt::format("the storage {} is missing or too short", storage.key));
  };
  WeightContents contents{.path = file->path()};
  XRUN_TRY(add_pickled_tensors(value, {.input = input, .memory = make_unpacked_bytes(), .storage = find}, contents));
  return make_stored_weights(std::move(contents), "PyTorch before 1.6", stop);
}

}  // namespace

Result<std::unique_ptr<WeightFile>> open_pickle_of_weights(std::shared_ptr<const RandomFile> file, StopFlag stop) {
  const Input input = pickle_in_file(file, 0, file->size(), file->path());
  XRUN_ASSIGN(const Pickle first, parse_pickle(*input, 0, weight_pickle_rules(), stop));
  XRUN_ASSIGN(const bool is_torch, is_magic(first));
  if (is_torch) {
    return open_legacy(file, input, first.end(), stop);
  }
  WeightContents contents{.path = file->path()};
  XRUN_TRY(add_pickled_tensors(first, {.input = input, .memory = make_unpacked_bytes(), .storage = {}}, contents));
  return make_stored_weights(std::move(contents), "a pickle of arrays, as PaddlePaddle writes it", stop);
}

}  // namespace xrun::runtime
