// Tests: tests/runtime/train/trainer_test.cpp
#include "runtime/train/evaluation/inference.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <iterator>

#include "graph/base/check.h"
#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "graph/settings/pair_fields.h"
#include "graph/settings/template_pairs.h"
#include "ops/simd/convert.h"
#include "runtime/train/evaluation/mirror.h"
#include "runtime/train/evaluation/source_measures.h"
#include "runtime/train/session/broken_samples.h"

namespace xrun::runtime {
namespace {

void tell(EventSink* events, Work work, const RowSource& source, int64_t done, int64_t total) {
  if (events != nullptr) {
    events->on(WorkEvent{.work = work, .subject = source.name(), .done = done, .total = total});
  }
}

// Cancels reading when it is destroyed, so that after run_rows has returned, possibly with an error, nothing is written
// into the ring.
class Reading {
 public:
  explicit Reading(RowSource& source) : source_(source) {}
  ~Reading() { source_.cancel(); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

 private:
  RowSource& source_;
};

const BatchView& position_of(std::span<const BatchView> ring, int64_t batch) {
  return ring[static_cast<size_t>(batch) % ring.size()];
}

// Zeroes the rows of a batch from row `first` on.
void zero_rows(const Session& session, const BatchView& batch, int64_t first) {
  const Graph& graph = session.module().graph;
  const planner::Program& program = session.program();
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    if (batch.inputs[i] != nullptr) {
      const Bytes row = graph.value(graph.inputs[i].value).type.bytes(1, program.norm_rows);
      std::fill_n(batch.inputs[i] + row * first, row * (program.batch - first), std::byte{0});
    }
  }
}

// Adds the broken rows of the batch that was read last to `to`; `done` rows were read before that batch.
Status add_broken(const RowSource& source, int64_t done, std::vector<BrokenRow>* to) {
  for (const BrokenRow& row : source.broken_rows()) {
    if (to == nullptr) {
      return content_error("XG0412", row.message, "replace it, or leave it out");
    }
    to->push_back(row);
    to->back().row += done;
  }
  return {};
}

Status look_for(const std::atomic<bool>* stop) {
  return stop != nullptr && stop->load(std::memory_order_relaxed)
             ? Status(Error{ErrorKind::kInterrupted, "", "the evaluation was interrupted", "run again"})
             : Status();
}

bool is_synthetic(const Module& module, const RowSource& source) {
  const std::vector<std::string> names = synthetic_sources(module.data);
  return std::find(names.begin(), names.end(), source.name()) != names.end();
}

}  // namespace

Status run_rows(Session& session, RowSource& source, int64_t first, int64_t rows, const BatchBody& body,
                const std::atomic<bool>* stop) {
  const std::span<const BatchView> ring = session.ring();
  const int64_t batch = session.program().batch;
  const Reading reading(source);
  const auto begin = [&](int64_t done) {
    if (done < rows) {
      source.begin(first + done, std::min(batch, rows - done), position_of(ring, done / batch));
    }
  };
  begin(0);
  for (int64_t done = 0; done < rows; done += batch) {
    const int64_t count = std::min(batch, rows - done);
    XRUN_TRY(finish_rows(source, session.peers(), done > 0 ? look_for(stop) : Status()));
    zero_rows(session, position_of(ring, done / batch), count);
    const bool ahead = ring.size() > 1;  // with a single slot, reading waits until the slot's batch has been computed
    if (ahead) {
      begin(done + batch);
    }
    XRUN_TRY(session.step(0, 0, static_cast<int>(done / batch % std::ssize(ring))));
    XRUN_TRY(body(done, count));
    if (!ahead) {
      begin(done + batch);
    }
  }
  return {};
}

namespace {

// Adds metrics, each value once, for a source that the user has named and no metric reads: the verifications for a
// source of pairs, all others for another source.
void add_asked(const Module& module, const std::string& source, std::vector<Measure>& measures) {
  const bool verifies = has_pairs(module.data, source);
  std::vector<const MetricSpec*> distinct;
  for (const MetricSpec& metric : module.train.measured()) {
    const bool known = std::ranges::any_of(distinct, [&](const MetricSpec* one) {
      return one->value == metric.value && one->neighbours == metric.neighbours;
    });
    if (!known && verification_of(module.graph, metric.value).has_value() == verifies) {
      distinct.push_back(&metric);
    }
  }
  for (const MetricSpec* metric : distinct) {
    const std::string key = distinct.size() == 1 ? source : source + "." + metric->name;
    measures.push_back({key, source, metric->value, metric->neighbours, verification_of(module.graph, metric->value)});
  }
}

}  // namespace

std::vector<Measure> measures_of(const Module& module, const std::vector<std::string>& sources,
                                 const WantedMeasures& wanted) {
  const std::vector<Measure>& own = wanted.own;
  const std::vector<MetricSpec>& metrics = module.train.measured();
  std::vector<Measure> measures;
  std::ranges::copy_if(own, std::back_inserter(measures),
                       [&](const Measure& one) { return std::ranges::find(sources, one.source) != sources.end(); });
  for (const MetricSpec& metric : metrics) {
    for (const std::string& source : sources) {
      const bool reads = metric.reads(source) || (wanted.all && metric.source.empty());
      if (!reads || std::ranges::find(own, source, &Measure::source) != own.end()) {
        continue;
      }
      const bool has_own_name = !metric.source.empty();
      const std::string key = has_own_name ? metric.name : metrics.size() == 1 ? source : source + "." + metric.name;
      measures.push_back({key, source, metric.value, metric.neighbours, verification_of(module.graph, metric.value)});
    }
  }
  for (size_t i = 0; wanted.all && i < sources.size(); ++i) {
    if (std::ranges::find(measures, sources[i], &Measure::source) == measures.end()) {
      add_asked(module, sources[i], measures);
    }
  }
  return measures;
}

Status check_pairs(std::string_view name, const SourceOfPairs& source, const VerificationSpec& spec) {
  const bool has_templates = source.templates != nullptr;
  if (!has_templates && !source.has_same) {
    return content_error("XG0420", {"the samples of source `{}` are not pairs: it has no field `{}`", name, kPairField},
                         "measure a source of pairs: source lfw = pairs(\"lfw.bin\")");
  }
  if (!has_templates && source.samples % 2 != 0) {
    return content_error("XG0420", {"source `{}` has {} samples, so the last one has no partner", name, source.samples},
                         "write the file again, with two pictures for each pair");
  }
  const int64_t pairs = has_templates ? std::ssize(source.templates->pairs) : source.samples / 2;
  if (pairs < spec.folds) {
    return content_error("XG0214",
                         {"`verification` divides the pairs of source `{}` into {} folds, but it has {}", name,
                          spec.folds, counted(pairs, "pair")},
                         pairs < 2 ? std::string("write folds=1") : fmt::format("write folds={} or less", pairs));
  }
  return {};
}

namespace {

// Evaluates one source: adds its means, its counts and its broken samples to the evaluation.
Status evaluate_source(Session& session, RowSource& source, const std::vector<Measure>& measures, EventSink* events,
                       const std::atomic<bool>* stop, const RowsSeen& seen, Evaluation& evaluation) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const int64_t samples = source.samples();
  const size_t verified_before = evaluation.verified.size();
  SourceMeasures measured(session, source, measures);
  XRUN_TRY(measured.check());
  std::vector<BrokenRow> broken;
  const auto add_rows = [&](int64_t done, int64_t count) -> Status {
    XRUN_TRY(measured.add(count));
    if (seen) {
      XRUN_TRY(seen(source, done, count));
    }
    if (measured.mirrors()) {
      const std::span<const BatchView> ring = session.ring();
      mirror_pictures(session.module().graph, position_of(ring, done / session.program().batch), count);
      XRUN_TRY(session.step(0, 0, static_cast<int>(done / session.program().batch % std::ssize(ring))));
      XRUN_TRY(measured.add_mirrored(count));
    }
    XRUN_TRY(add_broken(source, done, &broken));
    tell(events, Work::kEvaluate, source, done + count, samples);
    return {};
  };
  XRUN_TRY(session.agree(look_for(stop)));
  tell(events, Work::kEvaluate, source, 0, samples);
  XRUN_TRY(run_rows(session, source, 0, samples, add_rows, stop));
  const int64_t sound = samples - std::ssize(broken);
  if (sound == 0 && !broken.empty()) {
    return content_error(
        "XG0408", {"no sample of source `{}` can be read; the last error: {}", source.name(), broken.back().message},
        "replace the broken files; `xrun check --data` examines all of them");
  }
  MeasuredSource counts{
      std::string(source.name()), sound, std::ssize(broken), is_synthetic(session.module(), source), {}};
  if (events != nullptr && measured.compares_samples()) {
    // The comparison may take much longer than a batch, by which the deadlines of an evaluation are learned. Preparing
    // has none.
    const std::string subject = fmt::format("the results of {}", source.name());
    events->on(WorkEvent{.work = Work::kPrepare, .subject = subject});
  }
  XRUN_TRY(measured.finish(stop, counts, evaluation));
  for (VerifiedPairs& one : std::span(evaluation.verified).subspan(verified_before)) {
    one.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  }
  evaluation.sources.push_back(std::move(counts));
  evaluation.broken.emplace_back(source.name(), std::move(broken));
  return {};
}

}  // namespace

