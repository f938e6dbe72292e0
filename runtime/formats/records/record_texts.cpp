#include "runtime/formats/records/record_texts.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>

#include "graph/base/errors.h"
#include "runtime/formats/text_lines.h"

namespace xrun::runtime {
namespace {

constexpr size_t kLongestLine = 64 * kKiB;
constexpr int64_t kMostListLabels = 4096;

// Removes and returns the cell before the first delimiter; all of the text if there is no delimiter.
std::string_view take_cell(std::string_view& text, char delimiter) {
  const size_t end = std::min(text.find(delimiter), text.size());
  const std::string_view cell = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return trimmed(cell);
}

template <class T>
std::optional<T> number_of(std::string_view text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

Error broken_line(const std::string& place, std::string_view wanted, std::string_view found) {
  return content_error("XG0412", {"{}: `{}` is not a line `{}`", place, found.substr(0, 60), wanted},
                       "name the file that was written together with the records");
}

}  // namespace

std::optional<int64_t> whole_number(std::string_view text) { return number_of<int64_t>(text); }

std::optional<double> decimal_number(std::string_view text) {
  const auto number = number_of<double>(text);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

Result<std::vector<IndexEntry>> read_record_index(const std::string& path, StopFlag stop) {
  std::vector<IndexEntry> entries;
  XRUN_TRY(visit_lines(path, kLongestLine, stop, [&](const TextLine& line) -> Status {
    std::string_view rest = trimmed(line.text);
    const auto key = whole_number(take_cell(rest, '\t'));
    const auto offset = whole_number(trimmed(rest));
    if (!key || !offset || *offset < 0) {
      return broken_line(fmt::format("{}:{}", path, line.number), "key<tab>offset", line.text);
    }
    entries.push_back({*key, *offset});
    return {};
  }));
  // The sort keeps the order of lines with equal keys; of these the last one stays.
  std::ranges::stable_sort(entries, {}, &IndexEntry::key);
  size_t kept = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i + 1 == entries.size() || entries[i].key != entries[i + 1].key) {
      entries[kept++] = entries[i];
    }
  }
  entries.resize(kept);
  std::ranges::stable_sort(entries, {}, &IndexEntry::offset);
  return entries;
}

bool RecordList::is_line(std::string_view line) {
  const auto tabs = std::ranges::count(line, '\t');
  std::string_view rest = line;
  return tabs >= 2 && whole_number(take_cell(rest, '\t')) && decimal_number(take_cell(rest, '\t'));
}

Status RecordList::add(std::string_view line, const std::string& place) {
  constexpr std::string_view kWanted = "key<tab>label<tab>...<tab>path";
  const int64_t labels = std::ranges::count(line, '\t') - 1;
  std::string_view rest = line;
  const auto key = whole_number(take_cell(rest, '\t'));
  if (!key || labels < 1 || labels > kMostListLabels) {
    return broken_line(place, kWanted, line);
  }
  if (!lines_.empty() && labels != width_) {
    return content_error("XG0412", {"{} has {} labels, but the lines before it have {}", place, labels, width_},
                         "give all lines the same number of labels");
  }
  width_ = labels;
  for (int64_t i = 0; i < labels; ++i) {
    const std::string_view cell = take_cell(rest, '\t');
    const auto label = decimal_number(cell);
    if (!label) {
      return content_error("XG0412", {"{}: the label `{}` is not a number", place, cell.substr(0, 60)},
                           {"a line is `{}`: correct it", kWanted});
    }
    labels_.push_back(*label);
  }
  lines_.emplace_back(*key, std::ssize(lines_));
  return {};
}

Result<RecordList> RecordList::read(const std::string& path, StopFlag stop) {
  RecordList list;
  XRUN_TRY(visit_lines(path, kLongestLine, stop, [&](const TextLine& line) {
    return list.add(line.text, fmt::format("{}:{}", path, line.number));
  }));
  std::ranges::sort(list.lines_);
  const auto twice = std::ranges::adjacent_find(list.lines_, {}, &std::pair<int64_t, int64_t>::first);
  if (twice != list.lines_.end()) {
    return content_error("XG0412", {"{}: two lines have the key {}", path, twice->first},
                         "im2rec gives each picture a key of its own: remove one of the lines");
  }
  return list;
}

int64_t RecordList::find(int64_t key) const {
  const auto found = std::ranges::lower_bound(lines_, key, {}, &std::pair<int64_t, int64_t>::first);
  return found != lines_.end() && found->first == key ? found->second : -1;
}

Result<int64_t> read_property_classes(const std::string& path) {
  XRUN_ASSIGN(const std::string line, first_line(path, kLongestLine));
  std::string_view rest = line;
  const auto classes = whole_number(take_cell(rest, ','));
  const auto height = whole_number(take_cell(rest, ','));
  const auto width = whole_number(take_cell(rest, ','));
  if (!classes || !height || !width || *classes < 1) {
    return content_error("XG0412",
                         {"{}: `{}` is not `classes,height,width`", path, std::string_view(line).substr(0, 60)},
                         "correct it, or give the reader the number of classes: classes=");
  }
  return *classes;
}

}  // namespace xrun::runtime
