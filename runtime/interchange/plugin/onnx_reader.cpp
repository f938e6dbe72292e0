// Reads the constants of ONNX files in the module xrun_onnx.so. The messages are walked with protobuf's own reader, so
// that large constants are skipped and not held; only a constant whose elements are not in raw_data is parsed as a
// TensorProto. The numbers of the fields are those of onnx.proto.
// Tests: tests/runtime/interchange/weights/onnx_weights_test.cpp
#include <algorithm>
#include <charconv>
#include <cstring>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/wire_format_lite.h>
#include <onnx/onnx_pb.h>
#include <sys/stat.h>

#include "graph/base/errors.h"
#include "runtime/interchange/onnx_initializers.h"
#include "runtime/interchange/plugin/matrix_pieces.h"

namespace xrun::runtime {
namespace {

namespace io = google::protobuf::io;
using Wire = google::protobuf::internal::WireFormatLite;
using Proto = onnx::TensorProto;

constexpr int kMostDims = 64;
constexpr int kMostText = 64 * 1024;  // bytes of a name
constexpr size_t kMostConstants = 250'000;

// Each function returns false if the message is damaged; `position` is then close to the place.
class Walker {
 public:
  Walker(io::CodedInputStream& in, Bytes size) : in_(in), size_(size) {}

  bool model() {
    bool has_graph = false;
    while (const uint32_t tag = in_.ReadTag()) {
      if (tag == message_tag(onnx::ModelProto::kGraphFieldNumber)) {
        has_graph = true;
        if (!nested([this](int) { return graph(); })) {
          return false;
        }
      } else if (!Wire::SkipField(&in_, tag)) {
        return false;
      }
    }
    return has_graph && in_.ConsumedEntireMessage() && position() == size_;
  }

  Bytes position() const { return in_.CurrentPosition(); }
  const std::string& why() const { return why_; }
  OnnxInitializers take() {
    found_.pieces = pieces_.joined();
    return std::move(found_);
  }

 private:
  static uint32_t message_tag(int field) {
    return static_cast<uint32_t>(Wire::MakeTag(field, Wire::WIRETYPE_LENGTH_DELIMITED));
  }
  static int field_of(uint32_t tag) { return Wire::GetTagFieldNumber(tag); }
  static bool is_bytes(uint32_t tag) { return Wire::GetTagWireType(tag) == Wire::WIRETYPE_LENGTH_DELIMITED; }

  bool fail(std::string why) {
    why_ = std::move(why);
    return false;
  }

  // Reads a size, and whether that many bytes follow.
  bool length(int& bytes) {
    return in_.ReadVarintSizeAsInt(&bytes) && (in_.BytesUntilLimit() < 0 || bytes <= in_.BytesUntilLimit()) &&
           bytes <= size_ - position();
  }

  // Calls read(bytes) for the message that follows, which has to read all of it.
  template <class Read>
  bool nested(const Read& read) {
    int bytes = 0;
    if (!length(bytes)) {
      return false;
    }
    const auto limit = in_.PushLimit(bytes);
    const bool good = read(bytes) && in_.BytesUntilLimit() == 0;
    in_.PopLimit(limit);
    return good;
  }

  bool text(std::string& to) {
    int bytes = 0;
    return length(bytes) && bytes <= kMostText && in_.ReadString(&to, bytes);
  }

  bool graph() {
    while (const uint32_t tag = in_.ReadTag()) {
      if (found_.tensors.size() + found_.sparse.size() > kMostConstants) {
        return fail(fmt::format("more than {} constants", kMostConstants));
      }
      bool good = true;
      if (tag == message_tag(onnx::GraphProto::kInitializerFieldNumber)) {
        OnnxInitializer tensor;
        good = nested([&](int bytes) { return read(tensor, bytes); });
        found_.tensors.push_back(std::move(tensor));
      } else if (tag == message_tag(onnx::GraphProto::kSparseInitializerFieldNumber)) {
        good = nested([this](int) { return sparse(); });
      } else if (tag == message_tag(onnx::GraphProto::kNodeFieldNumber)) {
        good = nested([this](int bytes) { return node(bytes); });
      } else {
        good = Wire::SkipField(&in_, tag);
      }
      if (!good) {
        return false;
      }
    }
    return true;
  }

