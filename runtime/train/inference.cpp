#include "runtime/train/inference.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "graph/base/check.h"
#include "graph/reader_def.h"

namespace xrun::runtime {
namespace {

void tell(EventSink* events, Work work, const RowSource& source, int64_t done, int64_t total) {
  if (events != nullptr) {
    events->on_work({.work = work, .subject = source.name(), .done = done, .total = total});
  }
}

bool is_synthetic(const Module& module, const RowSource& source) {
  const std::vector<std::string> names = synthetic_sources(module.data);
  return std::find(names.begin(), names.end(), source.name()) != names.end();
}

}  // namespace

Status run_rows(Session& session, RowSource& source, int64_t first, int64_t rows) {
  const Graph& graph = session.module().graph;
  const planner::Program& program = session.program();
  const BatchView& batch = session.ring()[0];
  XRUN_TRY(source.read(first, rows, batch));
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    if (batch.inputs[i] == nullptr) {
      continue;
    }
    const Bytes row = graph.value(graph.inputs[i].value).type.bytes(1, program.block_rows);
    std::memset(batch.inputs[i] + row * rows, 0, static_cast<size_t>(row * (program.batch - rows)));
  }
  return session.step(0, 0, 0);
}

std::vector<Measure> measures_of(const TrainSpec& train, const std::vector<std::string>& sources) {
  const std::vector<MetricSpec>& metrics = train.measured();
  std::vector<Measure> measures;
  for (const MetricSpec& metric : metrics) {
    for (const std::string& source : sources) {
      if (!metric.reads(source)) {
        continue;
      }
      const bool has_own_name = !metric.source.empty();
      const std::string key = has_own_name ? metric.name : metrics.size() == 1 ? source : source + "." + metric.name;
      measures.push_back({key, source, metric.value});
    }
  }
  return measures;
}

Result<std::vector<Measured>> evaluate(Session& session, RowSource& source, const std::vector<Measure>& measures,
                                       EventSink* events, const std::atomic<bool>* stop) {
  const int64_t batch = session.program().batch;
  const int64_t samples = source.samples();
  std::vector<float> rows(static_cast<size_t>(batch));
  std::vector<double> sums(measures.size(), 0);
  for (int64_t first = 0; first < samples; first += batch) {
    if (stop != nullptr && stop->load(std::memory_order_relaxed)) {
      return Error{ErrorKind::kInterrupted, "", "the evaluation was interrupted", "run again"};
    }
    const int64_t count = std::min(batch, samples - first);
    tell(events, Work::kEvaluate, source, first, samples);
    XRUN_TRY(run_rows(session, source, first, count));
    for (size_t m = 0; m < measures.size(); ++m) {
      if (measures[m].source != source.name()) {
        continue;
      }
      XRUN_TRY(session.read_rows(measures[m].value, std::as_writable_bytes(std::span(rows))));
      for (int64_t row = 0; row < count; ++row) {
        sums[m] += static_cast<double>(rows[static_cast<size_t>(row)]);
      }
    }
  }
  tell(events, Work::kEvaluate, source, samples, samples);
  const bool synthetic = is_synthetic(session.module(), source);
  std::vector<Measured> means;
  for (size_t m = 0; m < measures.size(); ++m) {
    if (measures[m].source == source.name()) {
      const double mean = samples == 0 ? 0 : sums[m] / static_cast<double>(samples);
      means.push_back({measures[m].key, mean, synthetic});
    }
  }
  return means;
}

Result<Evaluation> evaluate(Session& session, const std::vector<RowSource*>& sources, EventSink* events,
                            const std::atomic<bool>* stop) {
  std::vector<std::string> names;
  for (const RowSource* source : sources) {
    names.emplace_back(source->name());
  }
  const std::vector<Measure> measures = measures_of(session.module().train, names);
  Evaluation evaluation;
  for (RowSource* source : sources) {
    const bool wanted = std::any_of(measures.begin(), measures.end(),
                                    [&](const Measure& measure) { return measure.source == source->name(); });
    if (!wanted) {
      continue;
    }
    XRUN_ASSIGN(auto means, evaluate(session, *source, measures, events, stop));
    evaluation.metrics.insert(evaluation.metrics.end(), means.begin(), means.end());
    evaluation.sources.push_back(
        {std::string(source->name()), source->samples(), is_synthetic(session.module(), *source)});
  }
  return evaluation;
}

