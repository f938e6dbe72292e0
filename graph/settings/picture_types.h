// Types of the results of data stages that work on pictures. Only graph/settings/augment_def.cpp includes this.
#pragma once

#include "graph/base/result.h"
#include "graph/settings/reader_def.h"
#include "graph/types/attr.h"
#include "graph/types/tensor_type.h"

namespace xrun {

// Returns an error unless the field is a decoded picture. Errors: XG0409.
Status check_picture(const AugmentDef& def, const Field& input);

// These have the signature of AugmentDef::type_of, and return the type of the input as f32. Errors: XG0409 the field is
// encoded, or not a picture; and those below.
//   as_float         the field need not be a picture
//   float_picture    no other error
//   bytes_picture    XG0409 the range of pixels is not 0 to 255, or there are neither one nor three channels
//   erased_picture   random_erasing. XG0409 `value` does not fit the channels; XG0413
//   blurred_picture  blur. XG0409 the kernel does not fit the picture; XG0413 an even kernel
//   moved_picture    affine. XG0413 a list has another number of elements, or an interval ends before it begins
Result<TensorType> as_float(const AugmentDef& def, const Field& input, const Attrs& args);
Result<TensorType> float_picture(const AugmentDef& def, const Field& input, const Attrs& args);
Result<TensorType> bytes_picture(const AugmentDef& def, const Field& input, const Attrs& args);
Result<TensorType> erased_picture(const AugmentDef& def, const Field& input, const Attrs& args);
Result<TensorType> blurred_picture(const AugmentDef& def, const Field& input, const Attrs& args);
Result<TensorType> moved_picture(const AugmentDef& def, const Field& input, const Attrs& args);

}  // namespace xrun