  // Parses small nodes, and skips others: those of products and joints have no large attributes.
  bool node(int bytes) {
    if (bytes > kMostText) {
      return in_.Skip(bytes);
    }
    std::string message;
    onnx::NodeProto parsed;
    if (!in_.ReadString(&message, bytes) || !parsed.ParseFromString(message)) {
      return false;
    }
    pieces_.add(parsed);
    return true;
  }

  bool sparse() {
    OnnxInitializer values;
    while (const uint32_t tag = in_.ReadTag()) {
      const bool good = tag == message_tag(onnx::SparseTensorProto::kValuesFieldNumber)
                            ? nested([&](int bytes) { return read(values, bytes); })
                            : Wire::SkipField(&in_, tag);
      if (!good) {
        return false;
      }
    }
    found_.sparse.push_back(values.name);
    return true;
  }

  // A TensorProto of `bytes` bytes.
  bool read(OnnxInitializer& tensor, int bytes) {
    Data data{.message = {position(), bytes}};
    while (const uint32_t tag = in_.ReadTag()) {
      if (!(is_bytes(tag) ? bytes_field(tag, tensor, data) : number_field(tag, tensor, data))) {
        return false;
      }
    }
    using enum OnnxInitializer::Place;
    tensor.place = data.is_external ? kExternal : data.is_raw ? kRaw : kMessage;
    const Part& part = data.is_external ? data.external : data.is_raw ? data.raw : data.message;
    tensor.offset = part.offset;
    tensor.bytes = part.bytes;
    return true;
  }

  struct Part {
    Bytes offset = 0;
    Bytes bytes = 0;
  };
  struct Data {
    Part message;
    Part raw{};
    Part external{.bytes = -1};
    bool is_raw = false;
    bool is_external = false;
  };

  bool number_field(uint32_t tag, OnnxInitializer& tensor, Data& data) {
    const bool is_known = Wire::GetTagWireType(tag) == Wire::WIRETYPE_VARINT &&
                          (field_of(tag) == Proto::kDimsFieldNumber || field_of(tag) == Proto::kDataTypeFieldNumber ||
                           field_of(tag) == Proto::kDataLocationFieldNumber);
    if (!is_known) {
      return Wire::SkipField(&in_, tag);
    }
    uint64_t number = 0;
    if (!in_.ReadVarint64(&number)) {
      return false;
    }
    if (field_of(tag) == Proto::kDimsFieldNumber) {
      return add_dim(tensor, number);
    }
    if (field_of(tag) == Proto::kDataTypeFieldNumber) {
      tensor.data_type = static_cast<int>(number);
    } else {
      data.is_external = number == Proto::EXTERNAL;
    }
    return true;
  }

  bool bytes_field(uint32_t tag, OnnxInitializer& tensor, Data& data) {
    switch (field_of(tag)) {
      case Proto::kDimsFieldNumber:
        return nested([&](int) {
          for (uint64_t dim = 0; in_.BytesUntilLimit() > 0;) {
            if (!in_.ReadVarint64(&dim) || !add_dim(tensor, dim)) {
              return false;
            }
          }
          return true;
        });
      case Proto::kSegmentFieldNumber:
        return fail("a constant is in several segments, which are not read");
      case Proto::kNameFieldNumber:
        return text(tensor.name);
      case Proto::kRawDataFieldNumber: {
        int bytes = 0;
        const bool good = length(bytes);
        data.is_raw = true;
        data.raw = {position(), bytes};
        return good && in_.Skip(bytes);
      }
      case Proto::kExternalDataFieldNumber:
        return nested([&](int) { return external(tensor, data.external); });
      default:
        return Wire::SkipField(&in_, tag);
    }
  }

  bool add_dim(OnnxInitializer& tensor, uint64_t dim) {
    if (tensor.dims.size() == kMostDims || static_cast<int64_t>(dim) < 0) {
      return fail("the shape of a constant has too many dimensions, or one below 0");
    }
    tensor.dims.push_back(static_cast<int64_t>(dim));
    return true;
  }

