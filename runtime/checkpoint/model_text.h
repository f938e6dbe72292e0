// The text of the model that a checkpoint was trained from, as the run had read it, with the flags that decide what it
// means: a checkpoint is evaluated from it alone, and compared with other texts by it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/base/result.h"
#include "runtime/checkpoint/manifest.h"

namespace xrun::runtime {

struct ModelText {
  std::vector<std::pair<std::string, std::string>> files;  // path and text: the model, then what it imports
  // Name and value in the order of the command line: "file", "run", "cluster", "schedule", "deterministic",
  // "set PATH".
  std::vector<std::pair<std::string, std::string>> options;
};

inline constexpr std::string_view kModelFile = "model.json";  // of a step directory

std::string print_model_text(const ModelText& text);

// Checkpoints of earlier formats have none.
bool has_model_text(const Manifest& manifest);

// Of the step directory at `path`. Errors: XG0716 a checkpoint of an earlier format holds none; XG0710 it is damaged.
Result<ModelText> read_model_text(const std::string& path, const Manifest& manifest);

}  // namespace xrun::runtime
