#include "runtime/train/evaluation/source_measures.h"

#include <algorithm>
#include <numeric>

#include "graph/base/errors.h"
#include "graph/layouts/partial_labels.h"

namespace xrun::runtime {
namespace {

// The number of threads of this process; with several ranks, the number of one of its devices.
int threads_of(Session& session) {
  const std::vector<int>& threads = session.program().threads;
  return session.communicator() != nullptr ? threads[0] : std::accumulate(threads.begin(), threads.end(), 0);
}

}  // namespace

SourceMeasures::SourceMeasures(Session& session, const RowSource& source, const std::vector<Measure>& all)
    : session_(session), source_(source) {
  const Module& module = session.module();
  for (const Measure& measure : all) {
    if (measure.source == source.name()) {
      const int64_t dim = module.graph.value(measure.value).type.row_elements() - 2;
      all_.push_back(
          {measure, label_of(module.graph, module.data, measure.value), {}, Recall(dim, measure.neighbours)});
    }
  }
}

// Returns the number of labels of each row: 0 for broken rows, else 1 if `label` is not a partial label.
std::vector<int32_t> SourceMeasures::labels_of(const std::string& label, int64_t count) const {
  const auto labels = source_.labelled(label);
  std::vector<int32_t> counted(static_cast<size_t>(count), 1);
  if (!labels.empty()) {
    std::copy_n(labels.begin(), count, counted.begin());
  }
  for (const BrokenRow& row : source_.broken_rows()) {
    counted[static_cast<size_t>(row.row)] = 0;
  }
  return counted;
}

Status SourceMeasures::add(int64_t count) {
  for (One& one : all_) {
    const std::vector<int32_t> labels = labels_of(one.label, count);
    const bool is_recall = one.measure.neighbours > 0;
    const int64_t width = is_recall ? session_.module().graph.value(one.measure.value).type.row_elements() : 1;
    rows_.resize(static_cast<size_t>(session_.program().batch * width));
    XRUN_TRY(session_.read_rows(one.measure.value, std::as_writable_bytes(std::span(rows_))));
    if (!is_recall) {
      one.mean.add(std::span(rows_).first(labels.size()), labels);
      continue;
    }
    for (size_t row = 0; row < labels.size(); ++row) {
      if (labels[row] > 0) {
        one.recall.add(rows_.data() + static_cast<int64_t>(row) * width);
      }
    }
    one.mean.add(std::vector<float>(labels.size()), labels);  // weights each row by its number of labels
  }
  return {};
}

Status SourceMeasures::count_labels(const One& one, MeasuredSource& counts) const {
  if (one.label.empty() || std::ranges::find(counts.labels, one.label, &LabelCount::input) != counts.labels.end()) {
    return {};
  }
  if (one.mean.count() == 0) {
    return content_error("XG0425", {"no sample of source `{}` has a `{}` to compare with", counts.name, one.label},
                         {"measure it on another source, or check `ignore` in the binding of `{}`", one.label});
  }
  const Graph& graph = session_.module().graph;
  const auto input = std::ranges::find(graph.inputs, one.label, &NamedValue::name);
  const int64_t positions = graph.value(input->value).type.row_elements();
  counts.labels.push_back({one.label, one.mean.count(), counts.samples * positions, positions > 1});
  return {};
}

Status SourceMeasures::finish(StopFlag stop, MeasuredSource& counts, Evaluation& evaluation) const {
  for (const One& one : all_) {
    XRUN_TRY(count_labels(one, counts));
    double value = one.mean.value();
    if (one.measure.neighbours > 0) {
      const Result<double> recall = one.recall.measure(threads_of(session_), stop);
      XRUN_TRY(session_.agree(recall.ok() ? Status() : Status(recall.error())));
      value = recall.value();
    }
    evaluation.metrics.push_back({one.measure.key, value, counts.synthetic});
  }
  return {};
}

}  // namespace xrun::runtime