Result<Evaluation> evaluate(Session& session, const std::vector<RowSource*>& sources, EventSink* events,
                            const std::atomic<bool>* stop, const RowsSeen& seen, const WantedMeasures& wanted) {
  std::vector<std::string> names;
  for (const RowSource* source : sources) {
    names.emplace_back(source->name());
  }
  const std::vector<Measure> measures = measures_of(session.module(), names, wanted);
  for (const Measure& measure : measures) {
    session.share(std::span(&measure.value, 1));
  }
  Evaluation evaluation;
  for (RowSource* source : sources) {
    const bool measured = std::any_of(measures.begin(), measures.end(),
                                      [&](const Measure& measure) { return measure.source == source->name(); });
    if (measured) {
      XRUN_TRY(evaluate_source(session, *source, measures, events, stop, seen, evaluation));
    }
  }
  return evaluation;
}

Status predict_rows(Session& session, RowSource& source, int64_t first, int64_t rows, EventSink* events,
                    std::vector<BrokenRow>* broken, const BatchBody& body) {
  tell(events, Work::kPredict, source, 0, rows);
  return run_rows(session, source, first, rows, [&](int64_t done, int64_t count) -> Status {
    XRUN_TRY(body(done, count));
    XRUN_TRY(add_broken(source, done, broken));
    tell(events, Work::kPredict, source, done + count, rows);
    return {};
  });
}

