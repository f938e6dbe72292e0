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
  // By source, in their order; rows are samples of the source.
  std::vector<std::pair<std::string, std::vector<BrokenRow>>> broken;
};

// What is measured where: `eval` of the train spec, or its `metrics` on every source when there is no `eval`. The key
// of a metric without a source of its own is the source's name, or "source.metric" where there are several metrics.
struct Measure {
  std::string key;
  std::string source;
  ValueId value;
};
std::vector<Measure> measures_of(const TrainSpec& train, const std::vector<std::string>& sources);

// Runs samples [first, first + rows) batch by batch; while the session computes one batch, the next one is read into
// another position of the ring, from the first on. The last batch is filled with zero rows. After each batch, calls
// body(done, count): the first `count` rows of the session's results are those of samples first + done and on.
// `stop`: looked at before each batch but the first. Errors: those of reading, of steps and of the body, in the order
// of the batches; kInterrupted after `stop` is set.
using BatchBody = std::function<Status(int64_t done, int64_t count)>;
Status run_rows(Session& session, RowSource& source, int64_t first, int64_t rows, const BatchBody& body,
                const std::atomic<bool>* stop = nullptr);

// Where these functions take `events`, they tell it before each batch and at the end how far they are.

// Runs all rows of the sources and gives the means of their measures. Broken samples, and the zero rows that fill the
// last step, are not counted. `stop`: looked at before each batch. Errors: kInterrupted when it is set; XG0408 where no
// sample of a source can be read. `seen` is called after each batch, when the session has the results of samples
// [done, done + count) of the source and the source says which of them are broken.
using RowsSeen = std::function<Status(RowSource& source, int64_t done, int64_t count)>;
Result<Evaluation> evaluate(Session& session, const std::vector<RowSource*>& sources, EventSink* events = nullptr,
                            const std::atomic<bool>* stop = nullptr, const RowsSeen& seen = {});

// Runs samples [first, first + rows) and calls body(done, count) as run_rows does. Here and below, what stands in the
// rows that `broken` gets means nothing; where it is null, a broken sample is the error XG0412.
Status predict_rows(Session& session, RowSource& source, int64_t first, int64_t rows, EventSink* events,
                    std::vector<BrokenRow>* broken, const BatchBody& body);

// Rows of one value for samples [first, first + rows), copied into `out` (row_elements · size of the value's dtype a
// row): outputs such as features or dense logits.
Status predict(Session& session, RowSource& source, ValueId value, int64_t first, int64_t rows,
               std::span<std::byte> out, EventSink* events = nullptr, std::vector<BrokenRow>* broken = nullptr);
// The same as f32, [rows, row elements].
Result<std::vector<float>> predict_floats(Session& session, RowSource& source, ValueId value, int64_t first,
                                          int64_t rows, EventSink* events = nullptr,
                                          std::vector<BrokenRow>* broken = nullptr);

}  // namespace xrun::runtime
