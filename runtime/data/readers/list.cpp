// Opening a list has three steps:
//   1. Read the first line, which shows the form of the list.
//   2. Split each line into path and label, and check the path. Paths are kept in one text, since there may be
//      millions.
//   3. Determine the labels, and examine whether files of some samples exist.
#include "runtime/data/readers/list.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <sys/stat.h>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "runtime/data/readers/base64_list.h"
#include "runtime/data/readers/encoded_file.h"
#include "runtime/data/readers/listed_reader.h"
#include "runtime/formats/text_lines.h"

namespace xrun::runtime {
namespace {

constexpr size_t kLongestLine = 64 * kKiB;

// The paths of the samples, one after the other in one text.
class Paths {
 public:
  explicit Paths(std::string root) : root_(std::move(root)) {}

  void add(std::string_view path) {
    text_ += path;
    ends_.push_back(text_.size());
  }
  void shrink_to_fit() {
    text_.shrink_to_fit();
    ends_.shrink_to_fit();
  }
  std::string full(int64_t sample) const {
    const auto i = static_cast<size_t>(sample);
    const size_t begin = i == 0 ? 0 : ends_[i - 1];
    return resolve_path(root_, std::string_view(text_).substr(begin, ends_[i] - begin));
  }
  Bytes memory() const { return static_cast<Bytes>(text_.capacity() + ends_.capacity() * sizeof(size_t)); }

 private:
  std::string root_;
  std::string text_;
  std::vector<size_t> ends_;
};

class ListReader final : public ListedReader {
 public:
  ListReader(ListLabels labels, Paths paths, bool header)
      : ListedReader(std::move(labels)), paths_(std::move(paths)), header_(header) {}

  std::string sample_name(int64_t sample) const override { return paths_.full(sample); }
  std::string describe() const override {
    return fmt::format("list: {}, {}", counted(samples(), "image"), counted(classes(), "class"));
  }
  Bytes memory() const override { return label_memory() + paths_.memory(); }

 private:
  Status read_picture(int64_t sample, FieldValue& out) const override {
    return read_encoded(paths_.full(sample), header_, out);
  }

