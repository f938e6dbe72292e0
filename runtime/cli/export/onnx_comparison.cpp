// Tests: tests/runtime/cli/commands/export_test.cpp
#include "runtime/cli/export/onnx_comparison.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "runtime/cli/export/raw_inputs.h"
#include "runtime/cli/predict/ranking.h"
#include "runtime/cluster/stop_signals.h"
#include "runtime/interchange/onnxruntime.h"
#include "runtime/interchange/random_rows.h"
#include "runtime/train/evaluation/best_classes.h"
#include "runtime/train/evaluation/inference.h"

namespace xrun::cli {
namespace {

constexpr uint64_t kSeed = 1;

template <typename T>
std::vector<T> numbers_in(const std::vector<std::byte>& bytes) {
  std::vector<T> numbers(bytes.size() / sizeof(T));
  if (!numbers.empty()) {
    std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(T));
  }
  return numbers;
}

void add(OnnxDifference& to, double ours, double theirs) {
  const double difference = std::abs(ours - theirs);
  to.largest = std::isnan(difference) ? INFINITY : std::max(to.largest, difference);
  to.scale = std::max(to.scale, std::abs(ours));
}

Result<OnnxDifference> compare_numbers(runtime::Session& session, runtime::RandomRows& rows, const std::string& name,
                                       const std::vector<std::byte>& result) {
  const auto& outputs = session.module().graph.outputs;
  const ValueId value = std::ranges::find(outputs, name, &NamedValue::name)->value;
  XRUN_ASSIGN(const auto ours, runtime::predict_floats(session, rows, value, 0, kComparedRows));
  const auto theirs = numbers_in<float>(result);
  OnnxDifference difference{.output = name};
  for (size_t i = 0; i < ours.size(); ++i) {
    add(difference, static_cast<double>(ours[i]), i < theirs.size() ? static_cast<double>(theirs[i]) : NAN);
  }
  return difference;
}

// The logits of a head at the best classes of the model. `classes` is empty if the file gives all logits.
OnnxDifference compare_best(const runtime::BestClasses& ours, const std::string& name, const std::vector<float>& logits,
                            const std::vector<int64_t>& classes) {
  OnnxDifference difference{.output = name, .classes = 0};
  const auto width = static_cast<int64_t>(logits.size()) / kComparedRows;
  for (int64_t r = 0; r < kComparedRows; ++r) {
    const float* const row = logits.data() + r * width;
    const auto first = static_cast<size_t>(r * ours.k);
    const int64_t best =
        classes.empty() ? std::max_element(row, row + width) - row : classes[static_cast<size_t>(r * width)];
    difference.classes += best == ours.classes[first] ? 1 : 0;
    const int64_t at = classes.empty() ? ours.classes[first] : 0;
    add(difference, static_cast<double>(ours.logits[first]), static_cast<double>(row[at]));
  }
  return difference;
}

// The type of an input of the model.
const TensorType& input_type(const Graph& graph, const std::string& name) {
  return graph.value(std::ranges::find(graph.inputs, name, &NamedValue::name)->value).type;
}

}  // namespace

Result<OnnxComparison> compare_with_onnxruntime(const PlannedModel& planned, runtime::Session& session,
                                                const ops::OnnxGraph& graph, const ops::ExportOptions& exported,
                                                const std::string& file, const std::string& folder,
                                                const std::string& python) {
  runtime::RandomRows rows(session.module().graph, kComparedRows, kSeed);
  std::map<std::string, RawInput> raw;
  for (const ops::OnnxPreprocessing& one : graph.preprocessing) {
    XRUN_ASSIGN(RawInput made,
                make_raw_input(one, input_type(session.module().graph, one.input), kComparedRows, kSeed));
    rows.set_rows(one.input, std::move(made.rows));
    raw[one.input] = std::move(made);
  }
  std::vector<runtime::OnnxRunInput> inputs;
  for (const ops::OnnxValue& input : graph.inputs) {
    if (const auto given = raw.find(input.name); given != raw.end()) {
      inputs.push_back({input.name, given->second.given, given->second.dims});
    } else {
      inputs.push_back({input.name, rows.rows_of(input.name), {input.dims.begin() + 1, input.dims.end()}});
    }
  }
  XRUN_ASSIGN(const runtime::OnnxRun run, runtime::run_in_onnxruntime(python, file, graph, inputs, kComparedRows,
                                                                      folder, &StopSignals::requested()));
  OnnxComparison comparison{.why = run.why, .version = run.version};
  if (!run.ran) {
    return comparison;
  }
  const auto result_of = [&](const std::string& name) {
    const auto found = std::ranges::find(graph.outputs, name, &ops::OnnxValue::name);
    return run.outputs[static_cast<size_t>(found - graph.outputs.begin())];
  };
  for (const ops::OnnxValue& output : graph.outputs) {
    const auto& known = session.module().graph.outputs;
    if (output.type == ops::OnnxType::kFloat &&
        std::ranges::find(known, output.name, &NamedValue::name) != known.end()) {
      XRUN_ASSIGN(OnnxDifference difference, compare_numbers(session, rows, output.name, result_of(output.name)));
      comparison.differences.push_back(std::move(difference));
    }
  }
  std::vector<Ranking> rankings;
  if (!exported.heads.empty()) {
    XRUN_ASSIGN(rankings, find_rankings(planned));
  }
  for (const ops::ExportedHead& head : exported.heads) {
    const auto ranking = std::ranges::find(rankings, head.name, &Ranking::name);
    if (ranking == rankings.end()) {
      continue;
    }
    runtime::ClassScores scores = ranking->from;
    scores.k = ranking->most;
    XRUN_ASSIGN(const auto best, runtime::predict_classes(session, rows, {scores}, 0, kComparedRows));
    const auto classes =
        head.topk > 0 ? numbers_in<int64_t>(result_of(head.name + "_classes")) : std::vector<int64_t>();
    comparison.differences.push_back(
        compare_best(best[0], head.name, numbers_in<float>(result_of(head.name + "_logits")), classes));
  }
  return comparison;
}

}  // namespace xrun::cli
