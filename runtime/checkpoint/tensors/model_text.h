// Stores the source text of the model in its checkpoints, with the options that affect its meaning. So a checkpoint can
// be evaluated without other files, and its model can be compared with another one.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/base/result.h"
#include "runtime/checkpoint/files/manifest.h"

namespace xrun::runtime {

struct ModelText {
  std::vector<std::pair<std::string, std::string>> files;  // path and text: the model, then its imports
  // Name and value in the order of the command line: "file", "run", "cluster", "schedule", "deterministic",
  // "set PATH".
  std::vector<std::pair<std::string, std::string>> options;
};

inline constexpr std::string_view kModelFile = "model.json";  // in a step directory

std::string print_model_text(const ModelText& text);

// Whether the checkpoint contains the text of its model; false for earlier formats.
bool has_model_text(const Manifest& manifest);

// Reads the text from the step directory at `path`. Errors: XG0716 an earlier format has no text; XG0710 it is damaged;
// XG0713.
Result<ModelText> read_model_text(const std::string& path, const Manifest& manifest);

}  // namespace xrun::runtime
