#include "graph/base/source.h"

#include <algorithm>

#include "graph/base/check.h"

namespace xrun {

Span join(const Span& a, const Span& b) {
  if (!a.valid()) {
    return b;
  }
  if (!b.valid() || a.file != b.file) {
    return a;
  }
  return {a.file, std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

int32_t SourceMap::add(std::string path, std::string text) {
  File file{std::move(path), std::move(text), {0}};
  for (size_t at = file.text.find('\n'); at != std::string::npos; at = file.text.find('\n', at + 1)) {
    file.line_starts.push_back(static_cast<uint32_t>(at) + 1);
  }
  files_.push_back(std::move(file));
  return size() - 1;
}

const std::string& SourceMap::path(int32_t file) const { return files_[file].path; }

std::string_view SourceMap::text(int32_t file) const { return files_[file].text; }

std::string_view SourceMap::text(const Span& span) const {
  return span.valid() ? text(span.file).substr(span.begin, span.end - span.begin) : std::string_view();
}

Position SourceMap::position(int32_t file, uint32_t offset) const {
  const File& f = files_[file];
  const auto next = std::upper_bound(f.line_starts.begin(), f.line_starts.end(), offset);
  const uint32_t start = *(next - 1);
  const std::string_view before = std::string_view(f.text).substr(start, offset - start);
  return {static_cast<int>(next - f.line_starts.begin()), count_code_points(before) + 1};
}

std::string_view SourceMap::line(int32_t file, int number) const {
  const File& f = files_[file];
  XRUN_CHECK(number >= 1 && number <= line_count(file), "line out of range");
  const uint32_t begin = f.line_starts[number - 1];
  uint32_t end = number < line_count(file) ? f.line_starts[number] : static_cast<uint32_t>(f.text.size());
  while (end > begin && (f.text[end - 1] == '\n' || f.text[end - 1] == '\r')) {
    --end;
  }
  return std::string_view(f.text).substr(begin, end - begin);
}

int SourceMap::line_count(int32_t file) const { return static_cast<int>(files_[file].line_starts.size()); }

std::string SourceMap::place(const Span& span) const {
  if (!span.valid() || span.file >= size()) {
    return {};
  }
  const Position at = position(span.file, span.begin);
  return path(span.file) + ":" + std::to_string(at.line) + ":" + std::to_string(at.column);
}

int count_code_points(std::string_view text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace xrun
