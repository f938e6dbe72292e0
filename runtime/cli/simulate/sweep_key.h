// The keys over which `xrun simulate` sweeps: options of the file, settings of `cluster`, `schedule` and `train`, and
// the number of devices.
#pragma once

#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/module.h"
#include "lang/syntax/loader.h"

namespace xrun::cli {

// The key of the flag --devices.
inline constexpr const char* kDevicesKey = "devices";

// Returns the paths of all keys: "classes" for an option, "cluster.node.gpus", "schedule.shard.id.over" for a head of
// the model, "devices". Settings of tensors that the user names, such as `train.groups.PATH.lr`, are not among them.
std::vector<std::string> sweep_keys(const lang::SourceFile& main, const Module& module);

// Returns the path of the key that `text` names: the whole path, or its last steps if only one key ends in them.
// `flag` is the flag in messages. Errors: kUsage XG0639 for an unknown or ambiguous key, with the nearest keys.
Result<std::string> find_key(const std::string& text, const std::vector<std::string>& keys, const std::string& flag);

// Whether a key only changes the machine or the hints, so that module, passes and facts of kernels stay.
bool keeps_model(const std::string& key);

}  // namespace xrun::cli
