// A trained row for each whole number: y[n, .., :] = weight[x[n, ..], :]. x index(R)[N, ...], weight [rows, dim], R <=
// rows.
#pragma once

#include "ops/op.h"

namespace xrun::ops {

extern const Op kEmbed;
extern const Op kEmbedGrad;

}  // namespace xrun::ops
