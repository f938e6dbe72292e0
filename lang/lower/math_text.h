// The text that the math digest is taken over: what is learned (R1), and nothing of where, how fast or how observed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/module.h"
#include "graph/run_spec.h"

namespace xrun::lang {

// The graph with its loss, the training source, the bindings, and of `train` what its settings' records say
// (SettingDef::math). Checkpoints and plans keep the digest: the text of a model never changes.
std::string math_text(const Module& module, const RunSpec& run = {});
// The same in parts, by the setting that each comes from: "model", "data.image", "train.batch".
struct MathPart {
  std::string what;
  std::string text;
};
std::vector<MathPart> math_parts(const Module& module, const RunSpec& run);

// How the text writes numbers, spans and calls: in the shortest form that reads back exactly.
std::string exact(double number);
std::string exact(const TrainSpan& span);
std::string exact(const CallSpec& call);
// Files count by their names and not by the directories that they lie in.
std::string without_directory(const std::string& path);

}  // namespace xrun::lang
