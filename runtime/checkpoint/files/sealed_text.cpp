#include "runtime/checkpoint/files/sealed_text.h"

#include <charconv>
#include <fmt/format.h>

#include "graph/base/check.h"
#include "graph/base/xxh128.h"

namespace xrun::runtime {
namespace {

constexpr std::string_view kDigest = "digest ";
constexpr size_t kDigestLine = kDigest.size() + 32 + 1;

std::string_view chars_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string digest_line(std::string_view lines) {
  return fmt::format("{}{}\n", kDigest, xxh128(std::as_bytes(std::span(lines))));
}

}  // namespace

std::string seal(std::string lines, size_t bytes) {
  XRUN_CHECK(lines.size() + kDigestLine <= bytes, "a header that is longer than its place");
  lines += digest_line(lines);
  lines.resize(bytes, '\0');
  return lines;
}

std::optional<std::string_view> unseal(std::span<const std::byte> header) {
  const std::string_view all = chars_of(header);
  const std::string_view text = all.substr(0, all.find('\0'));
  if (all.find_first_not_of('\0', text.size()) != std::string_view::npos || text.size() < kDigestLine) {
    return std::nullopt;
  }
  const std::string_view lines = text.substr(0, text.size() - kDigestLine);
  return text.substr(lines.size()) == digest_line(lines) ? std::optional(lines) : std::nullopt;
}

std::optional<int64_t> version_of(std::span<const std::byte> header, std::string_view kind) {
  const std::string_view all = chars_of(header);
  const std::string begin = fmt::format("xrun {} ", kind);
  if (!all.starts_with(begin)) {
    return std::nullopt;
  }
  return LineReader::to_number(all.substr(begin.size(), all.find('\n') - begin.size()));
}

std::string_view LineReader::text(std::string_view key) {
  if (!has(key)) {
    return {};
  }
  const size_t end = std::min(rest_.find('\n'), rest_.size());
  const std::string_view value = rest_.substr(key.size() + 1, end - key.size() - 1);
  rest_.remove_prefix(std::min(end + 1, rest_.size()));
  return value;
}

bool LineReader::has(std::string_view key) const {
  return rest_.starts_with(key) && rest_.substr(key.size()).starts_with(' ');
}

int64_t LineReader::to_number(std::string_view text) {
  int64_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  return fault == std::errc() && end == text.data() + text.size() ? number : 0;
}

}  // namespace xrun::runtime
