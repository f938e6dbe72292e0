// Values of settings as texts of the language, from the module to which they were lowered. The records of the settings
// (setting_def.cpp) refer to these functions; an empty text means a setting that is not set and has no default.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "graph/module.h"
#include "graph/settings/run_spec.h"
#include "lang/lower/setting_def.h"

namespace xrun::lang {

// A number in the shortest form that reads back exactly: "0.1", "1".
std::string number_text(double number);
std::string size_text(Bytes bytes);  // "4GiB", "1000B"
std::string call_text(const CallSpec& call);
std::string paths_text(const std::vector<std::string>& paths);

std::string show_batch(const SettingDef& def, const Shown& shown);
std::string show_duration(const SettingDef& def, const Shown& shown);
std::string show_optimizer(const SettingDef& def, const Shown& shown);
std::string show_rate(const SettingDef& def, const Shown& shown);
std::string show_freeze(const SettingDef& def, const Shown& shown);
std::string show_precision(const SettingDef& def, const Shown& shown);
std::string show_clip(const SettingDef& def, const Shown& shown);
std::string show_init(const SettingDef& def, const Shown& shown);
std::string show_class_weights(const SettingDef& def, const Shown& shown);
std::string show_metrics(const SettingDef& def, const Shown& shown);
std::string show_eval_every(const SettingDef& def, const Shown& shown);
std::string show_prometheus(const SettingDef& def, const Shown& shown);
std::string show_save_every(const SettingDef& def, const Shown& shown);
std::string show_copy(const SettingDef& def, const Shown& shown);
std::string show_directory(const SettingDef& def, const Shown& shown);
std::string show_best(const SettingDef& def, const Shown& shown);
std::string show_active(const SettingDef& def, const Shown& shown);
std::string show_compress(const SettingDef& def, const Shown& shown);
std::string show_ema(const SettingDef& def, const Shown& shown);
std::string show_stop(const SettingDef& def, const Shown& shown);
std::string show_network(const SettingDef& def, const Shown& shown);
std::string show_recompute(const SettingDef& def, const Shown& shown);
std::string show_pipeline(const SettingDef& def, const Shown& shown);
std::string show_over(const SettingDef& def, const Shown& shown);
// The text of a setting that is checked and has only one value.
std::string show_default(const SettingDef& def, const Shown& shown);

}  // namespace xrun::lang
