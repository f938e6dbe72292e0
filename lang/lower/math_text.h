// The text that the math digest is taken over: what is learned (R1), and nothing of where, how fast or how observed.
#pragma once

#include <string>
#include <string_view>

#include "graph/module.h"

namespace xrun::lang {

// The graph with its loss, the training source, the bindings, and of `train` what its settings' records say
// (SettingDef::math). Checkpoints and plans keep the digest: the text of a model never changes.
std::string math_text(const Module& module);

// How the text writes numbers, spans and calls: in the shortest form that reads back exactly.
std::string exact(double number);
std::string exact(const TrainSpan& span);
std::string exact(const CallSpec& call);
// Files count by their names and not by the directories that they lie in.
std::string without_directory(const std::string& path);

}  // namespace xrun::lang
