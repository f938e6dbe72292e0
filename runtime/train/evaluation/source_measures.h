// Computes the measures of one source during an evaluation: means over labels, the recall over all samples, and the
// verification of all pairs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/base/stop.h"
#include "runtime/train/evaluation/inference.h"
#include "runtime/train/evaluation/mean_of_rows.h"
#include "runtime/train/evaluation/recall.h"
#include "runtime/train/evaluation/template_features.h"
#include "runtime/train/evaluation/verification.h"

namespace xrun::runtime {

class SourceMeasures {
 public:
  // Selects those of the measures `all` that belong to `source`. The session and the source outlive the object.
  SourceMeasures(Session& session, RowSource& source, const std::vector<Measure>& all);

  // Checks that the source has what its measures need. REQUIRES: all ranks call it. Errors: those of check_pairs and of
  // reading; XG0601 the features and distances of templates, or the features of `recall_at` and their search, do not
  // fit into the memory of the host.
  Status check();
  // Adds the first `count` rows of the batch that the session has just computed, except broken rows and rows without a
  // label. Errors: those of reading.
  Status add(int64_t count);
  // Whether a measure also needs the results for the mirror images of the pictures.
  bool mirrors() const;
  // Adds the results for the mirror images of the rows of the last `add`, which the session has just computed.
  // REQUIRES: `mirrors`. Errors: those of reading.
  Status add_mirrored(int64_t count);
  // Whether `finish` compares samples with one another, which may take long.
  bool compares_samples() const;
  // Adds the results to `evaluation`, and the counts of labels to `counts`. REQUIRES: counts.samples is set; all ranks
  // call it. Errors: XG0425 if a measure has no label to compare with; XG0408 if too many pairs are broken; those of
  // Recall::measure and of reading.
  Status finish(StopFlag stop, MeasuredSource& counts, Evaluation& evaluation);

 private:
  struct One {
    Measure measure;
    std::string label;  // partial label that the measure compares with; empty: it is not a partial label
    MeanOfRows mean;
    Recall recall;                              // used only for recall_at
    PairDistances distances;                    // used only for verification of a source without templates
    std::optional<TemplateFeatures> templates;  // set for verification of a source with templates
    std::vector<float> features;  // features of the last batch, until those of its mirror images are known
  };

  int64_t width_of(ValueId value) const;
  std::vector<int32_t> labels_of(const std::string& label, int64_t count) const;
  Status count_labels(const One& one, MeasuredSource& counts) const;
  // Reads the rows of the last batch, [batch, width], into `to`; narrow numbers become f32.
  Status read(ValueId value, std::vector<float>& to) const;
  void add_pairs(One& one, const std::vector<float>* mirrored, int64_t count) const;
  Status check_verification(const One& one) const;
  Status check_recall(const One& one) const;
  Result<std::vector<ComparedPair>> compare_samples(const PairDistances& distances) const;
  Result<VerifiedPairs> verify(One& one, StopFlag stop) const;

  Session& session_;
  RowSource& source_;
  std::vector<One> all_;
  std::vector<float> rows_;
};

}  // namespace xrun::runtime
