// Opening a text visits its lines once, and records the place of each one and its label. Lines whose label is missing
// have no place among the labels that LabelTexts resolves, so the resolved labels are spread over the samples
// afterwards.
#include "runtime/data/readers/text_reader.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <utility>
#include <vector>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "graph/base/nearest.h"
#include "graph/base/utf8.h"
#include "runtime/data/readers/label_texts.h"
#include "runtime/formats/random_file.h"
#include "runtime/formats/text_lines.h"

namespace xrun::runtime {
namespace {

constexpr int32_t kBroken = std::numeric_limits<int32_t>::min();  // the label of a line without one

// The cells of a line: with runs of blanks as delimiter, those at its ends delimit nothing.
std::string_view cells_of(std::string_view line, char delimiter) { return delimiter == ' ' ? trimmed(line) : line; }

// Removes the first cell from `rest` and returns it. nullopt: there are no more cells.
std::optional<std::string_view> next_cell(std::optional<std::string_view>& rest, char delimiter) {
  if (!rest) {
    return std::nullopt;
  }
  const size_t end = delimiter == ' ' ? rest->find_first_of(" \t") : rest->find(delimiter);
  const std::string_view cell = rest->substr(0, end);
  size_t next = end == std::string_view::npos ? end : end + 1;
  while (delimiter == ' ' && next < rest->size() && is_blank((*rest)[next])) {
    ++next;
  }
  rest = next == std::string_view::npos ? std::nullopt : std::optional(rest->substr(next));
  return cell;
}

// The lines of a file, in order.
struct Lines {
  std::vector<Bytes> starts;
  std::vector<uint32_t> sizes;
  // The lines whose number does not follow that of the line before, as pairs of sample and number.
  std::vector<std::pair<int64_t, int64_t>> jumps;

  void add(const TextLine& line) {
    const int64_t sample = std::ssize(starts);
    if (jumps.empty() || line.number - jumps.back().second != sample - jumps.back().first) {
      jumps.emplace_back(sample, line.number);
    }
    starts.push_back(line.offset);
    sizes.push_back(static_cast<uint32_t>(line.text.size()));
  }
  int64_t number_of(int64_t sample) const {
    const auto after = std::ranges::upper_bound(jumps, sample, {}, &std::pair<int64_t, int64_t>::first);
    const auto& [first, number] = *std::prev(after);
    return number + sample - first;
  }
  Bytes memory() const {
    return static_cast<Bytes>(starts.capacity() * sizeof(Bytes) + sizes.capacity() * sizeof(uint32_t) +
                              jumps.capacity() * sizeof(jumps[0]));
  }
};

class TextReader final : public Reader {
 public:
  TextReader(RandomFile file, Lines lines, ListLabels labels, const TextColumns& columns, char delimiter)
      : file_(std::move(file)),
        lines_(std::move(lines)),
        labels_(std::move(labels)),
        columns_(columns),
        delimiter_(delimiter) {
    fields_ = {{"text", {.dtype = DType::kU8, .dims = {kBatch, 0}}}};
    if (columns.label >= 0) {
      fields_.push_back({"label", {.dtype = DType::kI64, .dims = {kBatch}, .classes = labels_.classes}});
    }
  }

  int64_t samples() const override { return std::ssize(lines_.starts); }
  const std::vector<Field>& fields() const override { return fields_; }
  int64_t classes() const override { return labels_.classes; }
  bool has_labels() const override { return columns_.label >= 0; }
  Status read(int64_t sample, int field, FieldValue& out) const override {
    const auto i = static_cast<size_t>(sample);
    if (field == 1) {
      if (labels_.labels[i] == kBroken) {
        return lacks_column("label", columns_.label);
      }
      out.set_integer(DType::kI64, labels_.labels[i]);
      return {};
    }
    const std::array<int64_t, 1> room{lines_.sizes[i]};
    std::byte* const to = out.set_own(DType::kU8, room);
    XRUN_TRY(file_.read(lines_.starts[i], {to, lines_.sizes[i]}));
    const std::string_view line(reinterpret_cast<const char*>(to), lines_.sizes[i]);
    const auto text = split_text(line, delimiter_, columns_).text;
    if (!text) {
      return lacks_column("text", columns_.text);
    }
    XRUN_TRY(check_utf8(*text));
    const std::array<int64_t, 1> shape{std::ssize(*text)};
    out.set_view(DType::kU8, shape, std::as_bytes(std::span(*text)));
    return {};
  }
  std::string class_name(int64_t label) const override {
    return labels_.names.empty() ? "" : labels_.names[static_cast<size_t>(label)];
  }
  std::string sample_name(int64_t sample) const override {
    return fmt::format("{}:{}", file_.path(), lines_.number_of(sample));
  }
  std::string describe() const override {
    return fmt::format("text: {}, {}", counted(samples(), "line"),
                       has_labels() ? counted(classes(), "class") : "without labels");
  }
  Bytes memory() const override {
    Bytes names = 0;
    for (const std::string& name : labels_.names) {
      names += static_cast<Bytes>(sizeof name + name.capacity());
    }
    return lines_.memory() + static_cast<Bytes>(labels_.labels.capacity() * sizeof(int32_t)) + names;
  }

