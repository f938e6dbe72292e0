// The order of work of this room: from the checked module to the graph that is planned.
#pragma once

#include "graph/module.h"
#include "graph/op_def.h"

namespace xrun {

struct PipelineOptions {
  bool training = true;        // false: inference only, no backward part
  bool native_bf16 = true;     // false: operands are rounded to bf16 and computed in f32
};

// simplify -> cse -> dce -> mixed_precision -> fuse_elementwise -> differentiate -> dce -> verify.
Result<Module> prepare(Module module, const OpRegistry& registry, const PipelineOptions& options);

}  // namespace xrun
