#include "runtime/cli/predict/embeddings.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/base/errors.h"
#include "graph/base/utf8.h"
#include "graph/os/durable.h"
#include "runtime/formats/tensors/npy.h"
#include "runtime/train/evaluation/inference.h"

namespace xrun::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr Bytes kMostNames = kGiB;  // limit for the names in an .npz file, which pads each name to the longest one
constexpr std::string_view kTsvHeader = "name\tlabel\tclass\n";
constexpr FileKind kNpy{.name = "NumPy array", .code = "XG0901", .magic = "\x93NUMPY"};
// An .npz file, which is known by the name of its first entry: it follows 30 bytes in every ZIP archive.
constexpr FileKind kNpz{
    .name = "NumPy archive of embeddings", .code = "XG0901", .offset = 30, .magic = "embeddings.npy"};
constexpr FileKind kTsv{.name = "table of embeddings", .code = "XG0901", .magic = kTsvHeader};

// The embeddings of the rows that could be read.
struct Table {
  std::string value;  // name of the output
  std::vector<float> rows;
  int64_t columns = 0;
  std::vector<std::string> names;
  std::vector<RowLabel> labels;

  int64_t count() const { return std::ssize(names); }
  std::span<const float> row(int64_t i) const {
    return std::span(rows).subspan(static_cast<size_t>(i * columns), static_cast<size_t>(columns));
  }
};

// The first output with floating-point values. The logits of a head do not count, since they are made tile by tile and
// no plan keeps them.
Result<NamedValue> embedding_output(const Graph& graph) {
  std::string head;
  for (const NamedValue& output : graph.outputs) {
    const bool is_head = std::ranges::any_of(
        graph.heads, [&](const Head& one) { return graph.node(one.node).outputs[0] == output.value; });
    const DType dtype = graph.value(output.value).type.dtype;
    if (is_head) {
      head = output.name;
    } else if (is_computed(dtype)) {
      return output;
    }
  }
  if (!head.empty()) {
    return content_error("XG0903", {"the output `{}` is a head, whose logits are not kept", head},
                         "declare an output of what the head reads, such as `output feature`");
  }
  return content_error(
      "XG0903", graph.outputs.empty() ? "the model has no output to write" : "the model's outputs are whole numbers",
      "declare one of real numbers: output feature");
}

Result<Table> make_table(runtime::Session& session, Subject& subject, const ClassNames& names,
                         runtime::EventSink& events) {
  const Graph& graph = session.module().graph;
  XRUN_ASSIGN(const NamedValue output, embedding_output(graph));
  Table table{.value = output.name, .columns = graph.value(output.value).type.row_elements()};
  XRUN_ASSIGN(table.rows, runtime::predict_floats(session, subject.rows(), output.value, subject.first(),
                                                  subject.count(), &events, &subject.broken));
  XRUN_TRY(subject.check_any_left());
  for (int64_t row = 0; row < subject.count(); ++row) {
    if (subject.fault_of(row) != nullptr) {
      continue;
    }
    std::copy_n(table.rows.begin() + row * table.columns, table.columns,
                table.rows.begin() + table.count() * table.columns);
    XRUN_ASSIGN(RowLabel label, subject.label(row));
    if (label.name.empty() && label.number && !names.names.empty()) {
      label.name = names.of(*label.number);
    }
    table.labels.push_back(std::move(label));
    table.names.push_back(subject.name(row));
  }
  table.rows.resize(static_cast<size_t>(table.count() * table.columns));
  return table;
}

std::string beside(const std::string& npy) { return npy.substr(0, npy.size() - 4) + ".tsv"; }

Status write_npy(const std::string& path, const Table& table) {
  const std::string header = runtime::npy_header({.descr = "<f4", .shape = {table.count(), table.columns}});
  std::string tsv(kTsvHeader);
  for (size_t i = 0; i < table.names.size(); ++i) {
    const RowLabel& label = table.labels[i];
    tsv += fmt::format("{}\t{}\t{}\n", tsv_cell(table.names[i]), label.number ? std::to_string(*label.number) : "",
                       tsv_cell(label.name));
  }
  const std::span<const std::byte> array[] = {std::as_bytes(std::span(header)), std::as_bytes(std::span(table.rows))};
  const std::span<const std::byte> names[] = {std::as_bytes(std::span(tsv))};
  const ResultFile files[] = {{path, array, kNpy}, {beside(path), names, kTsv}};
  return replace_files(files);
}