 private:
  static Error lacks_column(std::string_view what, int64_t column) {
    return content_error("XG0412", {"the line has no {}: its column {} is missing or empty", what, column},
                         "correct the line, or raise `max_bad`; columns are counted from 0, and `delimiter` is a tab "
                         "unless it is given");
  }
  static Status check_utf8(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
      const uint32_t length = static_cast<unsigned char>(text[at]) < 0x80 ? 1 : sequence_length(text.substr(at));
      if (length == 0) {
        return content_error("XG0412", {"byte {} of the text is not UTF-8", at},
                             "convert the file (iconv -f latin1 -t utf-8), or raise `max_bad`");
      }
      at += length;
    }
    return {};
  }

  RandomFile file_;
  Lines lines_;
  ListLabels labels_;
  TextColumns columns_;
  char delimiter_;
  std::vector<Field> fields_;
};

// The position of the column that an argument chooses by position or by its name in the header.
Result<int64_t> column_of(const AttrValue& chosen, std::string_view header, char delimiter, const std::string& path) {
  if (const auto* position = std::get_if<int64_t>(&chosen)) {
    return *position;
  }
  const auto& name = std::get<std::string>(chosen);
  std::vector<std::string> names;
  std::optional<std::string_view> rest = cells_of(header, delimiter);
  while (const auto cell = next_cell(rest, delimiter)) {
    names.emplace_back(trimmed(*cell));
  }
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) {
    return content_error("XG0413", {"{} has no column `{}`", path, name},
                         nearest_names(name, names, "the first line of the file has them"));
  }
  return found - names.begin();
}

Result<TextColumns> columns_of(const Attrs& args, std::string_view header, char delimiter, const std::string& path) {
  TextColumns columns;
  if (args.has("text")) {
    columns.rest = false;
    columns.label = -1;
    XRUN_ASSIGN(columns.text, column_of(*args.find("text"), header, delimiter, path));
  }
  if (args.has("label")) {
    XRUN_ASSIGN(columns.label, column_of(*args.find("label"), header, delimiter, path));
  }
  return columns;
}

// Spreads the labels over the samples: those in `lacking` have none.
void spread(std::vector<int32_t>& labels, const std::vector<int64_t>& lacking) {
  std::vector<int32_t> all;
  all.reserve(labels.size() + lacking.size());
  auto label = labels.begin();
  auto none = lacking.begin();
  while (label != labels.end() || none != lacking.end()) {
    if (none != lacking.end() && *none == std::ssize(all)) {
      all.push_back(kBroken);
      ++none;
    } else {
      all.push_back(*label++);
    }
  }
  labels = std::move(all);
}

}  // namespace

TextCells split_text(std::string_view line, char delimiter, const TextColumns& columns) {
  TextCells cells;
  std::optional<std::string_view> rest = cells_of(line, delimiter);
  for (int64_t i = 0; rest && (i <= columns.label || i <= columns.text); ++i) {
    const bool takes_rest = i == columns.text && columns.rest;
    const auto cell = takes_rest ? std::exchange(rest, std::nullopt) : next_cell(rest, delimiter);
    if (i == columns.label && !trimmed(*cell).empty()) {
      cells.label = trimmed(*cell);
    }
    if (i == columns.text && !trimmed(*cell).empty()) {
      cells.text = cell;
    }
  }
  return cells;
}

Result<std::unique_ptr<Reader>> open_text(const SourceSpec& spec, StopFlag stop) {
  const Attrs& args = spec.reader.args;
  XRUN_TRY(data_registry().find_reader("text")->fields(args));
  const std::string path = resolve_path(spec.directory, args.text("path"));
  const char delimiter = args.text("delimiter")[0];
  bool skips = args.flag("header", false);
  XRUN_ASSIGN(RandomFile file, RandomFile::open(path));
  std::string first;
  if (skips) {
    XRUN_ASSIGN(first, first_line(path, kLongestTextLine));
  }
  XRUN_ASSIGN(const TextColumns columns, columns_of(args, first, delimiter, path));
  Lines lines;
  LabelTexts texts;
  std::vector<int64_t> lacking;  // the samples without a label
  XRUN_TRY(visit_lines(path, kLongestTextLine, stop, [&](const TextLine& line) -> Status {
    if (std::exchange(skips, false)) {
      return {};
    }
    const auto label = columns.label < 0 ? std::nullopt : split_text(line.text, delimiter, columns).label;
    if (label) {
      texts.add(*label, path, line.number);
    } else if (columns.label >= 0) {
      lacking.push_back(std::ssize(lines.starts));
    }
    lines.add(line);
    return {};
  }));
  ListLabels labels;
  if (columns.label >= 0) {
    XRUN_ASSIGN(labels, texts.resolve(args, path));
    spread(labels.labels, lacking);
  }
  return std::unique_ptr<Reader>(
      std::make_unique<TextReader>(std::move(file), std::move(lines), std::move(labels), columns, delimiter));
}

}  // namespace xrun::runtime
