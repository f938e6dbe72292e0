// Arrays that paddle.save has split, since a string in a pickle of protocol 2 or 3 holds less than 4 GiB. The parts are
// arrays of one dimension, and the dict has one more entry:
//   "UnpackBigParamInfor@@": {name: {"OriginShape": (rows, columns), "slices": [name of a part, ...]}}
// Source: python/paddle/framework/io_utils.py of PaddlePaddle 3.3.
#pragma once

#include <string_view>

#include "graph/base/result.h"
#include "runtime/formats/pickle/pickle.h"
#include "runtime/interchange/weights/stored_weights.h"

namespace xrun::runtime {

inline constexpr std::string_view kPaddleParts = "UnpackBigParamInfor@@";

// Joins the parts: the first one is replaced by the whole array, and the others are removed. `table` is the value of
// the entry. Errors: XG0412 a part is missing, or the parts do not fit each other or the shape.
Status join_paddle_parts(const Pickle& pickle, PickleId table, WeightContents& to);

}  // namespace xrun::runtime
