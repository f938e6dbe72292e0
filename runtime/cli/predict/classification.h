// Counts how often each class was predicted as which class while a checkpoint is evaluated, and reports these counts
// for `eval` (docs/reference/command/eval.md, "Evaluation by class").
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cli/console/options.h"
#include "runtime/cli/predict/ranking.h"
#include "runtime/train/evaluation/inference.h"
#include "runtime/train/state/class_tables.h"

namespace xrun::cli {

struct WrongSample {
  std::string name;
  int64_t label = 0;
  int64_t predicted = 0;
  float probability = 0;  // probability of the predicted class
};

// The predictions for one source by one head, or by one output of logits.
struct SourceClasses {
  std::string source;
  std::string head;  // empty if the model has one head
  ClassNames names;
  std::map<std::pair<int64_t, int64_t>, int64_t> pairs;  // (class, predicted class or -1: NaN) -> samples
  std::vector<WrongSample> wrong;                        // misclassified samples, in the order of the source
};

// A class of a source: how many of its samples were classified correctly, and the most frequent mistake.
struct ClassCount {
  int64_t label = 0;
  int64_t samples = 0;
  int64_t right = 0;
  int64_t predicted = 0;   // number of samples of any class for which this class was predicted
  int64_t taken_for = -1;  // the most frequent wrong prediction, in a tie the lowest; -1: no mistake, or NaN logits
  int64_t taken = 0;
};
// Classes that have samples or were predicted, by number.
std::vector<ClassCount> count_classes(const SourceClasses& source);

// Threads: an object is used by one thread.
class Classification {
 public:
  // Compares the logits of each ranking with its label. REQUIRES: the session outlives the object.
  Classification(const runtime::Session& session, const std::vector<Ranking>& rankings,
                 const runtime::ClassTables& tables);

  // Adds the rows of a batch that was just evaluated. Errors: those of reading.
  Status add(runtime::RowSource& source, int64_t done, int64_t count);

  // The results by source, in the order of the rankings.
  const std::vector<SourceClasses>& sources() const { return sources_; }

 private:
  // One ranking: `reader` reads the best classes of a batch's rows, which `add` adds to a SourceClasses.
  struct Part {
    runtime::BestReader reader;
    std::string head;
    std::string label;
    ClassNames names;
  };
  static Status add(Part& part, runtime::RowSource& source, int64_t done, int64_t count, SourceClasses& classes);

  std::vector<Part> parts_;
  std::vector<SourceClasses> sources_;
};

// The classes of a source. The text shows at most 20 classes with samples, the worst first; the JSON has all classes.
std::string per_class_text(const SourceClasses& source);
nlohmann::ordered_json per_class_json(const SourceClasses& source);

// Checks before the evaluation whether the files that `args` names can be written. Errors: XG0901.
Status check_class_files(const EvalArgs& args);
// Writes these files. Errors: XG0901; existing files then keep their contents, and no new file is left behind.
Status write_class_files(const EvalArgs& args, const std::vector<SourceClasses>& sources);
std::string wrong_path(const EvalArgs& args);  // DIR/wrong.tsv

}  // namespace xrun::cli