Status predict(Session& session, RowSource& source, ValueId value, int64_t first, int64_t rows,
               std::span<std::byte> out, EventSink* events, std::vector<BrokenRow>* broken) {
  const planner::Program& program = session.program();
  const Bytes row = session.module().graph.value(value).type.bytes(1, program.norm_rows);
  XRUN_CHECK(static_cast<Bytes>(out.size()) >= row * rows, "the memory for predictions is too small");
  std::vector<std::byte> all(static_cast<size_t>(row * program.batch));
  return predict_rows(session, source, first, rows, events, broken, [&](int64_t done, int64_t count) -> Status {
    XRUN_TRY(session.read_rows(value, all));
    std::copy_n(all.begin(), row * count, out.begin() + row * done);
    return {};
  });
}

namespace {

// Converts rows of a tensor [C, H, W] from channels-last to the order of the dimensions.
void to_written_order(const TensorType& type, std::vector<float>& rows) {
  const auto channels = static_cast<size_t>(type.dims[1]);
  const auto row = static_cast<size_t>(type.row_elements());
  const size_t positions = row / channels;
  std::vector<float> lies(row);
  for (auto begin = rows.begin(); begin != rows.end(); begin += static_cast<std::ptrdiff_t>(row)) {
    std::copy_n(begin, row, lies.begin());
    for (size_t c = 0; c < channels; ++c) {
      for (size_t at = 0; at < positions; ++at) {
        begin[static_cast<std::ptrdiff_t>(c * positions + at)] = lies[at * channels + c];
      }
    }
  }
}

}  // namespace

Result<std::vector<float>> predict_floats(Session& session, RowSource& source, ValueId value, int64_t first,
                                          int64_t rows, EventSink* events, std::vector<BrokenRow>* broken) {
  const TensorType& type = session.module().graph.value(value).type;
  const auto elements = static_cast<size_t>(type.row_elements() * rows);
  std::vector<float> out(elements);
  if (type.dtype == DType::kF32) {
    XRUN_TRY(predict(session, source, value, first, rows, std::as_writable_bytes(std::span(out)), events, broken));
  } else {
    XRUN_CHECK(is_narrow(type.dtype), "outputs are numbers that operators compute");
    std::vector<uint16_t> narrow(elements);
    XRUN_TRY(predict(session, source, value, first, rows, std::as_writable_bytes(std::span(narrow)), events, broken));
    ops::convert(ops::Isa::kAvx2, type.dtype, narrow.data(), DType::kF32, out.data(), std::ssize(out));
  }
  if (type.is_channels_last()) {
    to_written_order(type, out);
  }
  return out;
}

}  // namespace xrun::runtime
