// The choices of a caller of the frontend: registries, `--run`, `--set`, `--cluster`, `--schedule`, and bounds on
// its work.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/layouts/norm_group.h"
#include "graph/op_def.h"
#include "graph/settings/reader_def.h"
#include "graph/settings/set_value.h"

namespace xrun::lang {

class CleanTrials;
class Facts;
using Texts = std::map<std::string, std::string>;  // texts of files by path, without `.` and `..`

struct FrontendOptions {
  const OpRegistry* ops = nullptr;     // registry of operators; required
  const DataRegistry* data = nullptr;  // null: data_registry()
  NormOf norm_of = nullptr;            // null: norms within a sample are not checked
  std::string run;                     // --run NAME; empty: the only `run`, or the only declaration of each kind
  // The flags --set PATH=VALUE in the order given. A path with dots, such as "train.lr" or "schedule.shard.id.over", is
  // a setting of the chosen declaration, which is created if it does not exist. A plain name is an option that the main
  // file declares or uses. The value is an expression; for a string option, a value that does not begin with a quote is
  // the string itself.
  std::vector<SetValue> sets;
  std::string cluster;     // --cluster FILE[:NAME]
  std::string schedule;    // --schedule FILE[:NAME]
  Facts* facts = nullptr;  // filled with findings about spans (lang/elaborate/facts.h); null: not needed
  // The trials of earlier checks with equal options (lang/elaborate/trials/clean_trials.h). This check skips them and
  // adds its own. May be null.
  CleanTrials* clean_trials = nullptr;
  const Texts* open = nullptr;  // texts that `load` uses instead of those on disk; may be null
  bool is_stored = false;       // the text is from a checkpoint: faults that only affect training are accepted
  bool f32_inputs = false;      // inputs of bf16 and f16 become f32, as in an exported file
  bool strict = false;          // warn about an unlabelled operator with parameters that has an unlabelled sibling
  // Bounds of an elaboration, so that it always ends soon: max_nodes bounds the operators, tensors and parameters of a
  // graph; max_steps bounds the steps of evaluation of the model, its tests and uncalled declarations together. Adding
  // an operator to a graph also costs steps. Exceeding a bound is an error (XG0216).
  int64_t max_nodes = 4'000'000;
  int64_t max_steps = 64'000'000;
};

}  // namespace xrun::lang
