// Tests: tests/runtime/interchange/weights/pickle_file_test.cpp, tests/runtime/interchange/weights/torch_zip_test.cpp
#include "runtime/interchange/weights/pickled_tensors.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>
#include <vector>

#include "graph/base/utf8.h"
#include "runtime/formats/pickle/numpy_values.h"
#include "runtime/interchange/weights/torch_values.h"

namespace xrun::runtime {
namespace {

using Ids = std::vector<PickleId>;

const Ids& arguments_of(const Pickle& pickle, PickleId call) { return pickle[pickle[call].arguments].items; }

bool is_call(const Pickle& pickle, PickleId id) { return pickle[id].kind == PickleKind::kCall; }

// A tensor of PaddlePaddle in a nested dict is the call tuple((name, array)); returns the array, or nothing.
std::optional<PickleId> named_array(const Pickle& pickle, PickleId id) {
  if (!is_call(pickle, id) || pickle[id].number != kTuple || arguments_of(pickle, id).size() != 1) {
    return std::nullopt;
  }
  const PickleValue& pair = pickle[arguments_of(pickle, id)[0]];
  const bool is_pair = pair.kind == PickleKind::kTuple && pair.items.size() == 2;
  return is_pair && is_call(pickle, pair.items[1]) ? std::optional(pair.items[1]) : std::nullopt;
}

bool is_array(const Pickle& pickle, PickleId id) {
  return is_call(pickle, id) && (pickle[id].number == kNumpyReconstruct || pickle[id].number == kNumpyFromBuffer);
}

// A whole number from 0 on.
Result<int64_t> size_of(const Pickle& pickle, PickleId id, std::string_view what) {
  const PickleValue& value = pickle[id];
  if (value.kind != PickleKind::kInteger || value.number < 0) {
    return pickle.fault(id, fmt::format("{} is {}, not a whole number from 0 on", what,
                                        value.kind == PickleKind::kInteger ? fmt::to_string(value.number)
                                                                           : std::string(name_of(value.kind))));
  }
  return value.number;
}

// The numbers of a tuple, or of a torch.Size.
Result<std::vector<int64_t>> sizes_of(const Pickle& pickle, PickleId id, std::string_view what) {
  if (is_call(pickle, id) && pickle[id].number == kTorchSize && arguments_of(pickle, id).size() == 1) {
    id = arguments_of(pickle, id)[0];
  }
  const PickleValue& value = pickle[id];
  if (value.kind != PickleKind::kTuple && value.kind != PickleKind::kList) {
    return pickle.fault(id, fmt::format("{} is {}, not a tuple", what, name_of(value.kind)));
  }
  std::vector<int64_t> sizes;
  for (const PickleId item : value.items) {
    XRUN_ASSIGN(const int64_t size, size_of(pickle, item, what));
    sizes.push_back(size);
  }
  return sizes;
}

// Whether a tensor is a view that negates its storage: {"neg": True} among the arguments after `first`.
Result<bool> is_negated(const Pickle& pickle, const Ids& arguments, size_t first) {
  for (size_t i = first; i < arguments.size(); ++i) {
    const PickleValue& value = pickle[arguments[i]];
    for (size_t key = 0; value.kind == PickleKind::kDict && key + 1 < value.items.size(); key += 2) {
      if (pickle[value.items[key]].kind == PickleKind::kText) {
        XRUN_ASSIGN(const std::string name, read_pickle_text(pickle.input(), pickle[value.items[key]].string));
        if (name == "neg" && pickle[value.items[key + 1]].number != 0) {
          return true;
        }
      }
    }
  }
  return false;
}

// A tensor of PyTorch from the arguments of a function: (storage, offset, size, stride, requires_grad, hooks), and the
// dtype if `has_dtype`.
Result<PickledTensor> rebuilt(const Pickle& pickle, PickleId id, const Ids& arguments, bool has_dtype,
                              const PickledSources& sources) {
  const size_t fixed = has_dtype ? 7 : 4;
  if (arguments.size() < fixed || !sources.storage) {
    return pickle.fault(id, "a tensor without storage, offset, size and stride");
  }
  XRUN_ASSIGN(const PickledStorage storage, pickled_storage(pickle, arguments[0]));
  const TorchDtype* dtype = &torch_dtypes()[static_cast<size_t>(storage.row)];
  if (has_dtype) {
    const PickleValue& value = pickle[arguments[6]];
    const int64_t row = value.number - kFirstTorchDtype;
    if (value.kind != PickleKind::kGlobal || row < 0 || row >= std::ssize(torch_dtypes())) {
      return pickle.fault(arguments[6], "a tensor without a dtype");
    }
    dtype = &torch_dtypes()[static_cast<size_t>(row)];
  }
  XRUN_ASSIGN(const bool negated, is_negated(pickle, arguments, fixed));
  if (!dtype->type || negated) {
    return PickledTensor{
        .tensor = {},
        .unread = fmt::format("a {}{} tensor, which is not read", negated ? "negated " : "", dtype->name)};
  }
  StoredTensor tensor{
      .dtype = fmt::format("torch.{}", dtype->name), .type = *dtype->type, .big_endian = sources.big_endian};
  XRUN_ASSIGN(const int64_t offset, size_of(pickle, arguments[1], "the offset of a tensor"));
  XRUN_ASSIGN(tensor.dims, sizes_of(pickle, arguments[2], "the size of a tensor"));
  XRUN_ASSIGN(tensor.strides, sizes_of(pickle, arguments[3], "the stride of a tensor"));
  XRUN_ASSIGN(tensor.source, sources.storage(storage));
  if (tensor.dims.size() != tensor.strides.size() || __builtin_mul_overflow(offset, dtype->bytes, &tensor.begin) ||
      __builtin_add_overflow(tensor.begin, storage.view_begin, &tensor.begin)) {
    return pickle.fault(id, "the offset or the strides of a tensor do not fit its size");
  }
  return PickledTensor{.tensor = std::move(tensor), .unread = ""};
}

Result<PickledTensor> array_tensor(const Pickle& pickle, PickleId id, const PickledSources& sources) {
  XRUN_ASSIGN(auto found, pickled_array(pickle, id));
  const PickledArray& array = *found;
  const bool is_paddle = !sources.storage;
  std::optional<ElementType> type;
  const auto is = [&](char letter, int bytes) { return array.letter == letter && array.item_bytes == bytes; };
  using enum ElementType;
  for (const auto& [letter, bytes, one] : {std::tuple{'b', 1, kBool},
                                           {'u', 1, kU8},
                                           {'i', 1, kI8},
                                           {'u', 2, is_paddle ? kBf16 : kU16},
                                           {'i', 2, kI16},
                                           {'u', 4, kU32},
                                           {'i', 4, kI32},
                                           {'u', 8, kU64},
                                           {'i', 8, kI64},
                                           {'f', 2, kF16},
                                           {'f', 4, kF32},
                                           {'f', 8, kF64}}) {
    type = is(letter, bytes) ? one : type;
  }
  if (!type) {
    return PickledTensor{.tensor = {}, .unread = fmt::format("an array {}, which is not read", array.type())};
  }
  StoredTensor tensor{.dtype = type == kBf16 ? "uint16, which is bfloat16 in PaddlePaddle"
                                             : fmt::format("NumPy's {}{}", array.letter, array.item_bytes),
                      .type = *type,
                      .big_endian = array.big_endian,
                      .dims = array.shape};
  if (array.fortran) {
    int64_t step = 1;
    for (const int64_t dim : array.shape) {
      tensor.strides.push_back(step);
      step *= std::max<int64_t>(dim, 1);
    }
  }
  const Bytes bytes = array.elements * array.item_bytes;
  if (array.data.coding == PickleCoding::kRaw) {
    tensor.source = bytes_of_pickle(sources.input, array.data.offset, bytes);
    return PickledTensor{.tensor = std::move(tensor), .unread = ""};
  }
  if (array.data.size > kMostUnpacked) {
    return pickle.fault(id, fmt::format("an array {} is stored as text of {}, of which at most {} is read; save it "
                                        "with protocol 4",
                                        array.type(), format_bytes(array.data.size), format_bytes(kMostUnpacked)));
  }
  tensor.source =
      unpacked_bytes(sources.memory, sources.input->name(), bytes,
                     [input = sources.input, data = array.data] { return read_pickle_bytes(*input, data); });
  return PickledTensor{.tensor = std::move(tensor), .unread = ""};
}

}  // namespace

Result<PickledStorage> pickled_storage(const Pickle& pickle, PickleId reference) {
  const auto not_one = [&](std::string_view why) {
    return pickle.fault(reference, fmt::format("a reference to something that is not a storage: {}", why));
  };
  if (pickle[reference].kind != PickleKind::kReference) {
    return not_one(name_of(pickle[reference].kind));
  }
  const PickleValue& id = pickle[pickle[reference].items[0]];
  const Ids& parts = id.items;
  if (id.kind != PickleKind::kTuple || parts.size() < 5 || pickle[parts[1]].kind != PickleKind::kGlobal) {
    return not_one("its persistent id is not (\"storage\", type, key, location, elements)");
  }
  const int64_t row = pickle[parts[1]].number - kFirstTorchStorage;
  if (row < 0 || row >= std::ssize(torch_dtypes())) {
    return not_one("its type is not that of a storage");
  }
  PickledStorage storage{.element_bytes = torch_dtypes()[static_cast<size_t>(row)].bytes, .row = static_cast<int>(row)};
  const PickleValue& key = pickle[parts[2]];
  if (key.kind == PickleKind::kText || key.kind == PickleKind::kString) {
    XRUN_ASSIGN(storage.key, read_pickle_text(pickle.input(), key.string, kKiB));
  } else if (key.kind == PickleKind::kInteger) {
    storage.key = fmt::to_string(key.number);
  } else {
    return not_one("its key is not a text");
  }
  XRUN_ASSIGN(const int64_t elements, size_of(pickle, parts[4], "the size of a storage"));
  if (__builtin_mul_overflow(elements, storage.element_bytes, &storage.bytes)) {
    return not_one("its size is too large");
  }
  if (parts.size() > 5 && pickle[parts[5]].kind == PickleKind::kTuple && pickle[parts[5]].items.size() == 3) {
    XRUN_ASSIGN(const int64_t begin, size_of(pickle, pickle[parts[5]].items[1], "the offset of a view"));
    if (__builtin_mul_overflow(begin, storage.element_bytes, &storage.view_begin)) {
      return not_one("the offset of its view is too large");
    }
  }
  return storage;
}

Result<std::string> pickled_key(const Pickle& pickle, PickleId id) {
  const PickleValue& key = pickle[id];
  if (key.kind == PickleKind::kText || key.kind == PickleKind::kString) {
    XRUN_ASSIGN(const std::string text, read_pickle_text(pickle.input(), key.string));
    return well_formed(text);
  }
  return key.kind == PickleKind::kInteger ? fmt::to_string(key.number) : fmt::format("({})", name_of(key.kind));
}

bool is_tensor(const Pickle& pickle, PickleId id) {
  if (const auto array = named_array(pickle, id)) {
    id = *array;
  }
  if (is_array(pickle, id)) {
    return true;
  }
  const int64_t meaning = is_call(pickle, id) ? pickle[id].number : 0;
  return meaning == kRebuildTensor || meaning == kRebuildTyped || meaning == kRebuildParameter ||
         meaning == kRebuildFromType;
}

Result<PickledTensor> pickled_tensor(const Pickle& pickle, PickleId id, const PickledSources& sources) {
  if (const auto array = named_array(pickle, id)) {
    id = *array;
  }
  if (is_array(pickle, id)) {
    return array_tensor(pickle, id, sources);
  }
  const Ids& arguments = arguments_of(pickle, id);
  switch (pickle[id].number) {
    case kRebuildParameter:
      return arguments.empty() || !is_tensor(pickle, arguments[0])
                 ? Result<PickledTensor>(pickle.fault(id, "a parameter without a tensor"))
                 : pickled_tensor(pickle, arguments[0], sources);
    case kRebuildFromType: {
      const bool is_whole = arguments.size() >= 3 && pickle[arguments[0]].kind == PickleKind::kGlobal &&
                            pickle[arguments[2]].kind == PickleKind::kTuple;
      const int64_t function = is_whole ? pickle[arguments[0]].number : 0;
      if (function != kRebuildTensor && function != kRebuildTyped) {
        return pickle.fault(id, "a tensor with attributes that is made in a way that is not read");
      }
      return rebuilt(pickle, id, pickle[arguments[2]].items, function == kRebuildTyped, sources);
    }
    default:
      return rebuilt(pickle, id, arguments, pickle[id].number == kRebuildTyped, sources);
  }
}

}  // namespace xrun::runtime
