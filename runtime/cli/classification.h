// Which class was taken for which, counted while a checkpoint is evaluated, and what `eval` tells of it
// (docs/command.md, "Evaluation by class").
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cli/options.h"
#include "runtime/cli/ranking.h"
#include "runtime/train/inference.h"

namespace xrun::cli {

struct WrongSample {
  std::string name;
  int64_t label = 0;
  int64_t predicted = 0;
  float probability = 0;  // of the predicted class
};

// Of one source.
struct SourceClasses {
  std::string source;
  std::map<std::pair<int64_t, int64_t>, int64_t> pairs;  // (class, predicted class) -> samples
  std::vector<WrongSample> wrong;                        // in the order of the samples
};

// A class of a source: how many of its samples were right, and what the others were taken for.
struct ClassCount {
  int64_t label = 0;
  int64_t samples = 0;
  int64_t right = 0;
  int64_t predicted = 0;   // samples of any class that were taken for it
  int64_t taken_for = -1;  // most often, of other classes; the lower one of two; -1: never wrong
  int64_t taken = 0;
};
// Classes that have samples or were predicted, in order.
std::vector<ClassCount> count_classes(const SourceClasses& source);

// Threads: one.
class Classification {
 public:
  // REQUIRES: the session outlives it. `label`: the input that holds the class.
  Classification(const runtime::Session& session, const runtime::ClassScores& from, std::string label)
      : reader_(session, from), label_(std::move(label)) {}

  // The rows of a batch that was just evaluated. Errors: those of reading.
  Status add(runtime::RowSource& source, int64_t done, int64_t count);

  const std::vector<SourceClasses>& sources() const { return sources_; }

 private:
  runtime::BestReader reader_;
  std::string label_;
  std::vector<SourceClasses> sources_;
};

// The classes of a source as text, the worst first and at most 20, and all of them as JSON.
std::string per_class_text(const SourceClasses& source, const ClassNames& names);
nlohmann::ordered_json per_class_json(const SourceClasses& source, const ClassNames& names);

// Whether the files that `args` names can be written, before anything is measured. Errors: XG0901.
Status check_class_files(const EvalArgs& args);
// Writes them. Errors: XG0901; then nothing is left of them.
Status write_class_files(const EvalArgs& args, const std::vector<SourceClasses>& sources, const ClassNames& names);
std::string wrong_path(const EvalArgs& args);  // DIR/wrong.tsv

}  // namespace xrun::cli
