#include "runtime/inference.h"

#include <algorithm>
#include <cstring>

#include "graph/base/check.h"

namespace xrun::runtime {
namespace {

// Fills ring slot 0 with rows [first, first + rows) and zeros up to the batch, and runs the program.
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

}  // namespace

std::vector<Measure> measures_of(const TrainSpec& train, const std::vector<std::string>& sources) {
  const std::vector<MetricSpec>& specs = train.eval.empty() ? train.metrics : train.eval;
  std::vector<Measure> measures;
  for (const MetricSpec& spec : specs) {
    if (!spec.source.empty()) {
      measures.push_back({spec.name, spec.source, spec.value});
      continue;
    }
    for (const std::string& source : sources) {
      if (source != "train") {
        measures.push_back({specs.size() == 1 ? source : source + "." + spec.name, source, spec.value});
      }
    }
  }
  return measures;
}

Result<std::vector<std::pair<std::string, double>>> evaluate(Session& session, RowSource& source,
                                                             const std::vector<Measure>& measures) {
  const int64_t batch = session.program().batch;
  const int64_t samples = source.samples();
  std::vector<float> rows(static_cast<size_t>(batch));
  std::vector<double> sums(measures.size(), 0);
  for (int64_t first = 0; first < samples; first += batch) {
    const int64_t count = std::min(batch, samples - first);
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
  std::vector<std::pair<std::string, double>> means;
  for (size_t m = 0; m < measures.size(); ++m) {
    if (measures[m].source == source.name()) {
      means.emplace_back(measures[m].key, samples == 0 ? 0 : sums[m] / static_cast<double>(samples));
    }
  }
  return means;
}

Result<Evaluation> evaluate(Session& session, const std::vector<RowSource*>& sources) {
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
    XRUN_ASSIGN(auto means, evaluate(session, *source, measures));
    evaluation.metrics.insert(evaluation.metrics.end(), means.begin(), means.end());
    evaluation.samples.emplace_back(source->name(), source->samples());
  }
  return evaluation;
}

Status predict(Session& session, RowSource& source, ValueId value, int64_t first, int64_t rows,
               std::span<std::byte> out) {
  const planner::Program& program = session.program();
  const Bytes row = session.module().graph.value(value).type.bytes(1, program.block_rows);
  XRUN_CHECK(static_cast<Bytes>(out.size()) >= row * rows, "the memory for predictions is too small");
  std::vector<std::byte> all(static_cast<size_t>(row * program.batch));
  for (int64_t done = 0; done < rows; done += program.batch) {
    const int64_t count = std::min(program.batch, rows - done);
    XRUN_TRY(run_rows(session, source, first + done, count));
    XRUN_TRY(session.read_rows(value, all));
    std::memcpy(out.data() + row * done, all.data(), static_cast<size_t>(row * count));
  }
  return {};
}

}  // namespace xrun::runtime
