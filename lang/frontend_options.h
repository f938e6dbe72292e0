// The choices of a caller of the frontend: registries, `--run`, `--set`, `--cluster`, `--schedule`, and bounds of the
// work.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/op_def.h"
#include "graph/reader_def.h"

namespace xrun::lang {

struct FrontendOptions {
  const OpRegistry* ops = nullptr;     // required
  const DataRegistry* data = nullptr;  // null: data_registry()
  std::string run;                     // --run NAME; empty: the only one, or one of each kind
  // --set PATH=VALUE, in the order given. "train.lr", "schedule.shard.id.over": a setting of the chosen declaration,
  // which is made when there is none; a plain name: an option of the main file. A value is an expression; of an option
  // that is a string, what does not begin with a quote is the string itself.
  std::vector<std::pair<std::string, std::string>> sets;
  std::string cluster;   // --cluster FILE[:NAME]
  std::string schedule;  // --schedule FILE[:NAME]
  bool strict = false;   // labels on operators with parameters when an unlabelled sibling exists
  // Bounds of an elaboration, so that it always ends and soon: operators, tensors and parameters of a graph; and steps
  // of evaluation as a whole, of the model, its tests and what nothing calls together. What an operator adds to a graph
  // costs steps, too. More is XG0216.
  int64_t max_nodes = 4'000'000;
  int64_t max_steps = 64'000'000;
};

}  // namespace xrun::lang
