// The text from which the math digest is computed: everything that determines the learned weights, without placement
// and metrics.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/module.h"
#include "graph/settings/run_spec.h"

namespace xrun::lang {

// The graph with its loss, the training source, the bindings, and the lines of the settings of `train`
// (SettingDef::math). Checkpoints and plans store the digest, so the text of a given model must never change.
std::string math_text(const Module& module, const RunSpec& run = {});
// The text for which earlier versions computed the digest: times `at` of a curve `steps` are counted from the start of
// that curve (earlier_math_digest, lang/frontend.h).
std::string earlier_math_text(const Module& module, const RunSpec& run);
// A part of the text, with the name of its origin: "model", "data.image", "train.batch".
struct MathPart {
  std::string what;
  std::string text;
};
std::vector<MathPart> math_parts(const Module& module, const RunSpec& run);

// The lines of the math text for settings that need more than a key and a value (SettingDef::math).
std::string clip_line(const TrainSpec& train);
std::string batch_line(const TrainSpec& train);
std::string rate_lines(const TrainSpec& train);
std::string group_lines(const TrainSpec& train);
std::string class_weight_line(const TrainSpec& train);
std::string active_line(const TrainSpec& train);
std::string compress_line(const TrainSpec& train);
std::string freeze_lines(const TrainSpec& train);

// Numbers, spans and calls in the shortest form that reads back exactly.
std::string exact(double number);
std::string exact(const TrainSpan& span);
std::string exact(const CallSpec& call);
// The line of the optimizer. An optimizer whose rule and states are those of `sgd` or `adamw` has the line of `sgd` or
// `adamw`, whatever its own name is. Any other optimizer has a line with its name, its arguments and its rule.
std::string optimizer_line(const TrainSpec& train);
// The file name of a path: the math text has no directories.
std::string without_directory(const std::string& path);

}  // namespace xrun::lang
