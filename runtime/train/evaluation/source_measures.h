// Computes the measures of one source during an evaluation: means over labels, and the recall over all samples.
#pragma once

#include <string>
#include <vector>

#include "graph/base/stop.h"
#include "runtime/train/evaluation/inference.h"
#include "runtime/train/evaluation/mean_of_rows.h"
#include "runtime/train/evaluation/recall.h"

namespace xrun::runtime {

class SourceMeasures {
 public:
  // Selects those of the measures `all` that belong to `source`. The session and the source outlive the object.
  SourceMeasures(Session& session, const RowSource& source, const std::vector<Measure>& all);

  // Adds the first `count` rows of the batch that the session has just computed, except broken rows and rows without a
  // label. Errors: those of reading.
  Status add(int64_t count);
  // Adds the results to `evaluation`, and the counts of labels to `counts`. REQUIRES: counts.samples is set; all ranks
  // call it. Errors: XG0425 if a measure has no label to compare with; those of Recall::measure.
  Status finish(StopFlag stop, MeasuredSource& counts, Evaluation& evaluation) const;

 private:
  struct One {
    Measure measure;
    std::string label;  // partial label that the measure compares with; empty: it is not a partial label
    MeanOfRows mean;
    Recall recall;  // used only for recall_at
  };

  std::vector<int32_t> labels_of(const std::string& label, int64_t count) const;
  Status count_labels(const One& one, MeasuredSource& counts) const;

  Session& session_;
  const RowSource& source_;
  std::vector<One> all_;
  std::vector<float> rows_;
};

}  // namespace xrun::runtime
