#include "runtime/data/readers/csv.h"

#include <algorithm>
#include <fmt/format.h>

#include "graph/base/errors.h"
#include "graph/base/utf8.h"
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
    if (const CsvFault* fault = table_.fault_of(sample)) {
      return not_a_number(*fault);
    }
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
  Bytes memory() const override {
    constexpr size_t kFault = sizeof(CsvFault) + CsvTable::kLongestFault;
    return static_cast<Bytes>(table_.numbers.size() * sizeof(double) + table_.faults.size() * kFault);
  }

 private:
  Error not_a_number(const CsvFault& fault) const {
    const std::string& name = table_.columns[static_cast<size_t>(fault.column)].name;
    return content_error("XG0412",
                         {"column {}{} is \"{}\", not a number", fault.column,
                          name.empty() ? "" : fmt::format(" (`{}`)", name), printable_line(fault.text)},
                         "correct the cell, remove the line, or raise `max_bad`");
  }

  CsvTable table_;
  std::string path_;
  std::array<int64_t, 1> shape_{};
  std::vector<Field> fields_;
};

// Arguments that with_bound_columns adds to a call of the reader. Ranges are stored as a, b, a, b, ...
constexpr std::string_view kTextPositions = "text_positions";
constexpr std::string_view kTextNames = "text_names";
constexpr std::string_view kNumberRanges = "number_ranges";
constexpr std::string_view kNumberNames = "number_names";

void read_bound_columns(const Attrs& args, CsvOptions& options) {
  if (!args.has(kTextPositions)) {
    return;
  }
  options.texts.assign(args.integers(kTextPositions).begin(), args.integers(kTextPositions).end());
  options.texts.insert(options.texts.end(), args.texts(kTextNames).begin(), args.texts(kTextNames).end());
  const auto& ranges = args.integers(kNumberRanges);
  for (size_t i = 0; i + 1 < ranges.size(); i += 2) {
    options.number_ranges.emplace_back(ranges[i], ranges[i + 1]);
  }
  options.number_names = args.texts(kNumberNames);
}

bool feeds_numbers(const DataBinding& binding, const Graph& graph) {
  const auto input = std::ranges::find(graph.inputs, binding.target, &NamedValue::name);
  return input != graph.inputs.end() && graph.value(input->value).type.classes == 0;
}

}  // namespace

SourceSpec with_bound_columns(SourceSpec spec, const std::vector<DataBinding>& bindings, const Graph& graph) {
  if (spec.reader.name != "csv") {
    return spec;
  }
  std::vector<int64_t> positions;
  std::vector<int64_t> ranges;
  TextList names;
  TextList number_names;
  for (const DataBinding& binding : bindings) {
    const auto& stages = binding.stages;
    const bool is_text = std::ranges::find(stages, "as_class", &CallSpec::name) != stages.end();
    const bool selects = !stages.empty() && (stages[0].name == "column" || stages[0].name == "columns");
    if (!selects) {
      ranges.insert(ranges.end(), {0, INT64_MAX});  // the binding reads all columns
      continue;
    }
    const AttrValue& chosen = stages[0].args.all()[0].second;  // the stage's only argument
    const auto* position = std::get_if<int64_t>(&chosen);
    if (stages[0].name == "columns" || feeds_numbers(binding, graph)) {
      if (const auto* range = std::get_if<std::vector<int64_t>>(&chosen)) {
        ranges.insert(ranges.end(), range->begin(), range->end());
      } else if (const auto* several = std::get_if<TextList>(&chosen)) {
        number_names.insert(number_names.end(), several->begin(), several->end());
      } else if (position != nullptr) {
        ranges.insert(ranges.end(), {*position, *position + 1});
      } else {
        number_names.push_back(std::get<std::string>(chosen));
      }
    } else if (is_text && position != nullptr) {
      positions.push_back(*position);
    } else if (is_text) {
      names.push_back(std::get<std::string>(chosen));
    }
  }
  spec.reader.args.set(kTextPositions, std::move(positions));
  spec.reader.args.set(kTextNames, std::move(names));
  spec.reader.args.set(kNumberRanges, std::move(ranges));
  spec.reader.args.set(kNumberNames, std::move(number_names));
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
  CsvOptions options{.header = args.flag("header", false), .delimiter = args.text("delimiter")[0], .stop = stop};
  read_bound_columns(args, options);
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