Status write_npz(const std::string& path, const Table& table) {
  std::vector<std::string> classes;
  std::vector<int64_t> labels;
  for (const RowLabel& label : table.labels) {
    classes.push_back(label.name);
    labels.push_back(label.number.value_or(-1));
  }
  XRUN_ASSIGN(const runtime::NpyTexts names, runtime::npy_texts(table.names, kMostNames));
  XRUN_ASSIGN(const runtime::NpyTexts class_texts, runtime::npy_texts(classes, kMostNames));
  const std::vector<int64_t> rows{table.count()};
  const runtime::NpyArray arrays[] = {
      {"embeddings", "<f4", {table.count(), table.columns}, std::as_bytes(std::span(table.rows))},
      {"names", names.descr, rows, std::as_bytes(std::span(names.data))},
      {"labels", "<i8", rows, std::as_bytes(std::span(labels))},
      {"classes", class_texts.descr, rows, std::as_bytes(std::span(class_texts.data))}};
  return replace_file(path, kNpz, [&](const ByteSink& sink) { return runtime::write_npz(arrays, sink); });
}

std::string text_lines(const Table& table) {
  std::string out;
  for (int64_t i = 0; i < table.count(); ++i) {
    out += printable_line(table.names[static_cast<size_t>(i)]);
    for (const float x : table.row(i)) {
      out += fmt::format(" {:.6g}", x);
    }
    out += "\n";
  }
  return out;
}

std::string json_lines(const Table& table, const Subject& subject) {
  std::string out;
  int64_t at = 0;
  for (int64_t row = 0; row < subject.count(); ++row) {
    if (const std::string* fault = subject.fault_of(row)) {
      out += json_line({{"input", subject.name(row)}, {"broken", *fault}});
      continue;
    }
    Json object{{"input", table.names[static_cast<size_t>(at)]}};
    const RowLabel& label = table.labels[static_cast<size_t>(at)];
    if (label.number) {
      object["label"] = *label.number;
    }
    if (!label.name.empty()) {
      object["class"] = label.name;
    }
    object["embedding"] = table.row(at++);
    out += json_line(object);
  }
  return out;
}

// The result of the command: the names of the written files and a description of their contents.
std::string files_text(const std::string& path, const Table& table, const Subject& subject, bool json) {
  const bool archive = path.ends_with(".npz");
  if (!json) {
    const std::string shown = printable_line(path);
    const std::string shape = fmt::format("f32[{}, {}]   {}", table.count(), table.columns, table.value);
    return archive
               ? fmt::format("{}   {}, with names, labels and classes\n", shown, shape)
               : fmt::format("{}   {}\n{}   names, labels and classes\n", shown, shape, printable_line(beside(path)));
  }
  Json object{{"output", path}, {"names", archive ? path : beside(path)}};
  object.update({{"rows", table.count()}, {"columns", table.columns}, {"value", table.value}});
  object["broken"] = Json::array();
  for (const runtime::BrokenRow& row : subject.broken) {
    object["broken"].push_back({{"input", row.sample}, {"message", row.message}});
  }
  return json_line(object);
}

// Checks that an existing array has its table next to it, as arrays of embeddings do. Other arrays are not overwritten.
Status check_has_table(const std::string& path) {
  const auto has_bytes = [](const std::string& file) {
    std::error_code error;
    return std::filesystem::file_size(file, error) > 0 && !error;
  };
  return !has_bytes(path) || has_bytes(beside(path))
             ? Status()
             : usage_error(
                   "XG0901",
                   {"`{}` exists, but no table of embeddings is in {}, so it would be lost", path, beside(path)},
                   "choose another place with `-o`, or remove the file");
}

}  // namespace

Status check_embedding_path(const std::string& path) {
  if (path.empty()) {
    return {};
  }
  if (path.ends_with(".npz")) {
    return check_place(path, kNpz);
  }
  if (path.ends_with(".npy")) {
    XRUN_TRY(check_place(path, kNpy));
    XRUN_TRY(check_place(beside(path), kTsv));
    return check_has_table(path);
  }
  std::filesystem::path npy = path;
  npy.replace_extension(".npy");
  return usage_error("XG0905", {"`-o {}`: the name of a file of embeddings ends with .npy or .npz", path},
                     {"did you mean `-o {}`?", npy.native()});
}

Result<std::string> embeddings(runtime::Session& session, Subject& subject, const ClassNames& names,
                               const std::string& path, bool json, runtime::EventSink& events) {
  XRUN_ASSIGN(const Table table, make_table(session, subject, names, events));
  if (path.empty()) {
    return json ? json_lines(table, subject) : text_lines(table);
  }
  XRUN_TRY(path.ends_with(".npz") ? write_npz(path, table) : write_npy(path, table));
  return files_text(path, table, subject, json);
}

std::string tsv_cell(std::string_view text) {
  std::string cell;
  while (!text.empty()) {
    const uint32_t length = sequence_length(text);
    const char c = text[0];
    if (const size_t known = std::string_view("\\\t\n\r").find(c); known != std::string_view::npos) {
      cell += std::string("\\") + "\\tnr"[known];
    } else if (length == 0 || is_control(c)) {
      cell += fmt::format("\\x{:02X}", static_cast<unsigned char>(c));
    } else {
      cell += text.substr(0, length);
    }
    text.remove_prefix(std::max(length, 1U));
  }
  return cell;
}

}  // namespace xrun::cli
