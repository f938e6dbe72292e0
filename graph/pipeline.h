// The order of the passes: from the checked module to the graph that is planned.
#pragma once

#include "graph/module.h"
#include "graph/op_def.h"

namespace xrun {

struct PipelineOptions {
  bool training = true;  // false: inference only, no loss and no backward part
};

// simplify -> cse -> dce -> mixed_precision -> fuse_elementwise -> fuse_maps -> fuse_functions -> fuse_residuals ->
// fuse_reductions -> differentiate -> dce -> fuse_maps and fuse_sums of gradients -> assign_layouts -> verify.
// Metric values of `train.metrics` and `train.eval` and the loss are kept up to date. Errors: those of infer and of
// differentiate.
Result<Module> prepare(Module module, const OpRegistry& registry, const PipelineOptions& options);

// The prepared module of a step of `batch` samples with the row weights of that batch: for the steps of a growing
// batch.
Module with_batch(Module prepared, int64_t batch);

}  // namespace xrun
