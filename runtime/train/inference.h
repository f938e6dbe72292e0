// Evaluation and prediction: the plan's inference program over rows in their own order.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/module.h"
#include "runtime/train/batch_source.h"
#include "runtime/train/events.h"
#include "runtime/train/session.h"

namespace xrun::runtime {

struct Evaluation {
  std::vector<Measured> metrics;
  std::vector<MeasuredSource> sources;
  // The broken rows of each source, in the order of the sources; a row's number is that of its sample.
  std::vector<std::pair<std::string, std::vector<BrokenRow>>> broken;
};

// A value to measure on a source: `eval` of the train spec lists them; without `eval`, its `metrics` are measured on
// every source. The key of a metric without a source of its own is the source's name, or "source.metric" if there are
// several.
struct Measure {
  std::string key;
  std::string source;
  ValueId value;
  int64_t neighbours = 0;  // MetricSpec::neighbours
};
std::vector<Measure> measures_of(const TrainSpec& train, const std::vector<std::string>& sources);

// Runs samples [first, first + rows) batch by batch; while the session computes one batch, the next one is read into
// the next position of the ring, beginning with the first position. The last batch is filled up with zero rows. After
// each batch, calls body(done, count): the first `count` rows of the session's results then belong to samples
// first + done, ... `stop` is checked before each batch but the first. Errors: those of reading, of steps and of the
// body, in the order of the batches; kInterrupted after `stop` is set.
using BatchBody = std::function<Status(int64_t done, int64_t count)>;
Status run_rows(Session& session, RowSource& source, int64_t first, int64_t rows, const BatchBody& body,
                const std::atomic<bool>* stop = nullptr);

// Functions below that take `events` report their progress to it before each batch and at the end.

// Runs all rows of the sources and returns the means of their measures and the measures of whole sources. Broken
// samples, and the zero rows that fill the last step, are not counted. `stop` is checked before each batch. Errors:
// kInterrupted when it is set; XG0408 if no sample of a source can be read. `seen` is called after each batch, while
// the session holds the results of samples [done, done + count) of the source, and `broken_rows` of the source lists
// the broken ones among them.
using RowsSeen = std::function<Status(RowSource& source, int64_t done, int64_t count)>;
Result<Evaluation> evaluate(Session& session, const std::vector<RowSource*>& sources, EventSink* events = nullptr,
                            const std::atomic<bool>* stop = nullptr, const RowsSeen& seen = {});

// Runs samples [first, first + rows) and calls body(done, count) as run_rows does. Here and below, results of the rows
// listed in `broken` are meaningless; if it is null, a broken sample is an error (XG0412).
Status predict_rows(Session& session, RowSource& source, int64_t first, int64_t rows, EventSink* events,
                    std::vector<BrokenRow>* broken, const BatchBody& body);

// Copies the rows of one output, such as features or dense logits, for samples [first, first + rows) into `out`;
// a row has row_elements · (size of the value's dtype) bytes.
Status predict(Session& session, RowSource& source, ValueId value, int64_t first, int64_t rows,
               std::span<std::byte> out, EventSink* events = nullptr, std::vector<BrokenRow>* broken = nullptr);
// Like `predict`, but as f32 [rows, row elements], in the order of the dimensions whatever the layout.
Result<std::vector<float>> predict_floats(Session& session, RowSource& source, ValueId value, int64_t first,
                                          int64_t rows, EventSink* events = nullptr,
                                          std::vector<BrokenRow>* broken = nullptr);

}  // namespace xrun::runtime
