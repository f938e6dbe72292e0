#include "runtime/cli/predict/pair_files.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>

#include "graph/base/errors.h"

namespace xrun::cli {
namespace {

bool is_source(const DataSpec& data, const std::string& name) {
  return std::ranges::find(data.sources, name, &SourceSpec::name) != data.sources.end();
}

// Whether a name that is not a source means a file. A missing file is then reported by the reader.
bool is_file(const std::string& name) {
  std::error_code ignored;
  return name.ends_with(".bin") || name.find('/') != std::string::npos ||
         std::filesystem::is_regular_file(name, ignored);
}

// The outputs that can be features: one row of numbers a sample. The logits of a head are not kept.
std::vector<NamedValue> feature_outputs(const Graph& graph) {
  std::vector<NamedValue> outputs;
  std::ranges::copy_if(graph.outputs, std::back_inserter(outputs), [&](const NamedValue& output) {
    const TensorType& type = graph.value(output.value).type;
    const bool is_head = std::ranges::any_of(
        graph.heads, [&](const Head& head) { return graph.node(head.node).outputs[0] == output.value; });
    return !is_head && type.rank() == 2 && is_computed(type.dtype);
  });
  return outputs;
}

Result<ValueId> feature_of(const Graph& graph, const std::string& name) {
  const std::vector<NamedValue> outputs = feature_outputs(graph);
  if (outputs.empty()) {
    return content_error("XG0903", "the model has no output of features, [N, D], that pairs can be compared by",
                         "declare one: output feature");
  }
  const auto named = std::ranges::find(outputs, name, &NamedValue::name);
  if (named != outputs.end() || (name.empty() && outputs.size() == 1)) {
    return named != outputs.end() ? named->value : outputs[0].value;
  }
  std::vector<std::string> names;
  std::ranges::transform(outputs, std::back_inserter(names), &NamedValue::name);
  return usage_error("XG0903",
                     name.empty() ? fmt::format("the model has {} outputs that may be features", outputs.size())
                                  : fmt::format("the model has no output `{}` of features, [N, D]", name),
                     {"name one of them: --feature {}", fmt::join(names, ", --feature ")});
}

// The name of the file without its ending, and with a number if a metric or a source has this name: the key of a metric
// may be the name of its source.
std::string key_of(const std::string& path, const Module& module, const std::vector<runtime::Measure>& added) {
  const std::string stem = std::filesystem::path(path).stem().native();
  const auto is_taken = [&](const std::string& key) {
    return is_source(module.data, key) ||
           std::ranges::find(module.train.measured(), key, &MetricSpec::name) != module.train.measured().end() ||
           std::ranges::find(added, key, &runtime::Measure::key) != added.end();
  };
  std::string key = stem;
  for (int next = 2; is_taken(key); ++next) {
    key = fmt::format("{}_{}", stem, next);
  }
  return key;
}

}  // namespace

Result<std::vector<runtime::Measure>> add_pair_files(PlannedModel& planned, const EvalArgs& args) {
  Module& module = planned.prepared.inference;
  const VerificationSpec spec{.flip = !args.no_flip, .folds = args.folds};
  std::vector<runtime::Measure> added;
  for (const std::string& name : args.on) {
    if (is_source(module.data, name) || !is_file(name)) {
      continue;
    }
    XRUN_ASSIGN(const ValueId feature, feature_of(module.graph, args.feature));
    // The key first, since a file without an ending is then a source with that name.
    added.push_back({.key = key_of(name, module, added), .source = name, .value = feature, .verification = spec});
    module.data.sources.push_back({.name = name,
                                   .reader = {"pairs", {{"path", name}, {"root", std::string()}}, Span()},
                                   .directory = "",
                                   .span = Span()});
  }
  const bool has_flags = !args.feature.empty() || args.no_flip || args.folds != VerificationSpec().folds;
  if (has_flags && added.empty()) {
    return usage_error("XG0906", "`--feature`, `--folds` and `--no-flip` are for files of pairs, and `--on` names none",
                       "name a file, --on lfw.bin, or write them into `verification` of the model");
  }
  return added;
}

}  // namespace xrun::cli