Status predict(Session& session, RowSource& source, ValueId value, int64_t first, int64_t rows,
               std::span<std::byte> out, EventSink* events) {
  const planner::Program& program = session.program();
  const Bytes row = session.module().graph.value(value).type.bytes(1, program.block_rows);
  XRUN_CHECK(static_cast<Bytes>(out.size()) >= row * rows, "the memory for predictions is too small");
  std::vector<std::byte> all(static_cast<size_t>(row * program.batch));
  for (int64_t done = 0; done < rows; done += program.batch) {
    const int64_t count = std::min(program.batch, rows - done);
    tell(events, Work::kPredict, source, done, rows);
    XRUN_TRY(run_rows(session, source, first + done, count));
    XRUN_TRY(session.read_rows(value, all));
    std::memcpy(out.data() + row * done, all.data(), static_cast<size_t>(row * count));
  }
  tell(events, Work::kPredict, source, rows, rows);
  return {};
}

Result<std::vector<float>> predict_floats(Session& session, RowSource& source, ValueId value, int64_t first,
                                          int64_t rows, EventSink* events) {
  const TensorType& type = session.module().graph.value(value).type;
  const auto elements = static_cast<size_t>(type.row_elements() * rows);
  std::vector<float> out(elements);
  if (type.dtype == DType::kF32) {
    XRUN_TRY(predict(session, source, value, first, rows, std::as_writable_bytes(std::span(out)), events));
    return out;
  }
  XRUN_CHECK(type.dtype == DType::kBF16, "outputs are f32 or bf16");
  std::vector<uint16_t> narrow(elements);
  XRUN_TRY(predict(session, source, value, first, rows, std::as_writable_bytes(std::span(narrow)), events));
  std::transform(narrow.begin(), narrow.end(), out.begin(),
                 [](uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); });
  return out;
}

Result<BestClasses> predict_classes(Session& session, RowSource& source, int64_t first, int64_t rows,
                                    EventSink* events) {
  const Graph& graph = session.module().graph;
  const planner::Program& program = session.program();
  const planner::HeadPlan& head = program.heads[0];
  const auto k = static_cast<size_t>(head.top_k);
  const auto batch = static_cast<size_t>(program.batch);
  BestClasses best{.k = head.top_k};
  std::vector<int32_t> classes(batch * k);
  std::vector<float> scores(batch * k);
  for (int64_t done = 0; done < rows; done += program.batch) {
    const int64_t count = std::min(program.batch, rows - done);
    tell(events, Work::kPredict, source, done, rows);
    XRUN_TRY(run_rows(session, source, first + done, count));
    XRUN_TRY(session.read_best(graph.node(head.node).outputs[0], classes, scores));
    const auto kept = static_cast<std::ptrdiff_t>(static_cast<size_t>(count) * k);
    best.classes.insert(best.classes.end(), classes.begin(), classes.begin() + kept);
    best.scores.insert(best.scores.end(), scores.begin(), scores.begin() + kept);
  }
  tell(events, Work::kPredict, source, rows, rows);
  return best;
}

Result<BestClasses> predict_classes(Session& session, RowSource& source, ValueId logits, int64_t first, int64_t rows,
                                    EventSink* events) {
  const auto columns = static_cast<int32_t>(session.module().graph.value(logits).type.row_elements());
  XRUN_ASSIGN(const std::vector<float> values, predict_floats(session, source, logits, first, rows, events));
  BestClasses best{.k = std::min<int64_t>(columns, kMostBest)};
  std::vector<int32_t> order(static_cast<size_t>(columns));
  for (int64_t row = 0; row < rows; ++row) {
    const float* scores = values.data() + row * columns;
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + best.k, order.end(),
                      [&](int32_t a, int32_t b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
    for (int64_t i = 0; i < best.k; ++i) {
      best.classes.push_back(order[static_cast<size_t>(i)]);
      best.scores.push_back(scores[order[static_cast<size_t>(i)]]);
    }
  }
  return best;
}

}  // namespace xrun::runtime
