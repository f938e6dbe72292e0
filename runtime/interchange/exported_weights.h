// Weights for other programs: a safetensors file with the tensors of a model under their paths.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "graph/base/units.h"
#include "runtime/train/state/train_state.h"

namespace xrun::runtime {

struct WeightsWritten {
  int64_t tensors = 0;
  Bytes bytes = 0;  // size of the file
};

/// The key that begins the metadata of such a file, so that no file of another program is replaced.
inline constexpr const char* kWeightsKey = "exported_by";

/// Writes all weights and running statistics outside of heads, and those of the named heads, as f32 and with the names
/// that the model has for them. Heads are written in parts, so that the memory for them is bounded. Errors: kWorld
/// XG0711; kInterrupted. Threads: one.
Result<WeightsWritten> write_weights(const TrainState& state, std::span<const std::string> heads,
                                     std::map<std::string, std::string> metadata, const std::string& path,
                                     StopFlag stop);

}  // namespace xrun::runtime
