// The stable text of a checked module, `--emit checked`: each declaration with every default written out.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/module.h"
#include "graph/run_spec.h"

namespace xrun::lang {

// Settings and specs in the order of the language's tables; of the graph its inputs, outputs, heads and sizes (the
// whole graph is `--emit module`, graph/print.h). Paths are as written.
std::string print_module(const Module& module, const RunSpec& run = {});

// The value of a setting of `train` as print_module shows it, "train.lr"; empty for what has no line of its own.
std::string setting_text(const Module& module, const std::string& path);

// What the groups say, a setting each: "groups.id.weights", "bf16".
std::vector<std::pair<std::string, std::string>> group_settings(const TrainSpec& train);

}  // namespace xrun::lang
