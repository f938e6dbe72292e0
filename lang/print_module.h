// The stable text of a checked module, `--emit checked`: its declarations with defaults written out.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/module.h"
#include "graph/settings/run_spec.h"

namespace xrun::lang {

// Prints the inputs, outputs, heads and sizes of the graph (`--emit module`, graph/print.h, prints all of it), then the
// settings of data, train, cluster and schedule in a fixed order. Paths are as written.
std::string print_module(const Module& module, const RunSpec& run = {});

// The value of a setting of `train`, such as "train.lr", in the form that print_module prints (the length of the run
// with its unit). Empty if the setting has no value.
std::string setting_text(const Module& module, const std::string& path);

// The settings of the groups, each as a path and a value: "groups.id.weights", "bf16".
std::vector<std::pair<std::string, std::string>> group_settings(const Module& module);

}  // namespace xrun::lang
