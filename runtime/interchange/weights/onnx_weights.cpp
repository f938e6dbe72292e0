#include "runtime/interchange/weights/onnx_weights.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/base/errors.h"
#include "runtime/formats/open_file.h"
#include "runtime/interchange/onnx_initializers.h"
#include "runtime/interchange/weights/onnx_pieces.h"
#include "runtime/interchange/weights/sharded_weights.h"
#include "runtime/interchange/weights/stored_weights.h"

namespace xrun::runtime {
namespace {

using enum ElementType;

// The types of TensorProto, by number.
struct OnnxDtype {
  std::string_view name;
  std::optional<ElementType> type;  // nothing: it is not read
};
constexpr OnnxDtype kDtypes[] = {
    {"UNDEFINED", {}},
    {"FLOAT", kF32},
    {"UINT8", kU8},
    {"INT8", kI8},
    {"UINT16", kU16},
    {"INT16", kI16},
    {"INT32", kI32},
    {"INT64", kI64},
    {"STRING", {}},
    {"BOOL", kBool},
    {"FLOAT16", kF16},
    {"DOUBLE", kF64},
    {"UINT32", kU32},
    {"UINT64", kU64},
    {"COMPLEX64", {}},
    {"COMPLEX128", {}},
    {"BFLOAT16", kBf16},
    {"FLOAT8E4M3FN", kF8E4M3},
    {"FLOAT8E4M3FNUZ", kF8E4M3Fnuz},
    {"FLOAT8E5M2", kF8E5M2},
    {"FLOAT8E5M2FNUZ", kF8E5M2Fnuz},
    {"UINT4", {}},
    {"INT4", {}},
    {"FLOAT4E2M1", {}},
    {"FLOAT8E8M0", kF8E8M0},
};

class OnnxWeights {
 public:
  OnnxWeights(std::shared_ptr<const RandomFile> file, StopFlag stop) : file_(std::move(file)), stop_(stop) {}

  Result<std::unique_ptr<WeightFile>> open() {
    const std::string& path = file_->path();
    if (file_->size() > kMostOnnx) {
      return content_error(
          "XG0412", {"{}: {}, but protobuf reads less than 2 GiB as one message", path, format_bytes(file_->size())},
          {"keep the weights outside of the model: in Python, onnx.save_model(model, \"{}\", "
           "save_as_external_data=True)",
           path});
    }
    XRUN_ASSIGN(const int descriptor, open_ordinary(path));
    const OpenFile opened(descriptor);
    XRUN_ASSIGN(const OnnxInitializers found, list_onnx(opened.get(), path));
    WeightContents contents{.path = path};
    for (const OnnxInitializer& initializer : found.tensors) {
      XRUN_TRY(check_stop(stop_));
      XRUN_TRY(add(initializer, contents));
    }
    XRUN_TRY(join_onnx_pieces(found.pieces, contents));
    for (const std::string& name : found.sparse) {
      contents.add_other(name, "a sparse tensor, which is not read");
    }
    return make_stored_weights(std::move(contents), "ONNX", stop_);
  }

 private:
  Status add(const OnnxInitializer& from, WeightContents& to) {
    const bool is_known = from.data_type > 0 && from.data_type < std::ssize(kDtypes);
    const OnnxDtype dtype = is_known ? kDtypes[from.data_type] : OnnxDtype{"", {}};
    if (!dtype.type) {
      to.add_other(from.name, is_known ? fmt::format("{}, which is not read", dtype.name)
                                       : fmt::format("the unknown type {}", from.data_type));
      return {};
    }
    StoredTensor tensor{.dtype = std::string(dtype.name), .type = *dtype.type, .dims = from.dims};
    Bytes bytes = bytes_of(*dtype.type);
    for (const int64_t dim : from.dims) {
      if (__builtin_mul_overflow(bytes, dim, &bytes)) {
        return broken_file(file_->path(), fmt::format("the shape of {} is too large", from.name));
      }
    }
    XRUN_ASSIGN(tensor.source, source_of(from, bytes));
    if (tensor.source->bytes() != bytes) {
      return broken_file(file_->path(), fmt::format("{} has {} bytes of data, but its shape needs {}", from.name,
                                                    tensor.source->bytes(), bytes));
    }
    return to.add(from.name, std::move(tensor));
  }

  // The elements of a constant, which needs `bytes` bytes.
  Result<Source> source_of(const OnnxInitializer& from, Bytes bytes) {
    const auto part = std::pair(from.offset, from.bytes);
    switch (from.place) {
      case OnnxInitializer::Place::kRaw:
        return bytes_of_file(file_, part.first, part.second);
      case OnnxInitializer::Place::kMessage:
        if (part.second > kMostUnpacked || bytes > kMostUnpacked) {
          return content_error("XG0412",
                               {"{}: {} has {} outside of raw_data; at most {} is read", file_->path(), from.name,
                                format_bytes(std::max(part.second, bytes)), format_bytes(kMostUnpacked)},
                               "in Python, onnx.save_model(model, FILE, save_as_external_data=True)");
        }
        return unpacked_bytes(memory_, fmt::format("{} in {}", from.name, file_->path()), bytes,
                              [file = file_, part]() -> Result<std::vector<std::byte>> {
                                std::vector<std::byte> message(static_cast<size_t>(part.second));
                                XRUN_TRY(file->read(part.first, message));
                                return decode_onnx(message, file->path());
                              });
      case OnnxInitializer::Place::kExternal:
        break;
    }
    XRUN_ASSIGN(const auto file, external_file(from.location));
    const Bytes size = from.bytes >= 0 ? from.bytes : bytes;
    if (from.offset > file->size() || size > file->size() - from.offset) {
      return broken_file(file->path(), fmt::format("{} needs {} bytes from {} on, but it has {}", from.name, size,
                                                   from.offset, file->size()));
    }
    return bytes_of_file(file, from.offset, size);
  }

  Result<std::shared_ptr<const RandomFile>> external_file(const std::string& location) {
    std::shared_ptr<const RandomFile>& known = files_[location];
    if (known == nullptr) {
      XRUN_ASSIGN(const std::string path, file_in_folder(file_->path(), location));
      XRUN_ASSIGN(RandomFile opened, RandomFile::open(path));
      known = std::make_shared<const RandomFile>(std::move(opened));
    }
    return known;
  }

  std::shared_ptr<const RandomFile> file_;
  StopFlag stop_;
  std::shared_ptr<UnpackedBytes> memory_ = make_unpacked_bytes();
  std::map<std::string, std::shared_ptr<const RandomFile>> files_;  // key: location
};

}  // namespace

Result<std::unique_ptr<WeightFile>> open_onnx_weights(std::shared_ptr<const RandomFile> file, StopFlag stop) {
  return OnnxWeights(std::move(file), stop).open();
}

}  // namespace xrun::runtime
