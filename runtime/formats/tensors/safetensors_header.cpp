// The JSON of the header:
//   { "__metadata__": {string: string}?, name: {"dtype": string, "shape": [whole], "data_offsets": [begin, end]}* }
// It is parsed by events, because a parsed tree would hide repeated names. Parsing ends at the first fault.
// Tests: tests/runtime/formats/tensors/safetensors_test.cpp
#include "runtime/formats/tensors/safetensors_header.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>

#include "graph/base/errors.h"

namespace xrun::runtime {
namespace {

using nlohmann::json;

struct DtypeName {
  std::string_view name;
  int bits;
};

constexpr DtypeName kDtypes[] = {
    {"BOOL", 8},    {"U8", 8},      {"I8", 8},          {"U16", 16},        {"I16", 16},    {"F16", 16},
    {"BF16", 16},   {"U32", 32},    {"I32", 32},        {"F32", 32},        {"U64", 64},    {"I64", 64},
    {"F64", 64},    {"C64", 64},    {"F8_E4M3", 8},     {"F8_E5M2", 8},     {"F8_E8M0", 8}, {"F4", 4},
    {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8},
};

int bits_of(std::string_view dtype) {
  const auto found = std::ranges::find(kDtypes, dtype, &DtypeName::name);
  return found == std::end(kDtypes) ? 0 : found->bits;
}

// Builds the header from JSON events.
class HeaderReader : public json::json_sax_t {
 public:
  SafeHeader header;
  std::string why;  // cause of the first fault

  bool null() override { return fail("a null"); }
  bool boolean(bool) override { return fail("a true or false"); }
  bool number_integer(number_integer_t) override { return fail("a number below 0"); }
  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != kNumbers || value > static_cast<uint64_t>(INT64_MAX)) {
      return fail("a number in the wrong place");
    }
    numbers_.push_back(static_cast<int64_t>(value));
    return numbers_.size() <= 1000 || fail("a shape of more than 1000 dimensions");
  }
  bool number_float(number_float_t, const string_t&) override { return fail("a number that is not whole"); }
  bool string(string_t& value) override {
    if (place_ == kMetadata) {
      header.metadata[key_] = value;
      return true;
    }
    if (place_ == kTensor && key_ == "dtype") {
      tensor_.dtype = value;
      return bits_of(value) > 0 || fail(fmt::format("the unknown dtype \"{}\"", value));
    }
    return fail("a string in the wrong place");
  }
  bool binary(binary_t&) override { return fail("binary data"); }
  bool start_object(std::size_t) override {
    if (place_ == kNothing) {
      place_ = kRoot;
    } else if (place_ == kRoot) {
      place_ = key_ == "__metadata__" ? kMetadata : kTensor;
      tensor_ = {.name = key_};
      inner_.clear();
    } else {
      return fail("an object in the wrong place");
    }
    return true;
  }
  bool key(string_t& value) override {
    std::set<std::string>& known = place_ == kRoot ? names_ : inner_;
    key_ = value;
    if (!known.insert(value).second) {
      return fail(fmt::format("the name \"{}\" twice", value));
    }
    const bool good = place_ != kTensor || value == "dtype" || value == "shape" || value == "data_offsets";
    return good || fail(fmt::format("the unknown entry \"{}\"", value));
  }
  bool end_object() override {
    if (place_ == kTensor) {
      if (inner_.size() != 3) {
        return fail(fmt::format("no dtype, shape and data_offsets for \"{}\"", tensor_.name));
      }
      header.tensors.push_back(tensor_);
    }
    place_ = place_ == kRoot ? kDone : kRoot;
    return true;
  }
  bool start_array(std::size_t) override {
    if (place_ != kTensor || key_ == "dtype") {
      return fail("a list in the wrong place");
    }
    place_ = kNumbers;
    numbers_.clear();
    return true;
  }
  bool end_array() override {
    place_ = kTensor;
    if (key_ == "shape") {
      tensor_.shape = numbers_;
      return true;
    }
    if (numbers_.size() != 2 || numbers_[0] > numbers_[1]) {
      return fail(fmt::format("data_offsets of \"{}\" that are not a begin and an end", tensor_.name));
    }
    tensor_.begin = numbers_[0];
    tensor_.end = numbers_[1];
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fail(fmt::format("broken JSON at byte {}", position));
  }

 private:
  bool fail(std::string text) {
    if (why.empty()) {
      why = std::move(text);
    }
    return false;
  }

