// The files about classes that `eval` writes: counts of pairs of classes as CSV, misclassified samples as TSV.
// Tests: tests/runtime/cli/predict/classification_test.cpp
#include <filesystem>
#include <fmt/format.h>

#include "graph/base/errors.h"
#include "graph/base/utf8.h"
#include "graph/os/durable.h"
#include "runtime/cli/predict/classification.h"
#include "runtime/cli/predict/embeddings.h"

namespace xrun::cli {
namespace {

// The first lines of the files. If a model has several heads, one more column names the head.
constexpr std::string_view kPairs = "source,class,class_name,predicted,predicted_name,samples";
constexpr std::string_view kWrong = "source\tname\tclass\tclass_name\tpredicted\tpredicted_name\tprobability";
constexpr FileKind kPairsKind{
    .name = "table of pairs of classes", .code = "XG0901", .magic = kPairs, .flag = "--confusion"};
constexpr FileKind kWrongKind{
    .name = "list of misclassified samples", .code = "XG0901", .magic = kWrong, .flag = "--wrong"};

// A CSV cell, in double quotes if it needs them (RFC 4180).
std::string csv_cell(std::string_view text) {
  std::string cell = well_formed(text);
  if (cell.find_first_of(",\"\r\n") == std::string::npos) {
    return cell;
  }
  for (size_t at = 0; (at = cell.find('"', at)) != std::string::npos; at += 2) {
    cell.insert(at, 1, '"');
  }
  return '"' + cell + '"';
}

bool has_heads(const std::vector<SourceClasses>& sources) { return !sources.empty() && !sources[0].head.empty(); }

std::string pairs_of(const std::vector<SourceClasses>& sources) {
  std::string text = std::string(kPairs) + (has_heads(sources) ? ",head\n" : "\n");
  for (const SourceClasses& source : sources) {
    const std::string head = source.head.empty() ? "" : "," + csv_cell(source.head);
    for (const auto& [pair, samples] : source.pairs) {
      text += fmt::format("{},{},{},{},{},{}{}\n", csv_cell(source.source), pair.first,
                          csv_cell(source.names.of(pair.first)), pair.second, csv_cell(source.names.of(pair.second)),
                          samples, head);
    }
  }
  return text;
}

std::string wrong_of(const std::vector<SourceClasses>& sources) {
  std::string text = std::string(kWrong) + (has_heads(sources) ? "\thead\n" : "\n");
  for (const SourceClasses& source : sources) {
    const std::string head = source.head.empty() ? "" : "\t" + tsv_cell(source.head);
    for (const WrongSample& one : source.wrong) {
      text += fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}{}\n", tsv_cell(source.source), tsv_cell(one.name), one.label,
                          tsv_cell(source.names.of(one.label)), one.predicted, tsv_cell(source.names.of(one.predicted)),
                          one.probability, head);
    }
  }
  return text;
}

}  // namespace

std::string wrong_path(const EvalArgs& args) { return (std::filesystem::path(args.wrong) / "wrong.tsv").native(); }

Status check_class_files(const EvalArgs& args) {
  if (!args.confusion.empty()) {
    XRUN_TRY(check_place(args.confusion, kPairsKind));
  }
  if (args.wrong.empty()) {
    return {};
  }
  namespace fs = std::filesystem;
  const fs::path parent = fs::absolute(args.wrong).lexically_normal().parent_path();
  std::error_code ignored;
  if (fs::exists(args.wrong, ignored) ? !fs::is_directory(args.wrong, ignored) : !fs::is_directory(parent, ignored)) {
    return usage_error("XG0901", {"`--wrong {}` is not a directory and cannot be created", args.wrong},
                       "name one in a directory that exists: --wrong wrong");
  }
  return fs::exists(args.wrong, ignored) ? check_place(wrong_path(args), kWrongKind) : Status();
}

Status write_class_files(const EvalArgs& args, const std::vector<SourceClasses>& sources) {
  const std::string pairs = pairs_of(sources);
  const std::string wrong = wrong_of(sources);
  const std::span<const std::byte> of_pairs[] = {std::as_bytes(std::span(pairs))};
  const std::span<const std::byte> of_wrong[] = {std::as_bytes(std::span(wrong))};
  std::vector<ResultFile> files;
  if (!args.confusion.empty()) {
    files.push_back({args.confusion, of_pairs, kPairsKind});
  }
  bool fresh = false;
  if (!args.wrong.empty()) {
    std::error_code error;
    fresh = std::filesystem::create_directory(args.wrong, error);
    if (error) {
      return world_error("XG0901", {"cannot make the directory `{}`: {}", args.wrong, error.message()},
                         "name another one");
    }
    files.push_back({wrong_path(args), of_wrong, kWrongKind});
  }
  Status written = replace_files(files);
  if (!written.ok() && fresh) {
    std::error_code ignored;
    std::filesystem::remove(args.wrong, ignored);
  }
  return written;
}

}  // namespace xrun::cli