  // An entry of external_data: a key and a value.
  bool external(OnnxInitializer& tensor, Part& part) {
    std::string key;
    std::string value;
    while (const uint32_t tag = in_.ReadTag()) {
      const bool good = tag == message_tag(onnx::StringStringEntryProto::kKeyFieldNumber) ? text(key)
                        : tag == message_tag(onnx::StringStringEntryProto::kValueFieldNumber)
                            ? text(value)
                            : Wire::SkipField(&in_, tag);
      if (!good) {
        return false;
      }
    }
    if (key == "location") {
      tensor.location = value;
    } else if (key == "offset" || key == "length") {
      Bytes& number = key == "offset" ? part.offset : part.bytes;
      const auto [end, fault] = std::from_chars(value.data(), value.data() + value.size(), number);
      if (fault != std::errc() || end != value.data() + value.size() || number < 0) {
        return fail("the " + key + " of external data is not a whole number from 0 on");
      }
    }
    return true;
  }

  io::CodedInputStream& in_;
  Bytes size_;
  std::string why_;
  OnnxInitializers found_;
  MatrixPieces pieces_;
};

Error damaged(const std::string& path, std::string_view why) {
  return content_error("XG0412", {"{}: {}", path, why}, "get the file again");
}

Result<OnnxInitializers> list(int file, const std::string& path) {
  struct stat info {};
  if (::fstat(file, &info) != 0 || info.st_size > kMostOnnx) {
    return damaged(path, "its size is above the limit of protobuf");
  }
  io::FileInputStream stream(file);
  io::CodedInputStream in(&stream);
  Walker walker(in, info.st_size);
  if (!walker.model()) {
    return damaged(path, walker.why().empty()
                             ? fmt::format("not a model of ONNX, or damaged near byte {}", walker.position())
                             : fmt::format("{} (near byte {})", walker.why(), walker.position()));
  }
  return walker.take();
}

// Appends the low bytes of each number.
template <class Narrow, class Numbers>
void append(const Numbers& numbers, std::vector<std::byte>& to) {
  to.reserve(static_cast<size_t>(numbers.size()) * sizeof(Narrow));
  for (const auto number : numbers) {
    const auto narrow = static_cast<Narrow>(number);
    const auto* const bytes = reinterpret_cast<const std::byte*>(&narrow);
    to.insert(to.end(), bytes, bytes + sizeof narrow);
  }
}

Result<std::vector<std::byte>> decode(std::span<const std::byte> message, const std::string& path) {
  Proto tensor;
  if (!tensor.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
    return damaged(path, "a constant is damaged");
  }
  std::vector<std::byte> bytes;
  switch (tensor.data_type()) {
    case Proto::FLOAT:
      append<float>(tensor.float_data(), bytes);
      break;
    case Proto::DOUBLE:
      append<double>(tensor.double_data(), bytes);
      break;
    case Proto::INT64:
      append<int64_t>(tensor.int64_data(), bytes);
      break;
    case Proto::UINT64:
      append<uint64_t>(tensor.uint64_data(), bytes);
      break;
    case Proto::UINT32:
      append<uint32_t>(tensor.uint64_data(), bytes);
      break;
    case Proto::INT32:
      append<int32_t>(tensor.int32_data(), bytes);
      break;
    case Proto::INT16:
    case Proto::UINT16:
    case Proto::FLOAT16:
    case Proto::BFLOAT16:
      append<uint16_t>(tensor.int32_data(), bytes);
      break;
    default:  // bools, and the types of 8 bits, of which libonnx 1.12 knows only some
      append<uint8_t>(tensor.int32_data(), bytes);
  }
  return bytes;
}

}  // namespace

extern "C" [[gnu::visibility("default")]] Result<OnnxInitializers> xrun_list_onnx(int file, const std::string& path) {
  return list(file, path);
}
extern "C" [[gnu::visibility("default")]] Result<std::vector<std::byte>> xrun_decode_onnx(
    std::span<const std::byte> message, const std::string& path) {
  return decode(message, path);
}

}  // namespace xrun::runtime
