#include "runtime/lsp/document.h"

#include <algorithm>

#include "graph/base/utf8.h"

namespace xrun::lsp {
namespace {

constexpr size_t kMostRead = size_t{1} << 30;  // limit of text read for the changes of one message, in total

// The number of bytes of the character at the start of a text that is not empty.
uint32_t step(std::string_view text) { return std::max<uint32_t>(sequence_length(text), 1); }

}  // namespace

uint32_t utf16_length(std::string_view text) {
  uint32_t units = 0;
  for (size_t at = 0; at < text.size();) {
    const uint32_t bytes = step(text.substr(at));
    units += bytes == 4 ? 2 : 1;
    at += bytes;
  }
  return units;
}

LineMap::LineMap(std::string_view text) : text_(text), starts_{0} {
  uint32_t units = 0;
  for (uint32_t at = 0; at < text.size();) {
    if (at >= marks_.size() * kBetweenMarks) {
      marks_.push_back({at, units});
    }
    const uint32_t bytes = step(text.substr(at));
    units += bytes == 4 ? 2 : 1;
    at += bytes;
  }
  for (size_t at = 0; at < text.size(); ++at) {
    const bool is_pair = text[at] == '\r' && at + 1 < text.size() && text[at + 1] == '\n';
    if (text[at] == '\n' || (text[at] == '\r' && !is_pair)) {
      starts_.push_back(static_cast<uint32_t>(at) + 1);
    }
  }
}

uint32_t LineMap::end_of_line(uint32_t line) const {
  uint32_t end = line + 1 < lines() ? starts_[line + 1] : static_cast<uint32_t>(text_.size());
  while (end > starts_[line] && (text_[end - 1] == '\n' || text_[end - 1] == '\r')) {
    --end;
  }
  return end;
}

uint32_t LineMap::line_of(uint32_t offset) const {
  return static_cast<uint32_t>(std::ranges::upper_bound(starts_, offset) - starts_.begin()) - 1;
}

uint32_t LineMap::column(uint32_t offset) const {
  return units_before(offset) - units_before(starts_[line_of(offset)]);
}

uint32_t LineMap::units_before(uint32_t offset) const {
  const auto after = std::ranges::upper_bound(marks_, offset, {}, &Mark::offset);
  const Mark mark = after == marks_.begin() ? Mark() : *std::prev(after);
  return mark.units + utf16_length(text_.substr(mark.offset, offset - mark.offset));
}

Json LineMap::position(uint32_t offset) const {
  offset = std::min(offset, static_cast<uint32_t>(text_.size()));
  while (offset > 0 && offset < text_.size() && (text_[offset] & 0xC0) == 0x80) {
    --offset;
  }
  return {{"line", line_of(offset)}, {"character", column(offset)}};
}

Json LineMap::range(uint32_t begin, uint32_t end) const { return {{"start", position(begin)}, {"end", position(end)}}; }

uint32_t LineMap::offset(const Json& position) const {
  const int64_t line = number_field(position, "line");
  const int64_t character = number_field(position, "character");
  if (line == lines()) {
    return static_cast<uint32_t>(text_.size());
  }
  if (line > lines()) {
    throw Failure{Code::kInvalidParams, "line " + std::to_string(line) + " is outside of the text"};
  }
  const uint32_t end = end_of_line(static_cast<uint32_t>(line));
  uint32_t at = starts_[static_cast<size_t>(line)];
  for (int64_t units = 0; at < end && units < character;) {
    const uint32_t bytes = step(text_.substr(at, end - at));
    units += bytes == 4 ? 2 : 1;
    if (units > character) {
      break;  // the position is inside a pair of code units
    }
    at += bytes;
  }
  return at;
}

std::string changed(std::string text, const Json& changes) {
  if (!changes.is_array()) {
    throw Failure{Code::kInvalidParams, "`contentChanges` is not a list"};
  }
  size_t read = 0;
  for (const Json& change : changes) {
    read += text.size();
    if (read > kMostRead) {
      throw Failure{Code::kInvalidParams, "there are too many changes of a long text"};
    }
    const std::string& put = text_field(change, "text");
    if (!change.contains("range")) {
      text = put;
    } else {
      const Json& range = field(change, "range");
      const LineMap lines(text);
      const uint32_t begin = lines.offset(field(range, "start"));
      const uint32_t end = lines.offset(field(range, "end"));
      if (begin > end) {
        throw Failure{Code::kInvalidParams, "a range ends before it begins"};
      }
      text.replace(begin, end - begin, put);
    }
    if (text.size() > kMostText) {
      throw Failure{Code::kInvalidParams, "the text is longer than 8 MiB"};
    }
  }
  return text;
}

const Json& field(const Json& value, const char* key) {
  if (value.is_object()) {
    if (const auto found = value.find(key); found != value.end()) {
      return *found;
    }
  }
  throw Failure{Code::kInvalidParams, std::string("the parameters have no `") + key + "`"};
}

const std::string& text_field(const Json& value, const char* key) {
  const Json& found = field(value, key);
  if (!found.is_string()) {
    throw Failure{Code::kInvalidParams, std::string("`") + key + "` is not a string"};
  }
  return found.get_ref<const std::string&>();
}

int64_t number_field(const Json& value, const char* key) {
  const Json& found = field(value, key);
  const int64_t number = found.is_number_integer() ? found.get<int64_t>() : -1;
  if (number < 0 || number > INT32_MAX) {
    throw Failure{Code::kInvalidParams, std::string("`") + key + "` is not a whole number from 0 to 2^31 - 1"};
  }
  return number;
}

}  // namespace xrun::lsp
