// Types of the results of data stages that read columns of a table or texts. Only graph/settings/augment_def.cpp
// includes this.
#pragma once

#include "graph/base/result.h"
#include "graph/settings/reader_def.h"
#include "graph/types/attr.h"
#include "graph/types/tensor_type.h"

namespace xrun {

// These have the signature of AugmentDef::type_of. Errors: XG0409 the field is not what the stage reads; XG0413 an
// argument is out of range.
//   columns_of     the numbers of several columns of a table
//   column_of      one column of a table
//   class_of_text  as_class
//   hashed_ngrams  ngrams: index(rows)[N, length]
Result<TensorType> columns_of(const AugmentDef& def, const Field& input, const Attrs& args);
Result<TensorType> column_of(const AugmentDef& def, const Field& input, const Attrs& args);
Result<TensorType> class_of_text(const AugmentDef& def, const Field& input, const Attrs& args);
Result<TensorType> hashed_ngrams(const AugmentDef& def, const Field& input, const Attrs& args);

}  // namespace xrun