  Paths paths_;
  bool header_;
};

std::string shown(char delimiter) {
  return delimiter == '\t' ? "a tab" : delimiter == ' ' ? "a blank" : fmt::format("`{}`", delimiter);
}

struct Row {
  std::string path;
  std::string_view label;
};

// Splits a line at its last delimiter; nullopt if it has none, or if path or label is empty.
std::optional<Row> split(std::string_view line, char delimiter) {
  const size_t at = line.rfind(delimiter);
  const std::string_view path = at == std::string_view::npos ? "" : line.substr(0, at);
  const std::string_view label = at == std::string_view::npos ? "" : trimmed(line.substr(at + 1));
  if (path.empty() || label.empty()) {
    return std::nullopt;
  }
  Row row{std::string(path), label};
  const std::string_view quoted = trimmed(path);
  if (delimiter != '\t' && quoted.size() >= 2 && quoted.front() == '"' && quoted.back() == '"') {
    row.path.clear();
    for (size_t i = 1; i + 1 < quoted.size(); ++i) {
      i += quoted[i] == '"' && i + 2 < quoted.size() ? 1 : 0;
      row.path += quoted[i];
    }
  }
  if (label.size() >= 2 && delimiter != '\t' && label.front() == '"' && label.back() == '"') {
    row.label = label.substr(1, label.size() - 2);
  }
  return row;
}

// The error for a line without path and label, whose help names the delimiter that the line seems to have.
Error not_a_row(const std::string& place, std::string_view line, char delimiter) {
  constexpr std::string_view kDelimiters = "\t,;| ";
  Error error = content_error(
      "XG0412", {"{}: `{}` is not a path, {} and a label", place, line.substr(0, 60), shown(delimiter)},
      "a line has a path, the delimiter and a label; in a list of PLSC v1 it is the name of a file next to the list");
  for (const char other : kDelimiters) {
    if (other != delimiter && split(line, other)) {
      error.help = fmt::format("{} seems to separate them: delimiter=\"{}\"", shown(other),
                               other == '\t' ? "\\t" : std::string(1, other));
      break;
    }
  }
  return error;
}

// Splits a line. Errors: XG0412 it has another form.
Result<Row> split_checked(std::string_view line, char delimiter, const std::string& place) {
  auto row = split(line, delimiter);
  if (!row) {
    return not_a_row(place, line, delimiter);
  }
  if (delimiter == '\t' && row->path.find('\t') != std::string::npos) {
    return content_error("XG0412", {"{}: more than two columns in `{}`", place, line.substr(0, 60)},
                         "keep the columns of path and label: cut -f1,2");
  }
  return *std::move(row);
}

// Checks that a path stays below the root that the user gave.
Status check_below(const std::string& root, std::string_view path, const std::string& place) {
  if (!path.starts_with('/') && path.find("..") == std::string_view::npos) {
    return {};
  }
  namespace fs = std::filesystem;
  const std::string below = fs::path(resolve_path(root, path))
                                .lexically_normal()
                                .lexically_relative((fs::path(root) / "").lexically_normal());
  if (below.empty() || below == ".." || below.starts_with("../")) {
    return content_error("XG0412", {"{}: the path {} leaves `root`, {}", place, path, root},
                         "give paths below it, or leave `root` out: paths may then lead anywhere");
  }
  return {};
}

// The parts, if the list names files of lines with base64; else empty. `confined`: no part may be outside of `root`.
Result<std::vector<std::string>> find_parts(const std::string& list, const std::string& first, const std::string& root,
                                            bool confined, StopFlag stop) {
  std::vector<std::string> parts;
  if (is_base64_line(first)) {
    parts.push_back(list);
    return parts;
  }
  struct stat info {};
  if (first.empty() || first.find('\t') != std::string::npos || first.size() > kLongestLine ||
      ::stat(resolve_path(root, first).c_str(), &info) != 0) {
    return parts;
  }
  XRUN_ASSIGN(const std::string line, first_line(resolve_path(root, first), kLongestBase64Line));
  if (is_base64_line(line)) {
    XRUN_TRY(visit_lines(list, kLongestLine, stop, [&](const TextLine& part) -> Status {
      const std::string_view name = trimmed(part.text);
      parts.push_back(resolve_path(root, name));
      return confined ? check_below(root, name, fmt::format("{}:{}", list, part.number)) : Status();
    }));
  }
  return parts;
}

Result<std::unique_ptr<Reader>> open_with(const SourceSpec& spec, StopFlag stop, bool header) {
  const Attrs& args = spec.reader.args;
  XRUN_TRY(data_registry().find_reader("list")->fields(args));
  const std::string list = resolve_path(spec.directory, args.text("path"));
  const bool has_root = !args.text("root").empty();
  const std::string root =
      has_root ? resolve_path(spec.directory, args.text("root")) : std::filesystem::path(list).parent_path().string();
  const char delimiter = args.text("delimiter")[0];
  XRUN_ASSIGN(const std::string first, first_line(list, kLongestBase64Line));
  XRUN_ASSIGN(const std::vector<std::string> parts, find_parts(list, first, root, has_root, stop));
  if (!parts.empty()) {
    return open_base64_parts(parts, args, stop);
  }
  Paths paths(root);
  LabelTexts labels;
  bool skips = args.flag("header", false);
  XRUN_TRY(visit_lines(list, kLongestLine, stop, [&](const TextLine& line) -> Status {
    if (std::exchange(skips, false)) {
      return {};
    }
    const std::string place = fmt::format("{}:{}", list, line.number);
    auto row = split_checked(line.text, delimiter, place);
    if (!row.ok()) {
      return std::move(row).error();
    }
    paths.add(row->path);
    labels.add(row->label, list, line.number);
    return has_root ? check_below(root, row->path, place) : Status();
  }));
  XRUN_ASSIGN(ListLabels resolved, labels.resolve(args, list));
  XRUN_TRY(check_some_exist(list, std::ssize(resolved.labels), [&](int64_t sample) { return paths.full(sample); }));
  paths.shrink_to_fit();
  return std::unique_ptr<Reader>(std::make_unique<ListReader>(std::move(resolved), std::move(paths), header));
}

}  // namespace

Result<std::unique_ptr<Reader>> open_list(const SourceSpec& spec, StopFlag stop) {
  return open_with(spec, stop, false);
}

Result<std::unique_ptr<Reader>> open_list_header(const SourceSpec& spec, StopFlag stop) {
  return open_with(spec, stop, true);
}

}  // namespace xrun::runtime
