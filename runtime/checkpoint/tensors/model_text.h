// Stores the source text of the model in its checkpoints, with the options that affect its meaning. So a checkpoint can
// be evaluated without other files, and its model can be compared with that of a run.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/base/result.h"
#include "runtime/checkpoint/files/manifest.h"

namespace xrun::runtime {

struct ModelText {
  std::vector<std::pair<std::string, std::string>> files;  // path and text of each file, first the model
  // Name and value in the order of the command line: "file", "run", "cluster", "schedule", "deterministic",
  // "set PATH".
  std::vector<std::pair<std::string, std::string>> options;
};

inline constexpr std::string_view kModelFile = "model.json";  // the file's name in a step directory

std::string print_model_text(const ModelText& text);

// Whether the checkpoint contains the text of its model; false for checkpoints of earlier formats.
bool has_model_text(const Manifest& manifest);

// Reads the text from the step directory at `path`. Errors: XG0716 the checkpoint has an earlier format, without the
// text; XG0710 the file is damaged; XG0713.
Result<ModelText> read_model_text(const std::string& path, const Manifest& manifest);

}  // namespace xrun::runtime
