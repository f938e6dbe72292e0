// Helpers that make the shard rules (OpDef::shard) of operators whose rule depends on the call.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/types/attr.h"
#include "graph/types/tensor_type.h"

namespace xrun::ops {

// Returns one letter for each dimension of a tensor, such as "nab".
std::string shard_letters(const TensorType& type);

// Returns the rule "a,b->c" for operands with these letters.
std::string shard_text(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs);

// Returns the rule of operands with equal numbers of dimensions that are element-wise except along the attribute `axis`
// (default -1), which cannot be split: "na_->na_".
std::string shard_but_axis(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs& attrs);

// The rule of element-wise operands that broadcast. If another operand has more elements along a dimension, an input of
// size 1 is broadcast along it, and an output of size 1 is a sum over it: "nab,n_b->nab", "nab->n_b". Parameters are
// aligned with the last dimensions: "nab,b->nab".
std::string shard_broadcast(std::span<const TensorType> inputs, std::span<const TensorType> outputs,
                            const Attrs& attrs);

}  // namespace xrun::ops
