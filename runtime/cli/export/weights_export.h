// `xrun export` of weights alone, as safetensors.
#pragma once

#include <string>

#include "runtime/checkpoint/tensors/checkpoint.h"
#include "runtime/cli/console/options.h"
#include "runtime/cli/model/planned.h"
#include "runtime/train/events/events.h"

namespace xrun::cli {

// Checks, before anything is computed, the flags and the place of FILE.safetensors. Errors: XG0905 a flag for ONNX
// alone; kUsage XG0901 the file was not written by xrun.
Status check_weights_flags(const ExportArgs& args);

// Writes the file and returns the result as text or as a line of JSON. Errors: XG0930 no such head; XG0711;
// kInterrupted; those of open_session.
Result<std::string> export_weights(const PlannedModel& planned, const ExportArgs& args,
                                   const runtime::CheckpointInfo& info, runtime::EventSink& events, bool json);

// The heads that are not in an exported file, and how to add them.
std::vector<std::string> left_out_heads(const Graph& graph, const ExportArgs& args);

}  // namespace xrun::cli
