// What the shard rules (OpDef::shard) share that depend on the call.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/attr.h"
#include "graph/tensor_type.h"

namespace xrun::ops {

// A letter a dimension: "nab".
std::string shard_letters(const TensorType& type);

// "a,b->c" of the letters of each operand.
std::string shard_text(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs);

// Operands of one rank, elementwise but along the dimension that the attribute `axis` (default -1) names: "na_->na_".
std::string shard_but_axis(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs& attrs);

// Operands of one rank, elementwise; a dimension of 1 where another operand has more is repeated, or of an output the
// sum: "nab,n_b->nab", "nab->n_b".
std::string shard_broadcast(std::span<const TensorType> inputs, std::span<const TensorType> outputs,
                            const Attrs& attrs);

}  // namespace xrun::ops
