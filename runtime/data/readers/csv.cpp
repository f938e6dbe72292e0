// Tests: tests/runtime/data/readers/reader_test.cpp
#include "runtime/data/readers/csv.h"

#include <algorithm>
#include <fmt/format.h>

#include "graph/base/errors.h"
#include "runtime/formats/files.h"
#include "runtime/formats/foreign.h"

namespace xrun::runtime {
namespace {

class CsvReader final : public Reader {
 public:
  CsvReader(CsvTable table, std::string path) : table_(std::move(table)), path_(std::move(path)) {
    shape_ = {std::ssize(table_.columns)};
    fields_ = {{"row", {.dtype = DType::kF64, .dims = {kBatch, shape_[0]}}}};
  }

  int64_t samples() const override { return table_.rows; }
  const std::vector<Field>& fields() const override { return fields_; }
  int64_t classes() const override { return 0; }
  Status read(int64_t sample, int, FieldValue& out) const override {
    const auto row =
        std::span(table_.numbers).subspan(static_cast<size_t>(sample * shape_[0]), static_cast<size_t>(shape_[0]));
    out.set_view(DType::kF64, shape_, std::as_bytes(row));
    return {};
  }
  std::string class_name(int64_t) const override { return ""; }
  std::string sample_name(int64_t sample) const override { return fmt::format("{}:{}", path_, table_.line_of(sample)); }
  std::span<const CsvColumn> columns() const override { return table_.columns; }
  std::string describe() const override {
    return fmt::format("csv: {} rows of {} columns", format_count(table_.rows), shape_[0]);
  }
  std::vector<Error> warnings() const override {
    if (!table_.header_of_numbers) {
      return {};
    }
    return {content_error("XG0418", {"{}: all names in the header are numbers: the first row may be a sample", path_},
                          "leave `header=true` out if it is one")};
  }
  Bytes memory() const override { return static_cast<Bytes>(table_.numbers.size() * sizeof(double)); }

 private:
  CsvTable table_;
  std::string path_;
  std::array<int64_t, 1> shape_{};
  std::vector<Field> fields_;
};

}  // namespace

namespace {

constexpr std::string_view kTextPositions = "text_positions";
constexpr std::string_view kTextNames = "text_names";

std::vector<CsvKey> text_columns(const Attrs& args) {
  std::vector<CsvKey> keys;
  if (args.has(kTextPositions)) {
    keys.insert(keys.end(), args.integers(kTextPositions).begin(), args.integers(kTextPositions).end());
  }
  if (args.has(kTextNames)) {
    keys.insert(keys.end(), args.texts(kTextNames).begin(), args.texts(kTextNames).end());
  }
  return keys;
}

}  // namespace

SourceSpec with_text_columns(SourceSpec spec, const std::vector<DataBinding>& bindings) {
  std::vector<int64_t> positions;
  TextList names;
  for (const DataBinding& binding : bindings) {
    const auto& stages = binding.stages;
    if (stages.empty() || stages[0].name != "column" ||
        std::ranges::find(stages, "as_class", &CallSpec::name) == stages.end()) {
      continue;
    }
    const AttrValue& index = *stages[0].args.find("index");
    if (const auto* position = std::get_if<int64_t>(&index)) {
      positions.push_back(*position);
    } else {
      names.push_back(std::get<std::string>(index));
    }
  }
  if (spec.reader.name == "csv" && !(positions.empty() && names.empty())) {
    spec.reader.args.set(kTextPositions, std::move(positions));
    spec.reader.args.set(kTextNames, std::move(names));
  }
  return spec;
}

Result<CsvTable> read_csv(const std::string& path, const CsvOptions& options) {
  XRUN_ASSIGN(const auto bytes, read_file(path, options.largest + 1, options.stop));
  // A longer file is rejected: reading only a part of it would silently drop rows and cut the last number.
  if (static_cast<Bytes>(bytes.size()) > options.largest) {
    return content_error("XG0412", {"{}: a table of more than {}", path, format_bytes(options.largest)},
                         "keep only the rows and columns that the model reads, or split the file");
  }
  XRUN_TRY(refuse_foreign(bytes, path));
  return parse_csv({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, options, path);
}

Result<std::unique_ptr<Reader>> open_csv(const SourceSpec& spec, StopFlag stop) {
  const Attrs& args = spec.reader.args;
  XRUN_TRY(data_registry().find_reader("csv")->fields(args));
  const std::string path = resolve_path(spec.directory, args.text("path"));
  CsvOptions options{.header = args.flag("header", false),
                     .delimiter = args.text("delimiter")[0],
                     .texts = text_columns(args),
                     .stop = stop};
  if (args.has("rows")) {
    options.first = args.integers("rows")[0];
    options.last = args.integers("rows")[1];
  }
  XRUN_ASSIGN(CsvTable table, read_csv(path, options));
  if (options.last != INT64_MAX && table.rows < options.last - options.first) {
    return content_error(
        "XG0413", {"`rows` is {}..{}, but {} has {} rows", options.first, options.last, path, table.rows_in_file},
        {"keep to 0..{}: rows are counted from 0, without the header", table.rows_in_file});
  }
  return std::unique_ptr<Reader>(std::make_unique<CsvReader>(std::move(table), path));
}

}  // namespace xrun::runtime
