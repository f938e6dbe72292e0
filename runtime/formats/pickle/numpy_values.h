// NumPy arrays, NumPy scalars and byte strings in pickles, as NumPy 1 and 2 and Python 2 and 3 write them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/base/result.h"
#include "runtime/formats/pickle/pickle.h"

namespace xrun::runtime {

// The meanings of the functions that such values call. A caller with functions of its own numbers them from 100.
enum NumpyMeaning : int {
  kNumpyReconstruct = 1,  // _reconstruct(ndarray, (0,), b"b"), then BUILD (version, shape, dtype, fortran, bytes)
  kNumpyFromBuffer,       // _frombuffer(bytes, dtype, shape, "C" or "F")
  kNumpyScalar,           // scalar(dtype, bytes)
  kNumpyArrayType,        // ndarray
  kNumpyDtype,            // dtype("u1", False, True), then BUILD (version, byte order, ...)
  kEncode,                // _codecs.encode(text, "latin1"): how Python 3 writes bytes up to protocol 2
  kBytesType,             // bytes() of nothing, or of bytes
  kByteArrayType,
};

// The rows of PickleRules::globals for these functions.
std::span<const PickleGlobal> numpy_globals();

// The bytes of a value that is a byte string in any of its forms; nothing if the value is something else. Errors:
// XG0412 an encoding other than latin-1.
Result<std::optional<PickleString>> pickled_bytes(const Pickle& pickle, PickleId id);

// An array, or with an empty shape a scalar. Its type is given by the letter and size of NumPy: "u1", "b1", "i8".
struct PickledArray {
  char letter = 'u';
  int item_bytes = 1;
  bool big_endian = false;
  bool fortran = false;  // whether the first index varies fastest
  std::vector<int64_t> shape;
  int64_t elements = 1;  // product of the shape
  PickleString data;     // elements * item_bytes bytes, once decoded

  std::string type() const;  // "u1 [112, 112, 3]"
};

// The array of a value; nothing if the value is not an array. Errors: XG0412 a type other than bools and whole and real
// numbers, a shape or an amount of data that does not fit; data that must be decoded is not counted before that.
Result<std::optional<PickledArray>> pickled_array(const Pickle& pickle, PickleId id);

// The elements of an array of bools or whole numbers, in the order of the data. Errors: XG0412 another type, the wrong
// amount of data, a u64 above i64.
Result<std::vector<int64_t>> read_integers(const Pickle& pickle, const PickledArray& array);

}  // namespace xrun::runtime
