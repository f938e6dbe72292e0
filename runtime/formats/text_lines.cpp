#include "runtime/formats/text_lines.h"

#include <algorithm>
#include <vector>

#include "graph/base/errors.h"
#include "runtime/formats/foreign.h"
#include "runtime/formats/open_file.h"

namespace xrun::runtime {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kGzip = "\x1F\x8B";

// Splits blocks of a file into lines. A line that continues in the next block is kept in `rest_`.
class Lines {
 public:
  Lines(const std::string& path, size_t longest, const std::function<Status(const TextLine&)>& visit)
      : path_(path), longest_(longest), visit_(visit) {}

  Status add(std::string_view block) {
    while (!block.empty()) {
      const size_t end = block.find('\n');
      const std::string_view part = block.substr(0, end);
      if (rest_.size() + part.size() > longest_) {
        return content_error("XG0412", {"{}:{}: a line of more than {}", path_, number_, format_bytes(longest())},
                             "check that this is the list, and not one of the files that it names");
      }
      if (end == std::string_view::npos) {
        rest_ += part;
        return {};
      }
      if (rest_.empty()) {
        XRUN_TRY(line(part));
      } else {
        rest_ += part;
        XRUN_TRY(line(rest_));
        rest_.clear();
      }
      block.remove_prefix(end + 1);
    }
    return {};
  }
  Status finish() { return rest_.empty() ? Status() : line(rest_); }

 private:
  Bytes longest() const { return static_cast<Bytes>(longest_); }

  // Visits a line of the file; `text` has no LF.
  Status line(std::string_view text) {
    TextLine line{.text = text, .number = number_, .offset = offset_};
    ++number_;
    offset_ += static_cast<Bytes>(text.size()) + 1;
    if (line.offset == 0 && line.text.starts_with(kByteOrderMark)) {
      line.text.remove_prefix(kByteOrderMark.size());
      line.offset = static_cast<Bytes>(kByteOrderMark.size());
    }
    if (line.text.ends_with('\r')) {
      line.text.remove_suffix(1);
    }
    return line.text.empty() ? Status() : visit_(line);
  }

  const std::string& path_;
  size_t longest_;
  const std::function<Status(const TextLine&)>& visit_;
  std::string rest_;
  int64_t number_ = 1;
  Bytes offset_ = 0;  // offset of the current line
};

}  // namespace

Status visit_lines(const std::string& path, size_t longest, StopFlag stop,
                   const std::function<Status(const TextLine&)>& visit) {
  XRUN_ASSIGN(const int opened, open_ordinary(path));
  const OpenFile file(opened);
  std::vector<std::byte> block(kReadChunk);
  Lines lines(path, longest, visit);
  for (bool first = true;; first = false) {
    XRUN_ASSIGN(const size_t got, read_some(file.get(), path, block, stop));
    const std::string_view text(reinterpret_cast<const char*>(block.data()), got);
    if (first) {
      if (text.starts_with(kGzip)) {
        return content_error("XG0412", {"{}: a file compressed by gzip, which is not read as a list", path},
                             "unpack it (gunzip)");
      }
      XRUN_TRY(refuse_foreign(std::span(block).first(got), path));
    }
    if (got == 0) {
      return lines.finish();
    }
    XRUN_TRY(lines.add(text));
  }
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && is_blank(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

Result<std::string> first_line(const std::string& path, size_t longest) {
  // The visit ends with this error, which no caller sees, so that the rest of the file is not read.
  const Error enough{.kind = ErrorKind::kInterrupted, .code = "enough"};
  std::string found;
  Status visited = visit_lines(path, longest, nullptr, [&](const TextLine& line) -> Status {
    found = line.text;
    return enough;
  });
  if (!visited.ok() && visited.error().code != enough.code) {
    return std::move(visited).error();
  }
  return found;
}

}  // namespace xrun::runtime
