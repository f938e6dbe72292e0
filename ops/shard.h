// Helpers of the shard rules (OpDef::shard) that depend on the call.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/attr.h"
#include "graph/tensor_type.h"

namespace xrun::ops {

// One letter for each dimension: "nab".
std::string shard_letters(const TensorType& type);

// The text "a,b->c" for the letters of each operand.
std::string shard_text(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs);

// Operands of one rank, elementwise except the dimension that the attribute `axis` (default -1) names: "na_->na_".
std::string shard_but_axis(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs& attrs);

// Elementwise operands. If another operand has more elements in a dimension, an input's dimension of 1 is broadcast and
// an output's is the sum: "nab,n_b->nab", "nab->n_b". Parameters are aligned with the last dimensions: "nab,b->nab".
std::string shard_broadcast(std::span<const TensorType> inputs, std::span<const TensorType> outputs,
                            const Attrs& attrs);

}  // namespace xrun::ops
