#include "runtime/formats/pickle/numpy_values.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <string>
#include <utility>

namespace xrun::runtime {
namespace {

constexpr int kMostItemBytes = 16;

constexpr PickleGlobal kGlobals[] = {
    {"numpy.core.multiarray", "_reconstruct", kNumpyReconstruct},
    {"numpy._core.multiarray", "_reconstruct", kNumpyReconstruct},
    {"numpy.core.numeric", "_frombuffer", kNumpyFromBuffer},
    {"numpy._core.numeric", "_frombuffer", kNumpyFromBuffer},
    {"numpy.core.multiarray", "scalar", kNumpyScalar},
    {"numpy._core.multiarray", "scalar", kNumpyScalar},
    {"numpy", "ndarray", kNumpyArrayType},
    {"numpy", "dtype", kNumpyDtype},
    {"_codecs", "encode", kEncode},
    {"__builtin__", "bytes", kBytesType},
    {"builtins", "bytes", kBytesType},
    {"__builtin__", "bytearray", kByteArrayType},
    {"builtins", "bytearray", kByteArrayType},
};

bool is_call(const PickleValue& value, NumpyMeaning meaning) {
  return value.kind == PickleKind::kCall && value.number == meaning;
}

bool is_text(const PickleValue& value) {
  return value.kind == PickleKind::kText || value.kind == PickleKind::kString || value.kind == PickleKind::kBytes;
}

const std::vector<PickleId>& arguments_of(const Pickle& pickle, PickleId call) {
  return pickle[pickle[call].arguments].items;
}

// Reads a short text, such as the name of a type.
Result<std::string> text_of(const Pickle& pickle, PickleId id) {
  if (!is_text(pickle[id])) {
    return pickle.fault(id, fmt::format("{} instead of a text", name_of(pickle[id].kind)));
  }
  return read_pickle_text(pickle.input(), pickle[id].string, kKiB);
}

// The bytes of a text that is encoded in latin-1: `encoding` names the encoding.
Result<std::optional<PickleString>> encoded(const Pickle& pickle, PickleId text, PickleId encoding) {
  XRUN_ASSIGN(const std::string name, text_of(pickle, encoding));
  if (!is_text(pickle[text]) || (name != "latin1" && name != "latin-1")) {
    return pickle.fault(text, fmt::format("{} in the encoding {}; only latin-1 is read", name_of(pickle[text].kind),
                                          name.substr(0, 32)));
  }
  return std::optional(pickle[text].string);
}

// Sets type and byte order from dtype("<u1", False, True) with the state (3, "|", ...).
Status set_type(const Pickle& pickle, PickleId id, PickledArray& array) {
  const PickleValue& dtype = pickle[id];
  if (!is_call(dtype, kNumpyDtype) || arguments_of(pickle, id).empty()) {
    return pickle.fault(id, fmt::format("{} instead of a dtype", name_of(dtype.kind)));
  }
  XRUN_ASSIGN(std::string name, text_of(pickle, arguments_of(pickle, id)[0]));
  char order = name.empty() ? '|' : name[0];
  if (order == '<' || order == '>' || order == '|' || order == '=') {
    name.erase(0, 1);
  } else {
    order = '|';
  }
  if (const auto& state = pickle[dtype.state].items; state.size() >= 2) {
    XRUN_ASSIGN(const std::string given, text_of(pickle, state[1]));
    order = given.size() == 1 ? given[0] : '?';
  }
  const auto [end, fault] = name.empty()
                                ? std::from_chars_result{nullptr, std::errc::invalid_argument}
                                : std::from_chars(name.data() + 1, name.data() + name.size(), array.item_bytes);
  if (fault != std::errc() || end != name.data() + name.size() ||
      std::string_view("buif").find(name[0]) == std::string_view::npos || array.item_bytes < 1 ||
      array.item_bytes > kMostItemBytes || std::string_view("<>|=").find(order) == std::string_view::npos) {
    return pickle.fault(
        id, fmt::format("an array of the type \"{}\"; only bools and numbers are read", name.substr(0, 32)));
  }
  array.letter = name[0];
  array.big_endian = order == '>';
  return {};
}

Status set_shape(const Pickle& pickle, PickleId id, PickledArray& array) {
  const PickleValue& shape = pickle[id];
  const auto& dims = shape.items;
  const auto bad = [&](PickleId dim) { return pickle[dim].kind != PickleKind::kInteger || pickle[dim].number < 0; };
  if (shape.kind != PickleKind::kTuple || dims.size() > 64 || std::ranges::any_of(dims, bad)) {
    return pickle.fault(id, "the shape of an array is not a tuple of sizes");
  }
  for (const PickleId dim : dims) {
    array.shape.push_back(pickle[dim].number);
    if (__builtin_mul_overflow(array.elements, pickle[dim].number, &array.elements)) {
      return pickle.fault(id, "the shape of an array is too large");
    }
  }
  return {};
}

Status set_data(const Pickle& pickle, PickleId id, PickledArray& array) {
  XRUN_ASSIGN(const auto data, pickled_bytes(pickle, id));
  if (!data) {
    return pickle.fault(id, fmt::format("the data of an array is {}", name_of(pickle[id].kind)));
  }
  array.data = *data;
  // Text that encodes a byte has 1 to 10 bytes (\U000000FF), so that `elements` is limited by the size of the file, and
  // reading a small array by the size of the array.
  constexpr int64_t kMostStored = 10;
  const int64_t stored_per_byte = data->coding == PickleCoding::kRaw ? 1 : kMostStored;
  if (array.elements > data->size / array.item_bytes ||
      data->size > array.elements * array.item_bytes * stored_per_byte) {
    return pickle.fault(id, fmt::format("an array {} has {} bytes of data", array.type(), data->size));
  }
  return {};
}

}  // namespace

std::span<const PickleGlobal> numpy_globals() { return kGlobals; }

std::string PickledArray::type() const { return fmt::format("{}{} [{}]", letter, item_bytes, fmt::join(shape, ", ")); }

Result<std::optional<PickleString>> pickled_bytes(const Pickle& pickle, PickleId id) {
  const PickleValue& value = pickle[id];
  if (value.kind == PickleKind::kBytes || value.kind == PickleKind::kString) {
    return std::optional(value.string);
  }
  const bool is_type = is_call(value, kBytesType) || is_call(value, kByteArrayType);
  if (!is_type && !is_call(value, kEncode)) {
    return std::optional<PickleString>();
  }
  const auto& arguments = arguments_of(pickle, id);
  if (arguments.size() == 2) {
    return encoded(pickle, arguments[0], arguments[1]);
  }
  if (is_type && arguments.size() < 2) {
    return arguments.empty() ? Result<std::optional<PickleString>>(PickleString())
                             : pickled_bytes(pickle, arguments[0]);
  }
  return pickle.fault(id, "a byte string is made in a way that is not read");
}

Result<std::optional<PickledArray>> pickled_array(const Pickle& pickle, PickleId id) {
  const PickleValue& value = pickle[id];
  PickledArray array;
  if (is_call(value, kNumpyReconstruct)) {
    const auto& state = pickle[value.state].items;  // version, shape, dtype, fortran, bytes
    if (pickle[value.state].kind != PickleKind::kTuple || state.size() != 5) {
      return pickle.fault(id, "an array without shape, type and data");
    }
    XRUN_TRY(set_type(pickle, state[2], array));
    XRUN_TRY(set_shape(pickle, state[1], array));
    array.fortran = pickle[state[3]].number != 0;
    XRUN_TRY(set_data(pickle, state[4], array));
    return std::optional(std::move(array));
  }
  if (is_call(value, kNumpyFromBuffer)) {
    const auto& arguments = arguments_of(pickle, id);
    if (arguments.size() != 4) {
      return pickle.fault(id, "an array without data, type, shape and order");
    }
    XRUN_ASSIGN(const std::string order, text_of(pickle, arguments[3]));
    if (order != "C" && order != "F") {
      return pickle.fault(id, "an array in another order than C and F");
    }
    array.fortran = order == "F";
    XRUN_TRY(set_type(pickle, arguments[1], array));
    XRUN_TRY(set_shape(pickle, arguments[2], array));
    XRUN_TRY(set_data(pickle, arguments[0], array));
    return std::optional(std::move(array));
  }
  if (is_call(value, kNumpyScalar)) {
    const auto& arguments = arguments_of(pickle, id);
    if (arguments.size() != 2) {
      return pickle.fault(id, "a NumPy scalar without type and data");
    }
    XRUN_TRY(set_type(pickle, arguments[0], array));
    XRUN_TRY(set_data(pickle, arguments[1], array));
    return std::optional(std::move(array));
  }
  return std::optional<PickledArray>();
}

Result<std::vector<int64_t>> read_integers(const Pickle& pickle, const PickledArray& array) {
  const auto fault = [&](std::string_view why) {
    return damaged_pickle(pickle.input().name(), array.data.offset, fmt::format("an array {} {}", array.type(), why));
  };
  if (array.letter == 'f' || array.item_bytes > static_cast<int>(sizeof(int64_t))) {
    return fault("where bools or whole numbers are needed");
  }
  XRUN_ASSIGN(const auto bytes, read_pickle_bytes(pickle.input(), array.data));
  if (std::ssize(bytes) != array.elements * array.item_bytes) {
    return fault(fmt::format("has {} bytes of data", bytes.size()));
  }
  const auto width = static_cast<size_t>(array.item_bytes);
  const auto unused = static_cast<int>(64 - 8 * width);
  std::vector<int64_t> numbers(static_cast<size_t>(array.elements));
  for (size_t i = 0; i < numbers.size(); ++i) {
    uint64_t bits = 0;
    for (size_t byte = 0; byte < width; ++byte) {
      const size_t at = array.big_endian ? byte : width - 1 - byte;
      bits = bits << 8 | std::to_integer<uint64_t>(bytes[i * width + at]);
    }
    const auto shifted = static_cast<int64_t>(bits << unused);
    numbers[i] = array.letter == 'i' ? shifted >> unused : static_cast<int64_t>(bits);
    if (numbers[i] < 0 && array.letter != 'i') {
      return fault("has a number that is too large");
    }
  }
  return numbers;
}

}  // namespace xrun::runtime
