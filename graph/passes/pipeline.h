// The order of the passes: from the checked module to the graph that is planned.
#pragma once

#include "graph/module.h"
#include "graph/op_def.h"

namespace xrun {

struct PipelineOptions {
  bool training = true;  // false: inference only, no loss and no backward part
};

// Runs the passes:
//   simplify -> cse -> dce -> mixed_precision -> fuse_elementwise -> fuse_maps -> fuse_functions -> fuse_residuals ->
//   fuse_reductions -> differentiate -> dce -> fuse_maps and fuse_sums of gradients -> assign_layouts -> verify
// The module's references to the loss and to the metrics of `train.metrics` and `train.eval` stay valid. Errors: those
// of infer and of differentiate.
Result<Module> prepare(Module module, const OpRegistry& registry, const PipelineOptions& options);

// A copy of a prepared module for steps of `batch` samples: its row weights are those of this batch. A run whose batch
// grows needs one for each size.
Module with_batch(Module prepared, int64_t batch);

}  // namespace xrun
