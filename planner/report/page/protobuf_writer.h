// Writes messages in the binary format of Protocol Buffers (https://protobuf.dev/programming-guides/encoding/).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace xrun::planner {

class ProtobufWriter {
 public:
  void number(int field, uint64_t value) {
    key(field, 0);
    varint(value);
  }
  void fixed64(int field, uint64_t value) {
    key(field, 1);
    for (int byte = 0; byte < 8; ++byte) {
      bytes_ += static_cast<char>(value >> (8 * byte));
    }
  }
  // A string, or the bytes of a message.
  void text(int field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    bytes_ += value;
  }
  void message(int field, const ProtobufWriter& value) { text(field, value.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  void key(int field, int wire) { varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire)); }
  // Seven bits a byte, the lowest first; the top bit says that more follow.
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) {
      bytes_ += static_cast<char>(value | 0x80);
    }
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

}  // namespace xrun::planner
