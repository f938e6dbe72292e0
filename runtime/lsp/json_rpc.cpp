// Tests: tests/lsp/hostile_test.cpp
#include "runtime/lsp/json_rpc.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace xrun::lsp {
namespace {

constexpr size_t kLongestHeader = 4096;
constexpr size_t kMostValues = size_t{1} << 18;
constexpr int kDeepest = 128;

// Whether a header line has this name, in any case. `value` receives the text after its colon.
bool is_header(std::string_view line, std::string_view name, std::string_view& value) {
  const size_t colon = line.find(':');
  const auto same = [](char a, char b) { return a == b || (a >= 'A' && a <= 'Z' && a - 'A' + 'a' == b); };
  if (colon == std::string_view::npos || !std::ranges::equal(line.substr(0, colon), name, same)) {
    return false;
  }
  value = line.substr(std::min(line.find_first_not_of(' ', colon + 1), line.size()));
  return true;
}

std::optional<size_t> length_in(std::string_view header) {
  for (size_t at = 0; at < header.size();) {
    const size_t end = std::min(header.find("\r\n", at), header.size());
    std::string_view value;
    if (is_header(header.substr(at, end - at), "content-length", value)) {
      size_t length = 0;
      const auto [rest, fault] = std::from_chars(value.data(), value.data() + value.size(), length);
      return fault == std::errc() && rest == value.data() + value.size() ? std::optional(length) : std::nullopt;
    }
    at = end + 2;
  }
  return std::nullopt;
}

}  // namespace

void FrameReader::feed(std::string_view bytes) {
  // Drops the bytes that were read once they are more than half of the buffer. So a byte is moved at most once on
  // average.
  if (at_ > buffer_.size() / 2) {
    buffer_.erase(0, std::exchange(at_, 0));
    if (buffer_.capacity() > (size_t{1} << 20) && buffer_.size() < buffer_.capacity() / 4) {
      buffer_.shrink_to_fit();
    }
  }
  buffer_.append(bytes);
}

std::string FrameReader::read_header(std::string_view header) {
  const auto length = length_in(header);
  if (!length) {
    return "a header has no Content-Length with a number";
  }
  if (*length > kMostContent) {
    skip_ = *length;
    return "a message of " + std::to_string(*length) + " bytes is too long";
  }
  length_ = length;
  return {};
}

std::optional<FrameReader::Frame> FrameReader::next() {
  while (true) {
    const size_t skipped = std::min(skip_, buffer_.size() - at_);
    at_ += skipped;
    skip_ -= skipped;
    const std::string_view rest = std::string_view(buffer_).substr(at_);
    if (skip_ > 0 || (length_ && rest.size() < *length_)) {
      return std::nullopt;
    }
    if (length_) {
      at_ += *length_;
      lost_ = false;
      return Frame{.content = std::string(rest.substr(0, *std::exchange(length_, std::nullopt))), .fault = {}};
    }
    const size_t end = rest.find("\r\n\r\n");
    std::string fault;
    if (end != std::string_view::npos && end <= kLongestHeader) {
      at_ += end + 4;
      fault = read_header(rest.substr(0, end));
    } else if (rest.size() <= kLongestHeader) {
      return std::nullopt;
    } else {
      at_ += end != std::string_view::npos ? end + 4 : rest.size() - 3;  // "\r\n\r\n" may begin in the last three bytes
      fault = "a header has more than 4096 bytes";
    }
    if (!fault.empty() && !std::exchange(lost_, true)) {
      return Frame{.content = {}, .fault = std::move(fault)};
    }
  }
}

std::optional<Json> parse_message(std::string_view content, std::string& why) {
  size_t values = 0;
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < content.size(); ++i) {
    const char c = content[i];
    if (in_string) {
      i += c == '\\' ? 1 : 0;
      in_string = c != '"';
      continue;
    }
    in_string = c == '"';
    const bool opens = c == '[' || c == '{';
    depth += opens ? 1 : c == ']' || c == '}' ? -1 : 0;
    values += opens || c == ',' ? 1 : 0;
    if (depth > kDeepest || values > kMostValues) {
      why = depth > kDeepest ? "the JSON nests too deeply" : "the JSON has too many values";
      return std::nullopt;
    }
  }
  Json parsed = Json::parse(content, nullptr, false);
  if (parsed.is_discarded()) {
    why = "this is not JSON";
    return std::nullopt;
  }
  return parsed;
}

std::string frame(const Json& message) {
  const std::string content = message.dump(-1, ' ', false, Json::error_handler_t::replace);
  return "Content-Length: " + std::to_string(content.size()) + "\r\n\r\n" + content;
}

Json response(const Json& id, Json result) { return {{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(result)}}; }

Json error_response(const Json& id, const Failure& failure) {
  return {{"jsonrpc", "2.0"},
          {"id", id},
          {"error", {{"code", static_cast<int>(failure.code)}, {"message", failure.message}}}};
}

Json notification(const char* method, Json params) {
  return {{"jsonrpc", "2.0"}, {"method", method}, {"params", std::move(params)}};
}

}  // namespace xrun::lsp
