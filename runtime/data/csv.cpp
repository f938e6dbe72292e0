#include "runtime/data/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <limits>

#include "runtime/data/files.h"

namespace xrun::runtime {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && is_blank(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && is_blank(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

Error broken(std::string_view name, int64_t line, std::string why) {
  return {.kind = ErrorKind::kContent,
          .code = "XG0412",
          .message = fmt::format("{}:{}: {}", name, line, why),
          .help = "fix the line, or say `header=true` or another `delimiter`"};
}

// Appends the numbers of a line.
Status parse_line(std::string_view line, char delimiter, int64_t number, std::string_view name,
                  std::vector<double>& out) {
  for (int64_t column = 0;; ++column) {
    const size_t end = line.find(delimiter);
    const std::string_view cell = trimmed(line.substr(0, end));
    double value = 0;
    const char* first = cell.data() + (cell.starts_with('+') ? 1 : 0);
    const auto [last, fault] = std::from_chars(first, cell.data() + cell.size(), value);
    if (std::abs(value) > std::numeric_limits<float>::max()) {
      return broken(name, number, fmt::format("column {} is {}, more than f32 can hold", column, cell.substr(0, 40)));
    }
    if (fault != std::errc() || last != cell.data() + cell.size() || !std::isfinite(value)) {
      return broken(name, number, fmt::format("column {} is \"{}\", no number", column, cell.substr(0, 40)));
    }
    out.push_back(value);
    if (end == std::string_view::npos) {
      return {};
    }
    line.remove_prefix(end + 1);
  }
}

class CsvReader final : public Reader {
 public:
  CsvReader(CsvTable table, std::string path, int64_t first)
      : table_(std::move(table)), path_(std::move(path)), first_(first) {
    shape_ = {table_.columns};
    fields_ = {{"row", {.dtype = DType::kF64, .dims = {kBatch, table_.columns}}}};
  }

  int64_t samples() const override { return table_.rows; }
  const std::vector<Field>& fields() const override { return fields_; }
  int64_t classes() const override { return 0; }
  Status read(int64_t sample, int, FieldValue& out) const override {
    const auto row = std::span(table_.numbers)
                         .subspan(static_cast<size_t>(sample * table_.columns), static_cast<size_t>(table_.columns));
    out.set_view(DType::kF64, shape_, std::as_bytes(row));
    return {};
  }
  std::string class_name(int64_t) const override { return ""; }
  std::string sample_name(int64_t sample) const override { return fmt::format("row {} of {}", first_ + sample, path_); }
  std::string describe() const override {
    return fmt::format("csv: {} rows of {} columns", format_count(table_.rows), table_.columns);
  }
  Bytes memory() const override { return static_cast<Bytes>(table_.numbers.size() * sizeof(double)); }

 private:
  CsvTable table_;
  std::string path_;
  int64_t first_;
  std::array<int64_t, 1> shape_{};
  std::vector<Field> fields_;
};

}  // namespace

Result<CsvTable> parse_csv(std::string_view text, const CsvOptions& options, std::string_view name) {
  CsvTable table;
  int64_t row = options.header ? -1 : 0;
  // The mark of UTF-8 that some programs write first.
  if (constexpr std::string_view kMark = "\xEF\xBB\xBF"; text.starts_with(kMark)) {
    text.remove_prefix(kMark.size());
  }
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    XRUN_TRY(check_stop(options.stop));
    if (trimmed(line).empty()) {
      continue;
    }
    if (row >= options.first && row < options.last) {
      const size_t before = table.numbers.size();
      XRUN_TRY(parse_line(line, options.delimiter, number, name, table.numbers));
      const auto columns = static_cast<int64_t>(table.numbers.size() - before);
      if (table.rows == 0) {
        table.columns = columns;
      } else if (columns != table.columns) {
        return broken(name, number, fmt::format("{} columns, but {} in the rows before", columns, table.columns));
      }
      ++table.rows;
    }
    ++row;
  }
  table.rows_in_file = std::max<int64_t>(row, 0);
  return table;
}

Result<CsvTable> read_csv(const std::string& path, const CsvOptions& options) {
  XRUN_ASSIGN(const auto bytes, read_file(path, options.largest + 1, options.stop));
  // Going on with the part that was read would drop rows unsaid, and cut the last number.
  if (static_cast<Bytes>(bytes.size()) > options.largest) {
    return Error{.kind = ErrorKind::kContent,
                 .code = "XG0412",
                 .message = fmt::format("{}: a table of more than {}", path, format_bytes(options.largest)),
                 .help = "keep only the rows and columns that the model reads, or split the file"};
  }
  return parse_csv({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, options, path);
}

Result<std::unique_ptr<Reader>> open_csv(const SourceSpec& spec, StopFlag stop) {
  const Attrs& args = spec.reader.args;
  XRUN_TRY(data_registry().find_reader("csv")->fields(args));
  const std::string path = resolve_path(spec.directory, args.text("path"));
  CsvOptions options{.header = args.flag("header", false), .delimiter = args.text("delimiter")[0], .stop = stop};
  if (args.has("rows")) {
    options.first = args.integers("rows")[0];
    options.last = args.integers("rows")[1];
  }
  XRUN_ASSIGN(CsvTable table, read_csv(path, options));
  if (options.last != INT64_MAX && table.rows < options.last - options.first) {
    return Error{.kind = ErrorKind::kContent,
                 .code = "XG0413",
                 .message = fmt::format("`rows` is {}..{}, but {} has {} rows", options.first, options.last, path,
                                        table.rows_in_file),
                 .help = fmt::format("keep to 0..{}: rows are counted from 0, without the header", table.rows_in_file)};
  }
  return std::unique_ptr<Reader>(std::make_unique<CsvReader>(std::move(table), path, options.first));
}

}  // namespace xrun::runtime
