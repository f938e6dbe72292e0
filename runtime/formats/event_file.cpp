// Tests: tests/runtime/cli/progress/run_log_test.cpp
#include "runtime/formats/event_file.h"

#include <array>
#include <bit>

namespace xrun::runtime {
namespace {

// CRC-32C (Castagnoli), bit-reversed polynomial.
uint32_t crc32c(std::string_view bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> made;
    for (uint32_t i = 0; i < made.size(); ++i) {
      uint32_t crc = i;
      for (int bit = 0; bit < 8; ++bit) {
        crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
      }
      made[i] = crc;
    }
    return made;
  }();
  uint32_t crc = ~0U;
  for (const char byte : bytes) {
    crc = table[(crc ^ static_cast<unsigned char>(byte)) & 0xFF] ^ (crc >> 8);
  }
  return ~crc;
}

void put_fixed(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    out += static_cast<char>(value >> (8 * i));
  }
}

// A CRC over bytes that contain CRCs would be weak, so the format rotates the CRC and adds a constant to it.
void put_masked_crc(std::string& out, std::string_view bytes) {
  put_fixed(out, std::rotr(crc32c(bytes), 15) + 0xA282EAD8U, 4);
}

// The wire types of protocol buffers.
enum Wire : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) {
    out += static_cast<char>(value | 0x80);
  }
  out += static_cast<char>(value);
}
void put_key(std::string& out, uint64_t field, Wire wire) { put_varint(out, field << 3 | wire); }
void put_bytes(std::string& out, uint64_t field, std::string_view bytes) {
  put_key(out, field, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}
void put_double(std::string& out, uint64_t field, double value) {
  put_key(out, field, kFixed64);
  put_fixed(out, std::bit_cast<uint64_t>(value), 8);
}

// Field numbers of event.proto and summary.proto.
constexpr uint64_t kWallTime = 1;
constexpr uint64_t kStep = 2;
constexpr uint64_t kFileVersion = 3;
constexpr uint64_t kSummary = 5;
constexpr uint64_t kSessionLog = 7;
constexpr std::string_view kSessionStarts("\x08\x01", 2);  // status = START
constexpr uint64_t kSummaryValue = 1;
constexpr uint64_t kValueTag = 1;
constexpr uint64_t kSimpleValue = 2;

}  // namespace

std::string event_record(std::string_view bytes) {
  std::string record;
  put_fixed(record, bytes.size(), 8);
  put_masked_crc(record, record);
  record += bytes;
  put_masked_crc(record, bytes);
  return record;
}

std::string first_event(double time) {
  std::string event;
  put_double(event, kWallTime, time);
  put_bytes(event, kFileVersion, "brain.Event:2");
  return event_record(event);
}

std::string start_event(double time, int64_t step) {
  std::string event;
  put_double(event, kWallTime, time);
  put_key(event, kStep, kVarint);
  put_varint(event, static_cast<uint64_t>(step));
  put_bytes(event, kSessionLog, kSessionStarts);
  return event_record(event);
}

std::string scalar_event(double time, int64_t step, std::span<const std::pair<std::string, double>> numbers) {
  std::string summary;
  for (const auto& [tag, number] : numbers) {
    std::string value;
    put_bytes(value, kValueTag, tag);
    put_key(value, kSimpleValue, kFixed32);
    put_fixed(value, std::bit_cast<uint32_t>(static_cast<float>(number)), 4);
    put_bytes(summary, kSummaryValue, value);
  }
  std::string event;
  put_double(event, kWallTime, time);
  put_key(event, kStep, kVarint);
  put_varint(event, static_cast<uint64_t>(step));
  put_bytes(event, kSummary, summary);
  return event_record(event);
}

}  // namespace xrun::runtime
