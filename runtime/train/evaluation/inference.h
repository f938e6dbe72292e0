// Evaluation and prediction: run the plan's inference program on the rows of a source, in the order of the source.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/layouts/verification_spec.h"
#include "graph/module.h"
#include "runtime/train/events/events.h"
#include "runtime/train/session/batch_source.h"
#include "runtime/train/session/session.h"

namespace xrun::runtime {

struct Evaluation {
  std::vector<Measured> metrics;
  std::vector<MeasuredSource> sources;
  std::vector<VerifiedPairs> verified;  // details of the metrics that are `verification`
  // The name and the broken rows of each source, in the order of the sources. BrokenRow::row is the number of the
  // sample in the source.
  std::vector<std::pair<std::string, std::vector<BrokenRow>>> broken;
};

// A metric or loss to measure on a source. They are listed in `eval` of the train spec; without `eval`, the `metrics`
// are measured on every source, and the key of a measure is then the name of the source, or "source.metric" if there
// are several metrics.
struct Measure {
  std::string key;
  std::string source;
  ValueId value;
  int64_t neighbours = 0;  // value of MetricSpec::neighbours
  // Set if the measure compares pairs; `value` is then their features [N, D].
  std::optional<VerificationSpec> verification;
};

// Measures in addition to those that the module lists.
struct WantedMeasures {
  std::vector<Measure> own;  // measures of sources that the module does not measure; only they apply to their sources
  // The user has named the sources, so each is measured: a metric without a source also reads `train`, and a source
  // that no metric reads gets the verifications if it has pairs, else all other metrics, with keys as if there were no
  // `eval`.
  bool all = false;
};
std::vector<Measure> measures_of(const Module& module, const std::vector<std::string>& sources,
                                 const WantedMeasures& wanted = {});

// Checks that a source has what `verification` needs. Errors: XG0420 the source has no pairs, or an odd number of
// samples that form pairs; XG0214 it has fewer pairs than folds.
struct SourceOfPairs {
  int64_t samples = 0;
  bool has_same = false;                     // whether it has the field kPairField
  const TemplatePairs* templates = nullptr;  // null: it has no templates
};
Status check_pairs(std::string_view name, const SourceOfPairs& source, const VerificationSpec& spec);

// Runs samples [first, first + rows) batch by batch, and calls body(done, count) after each batch: the first `count`
// rows of the session's results then belong to samples first + done, first + done + 1, ... While the session computes
// one batch, the next batch is read into the next slot of the ring. The last batch is filled up with zero rows. `stop`
// is checked before each batch but the first. Errors: those of reading, of steps and of the body, in the order of the
// batches; kInterrupted after `stop` is set.
using BatchBody = std::function<Status(int64_t done, int64_t count)>;
Status run_rows(Session& session, RowSource& source, int64_t first, int64_t rows, const BatchBody& body,
                const std::atomic<bool>* stop = nullptr);

// Functions below with an argument `events` report their progress to it before each batch and at the end.

// Runs all rows of the sources and returns the results of their measures. Broken samples, and the zero rows that fill
// the last step, are not counted. `stop` is checked before each batch. `seen` is called after each batch, while the
// session holds the results of samples [done, done + count) of the source; `broken_rows` of the source then lists the
// broken samples of the batch. `wanted`: as in measures_of. Errors: kInterrupted when `stop` is set; XG0408 if no
// sample of a source can be read.
using RowsSeen = std::function<Status(RowSource& source, int64_t done, int64_t count)>;
Result<Evaluation> evaluate(Session& session, const std::vector<RowSource*>& sources, EventSink* events = nullptr,
                            const std::atomic<bool>* stop = nullptr, const RowsSeen& seen = {},
                            const WantedMeasures& wanted = {});

// Runs samples [first, first + rows) and calls body(done, count) like run_rows. This function and the next two add
// broken samples to `broken`, and the results in their rows are meaningless; if `broken` is null, a broken sample is an
// error (XG0412).
Status predict_rows(Session& session, RowSource& source, int64_t first, int64_t rows, EventSink* events,
                    std::vector<BrokenRow>* broken, const BatchBody& body);

// Copies the rows of one output, such as features or dense logits, for samples [first, first + rows) into `out`;
// a row has row_elements · (size of the value's dtype) bytes.
Status predict(Session& session, RowSource& source, ValueId value, int64_t first, int64_t rows,
               std::span<std::byte> out, EventSink* events = nullptr, std::vector<BrokenRow>* broken = nullptr);
// Like `predict`, but returns f32 [rows, row elements], in the order of the dimensions whatever the layout in memory.
Result<std::vector<float>> predict_floats(Session& session, RowSource& source, ValueId value, int64_t first,
                                          int64_t rows, EventSink* events = nullptr,
                                          std::vector<BrokenRow>* broken = nullptr);

}  // namespace xrun::runtime
