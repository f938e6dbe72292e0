// The text that the math digest is computed from: all that decides the learned weights, without placement and metrics.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/module.h"
#include "graph/run_spec.h"

namespace xrun::lang {

// The graph with its loss, the training source, the bindings, and the lines of the settings of `train`
// (SettingDef::math). Checkpoints and plans store the digest, so the text of a given model must never change.
std::string math_text(const Module& module, const RunSpec& run = {});
// The same in parts, each with the name of its origin: "model", "data.image", "train.batch".
struct MathPart {
  std::string what;
  std::string text;
};
std::vector<MathPart> math_parts(const Module& module, const RunSpec& run);

// Numbers, spans and calls as the text has them: in the shortest form that reads back exactly.
std::string exact(double number);
std::string exact(const TrainSpan& span);
std::string exact(const CallSpec& call);
// The file name of a path: the text has no directories.
std::string without_directory(const std::string& path);

}  // namespace xrun::lang