  enum { kNothing, kRoot, kMetadata, kTensor, kNumbers, kDone } place_ = kNothing;
  std::string key_;
  SafeTensor tensor_;
  std::vector<int64_t> numbers_;
  std::set<std::string> names_;
  std::set<std::string> inner_;
};

// Returns the number of bytes for the shape; -1 if it is not a whole number of bytes or overflows.
Bytes bytes_of(const SafeTensor& tensor) {
  int64_t bits = bits_of(tensor.dtype);
  for (const int64_t dim : tensor.shape) {
    if (__builtin_mul_overflow(bits, dim, &bits)) {
      return -1;
    }
  }
  return bits % 8 == 0 ? bits / 8 : -1;
}

}  // namespace

Error damaged_safetensors(std::string_view file, std::string why) {
  return content_error("XG0715", {"{}: {}", file, why}, "the file is damaged or is not a safetensors file");
}

const SafeTensor* SafeHeader::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &SafeTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

Result<SafeHeader> parse_safetensors(std::span<const std::byte> start, Bytes file_bytes, std::string_view name) {
  uint64_t length = 0;
  if (start.size() < sizeof length) {
    return damaged_safetensors(name, "too short for a header");
  }
  std::memcpy(&length, start.data(), sizeof length);
  if (length > static_cast<uint64_t>(kMostHeaderBytes)) {
    return damaged_safetensors(name, fmt::format("a header of {} bytes is above the limit", length));
  }
  if (length > start.size() - sizeof length || static_cast<Bytes>(length) > file_bytes - 8) {
    return damaged_safetensors(name, "cut short in its header");
  }
  const std::string_view text(reinterpret_cast<const char*>(start.data()) + sizeof length, length);
  const size_t close = text.find_last_not_of(' ');
  if (text.empty() || text.front() != '{' || close == std::string_view::npos || text[close] != '}') {
    return damaged_safetensors(name, "the header does not begin with { and end with }");
  }
  HeaderReader reader;
  if (!json::sax_parse(text, &reader)) {
    return damaged_safetensors(name,
                               "its header has " + (reader.why.empty() ? std::string("broken JSON") : reader.why));
  }
  SafeHeader header = std::move(reader.header);
  header.header_bytes = static_cast<Bytes>(sizeof length + length);
  header.data_bytes = file_bytes - header.header_bytes;
  std::ranges::sort(header.tensors, [](const SafeTensor& a, const SafeTensor& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  Bytes at = 0;
  for (const SafeTensor& tensor : header.tensors) {
    if (tensor.begin != at) {
      return damaged_safetensors(
          name, fmt::format("\"{}\" begins at byte {} of the data, but {}", tensor.name, tensor.begin,
                            tensor.begin < at ? "another tensor overlaps it" : "there is a gap before it"));
    }
    if (bytes_of(tensor) != tensor.end - tensor.begin) {
      return damaged_safetensors(
          name, fmt::format("\"{}\" has {} bytes, which do not fit its shape", tensor.name, tensor.end - tensor.begin));
    }
    at = tensor.end;
  }
  if (at != header.data_bytes) {
    return damaged_safetensors(name, fmt::format("{} bytes of data, but the header says {}", header.data_bytes, at));
  }
  return header;
}

std::string print_safetensors(const std::vector<SafeTensor>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json root = nlohmann::ordered_json::object();
  if (!metadata.empty()) {
    root["__metadata__"] = metadata;
  }
  for (const SafeTensor& tensor : tensors) {
    root[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {tensor.begin, tensor.end}}};
  }
  std::string text = root.dump();
  text.resize(static_cast<size_t>(align_up(static_cast<Bytes>(text.size()) + 8) - 8), ' ');
  const uint64_t length = text.size();
  std::string out(sizeof length, '\0');
  std::memcpy(out.data(), &length, sizeof length);
  return out + text;
}

void lay_out(std::vector<SafeTensor>& tensors) {
  std::ranges::sort(tensors, [](const SafeTensor& a, const SafeTensor& b) {
    const int wide = bits_of(a.dtype);
    const int other = bits_of(b.dtype);
    return wide != other ? wide > other : a.name < b.name;
  });
  Bytes at = 0;
  for (SafeTensor& tensor : tensors) {
    const Bytes bytes = bytes_of(tensor);
    XRUN_CHECK(bytes >= 0, "a tensor without a size: " + tensor.name);
    tensor.begin = at;
    tensor.end = at += bytes;
  }
}

}  // namespace xrun::runtime
