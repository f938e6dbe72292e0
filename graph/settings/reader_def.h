// Readers and augmentations as records: signature, bounds and fields are here; runtime/data implements them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "graph/settings/specs.h"
#include "graph/types/attr.h"
#include "graph/types/availability.h"
#include "graph/types/tensor_type.h"

namespace xrun {

// Conventions of the signatures: `list` accepts one value for a list of one (attributes always hold the list); `range`
// is two whole numbers a..b; an argument whose default is `none` is absent from the attributes unless it is given.

// A field that a source gives for each sample. Its type begins with the batch dimension, "u8[N, 1, 32, 32]". Encoded
// pictures have `encoded` set and no shape of their own. A size that is not known before the data is opened is a
// dimension of 0 (`check` does not read IDX headers). A label whose number of classes is not known before that has
// classes = 0: it fits any index(C), and its values are checked as they are read (XG0402). Floats and u8 of any width
// can feed a float input. A binding that starts with a stage, `x = columns(0..64)`, reads the field `row`.
struct Field {
  std::string name;
  TensorType type;
  bool encoded = false;
  bool rescaled = false;  // a stage has changed the range of pixels, which is 0 to 255
};

struct ReaderDef {
  std::string_view name;
  std::string_view signature;  // "(fonts: list, chars: range, size: int = 32, em: int = 26)"
  std::string_view bounds;     // bounds of numeric arguments, both inclusive: "size 4..1024, em 4..1024"
  std::string_view doc;
  std::string_view example;  // text after `source train =`
  Availability availability = Availability::kReady;
  // The fields for arguments within their bounds; called by `fields`.
  Result<std::vector<Field>> (*fields_of)(const Attrs& arguments) = nullptr;
  // The most memory that an open reader holds, for arguments that `fields` accepts; null: the size of its files.
  Bytes (*held)(const Attrs& arguments) = nullptr;
  bool synthetic = false;  // generated data, which is marked in every printed result

  // Fields as a function of the arguments; nothing is opened. Errors: XG0413 for an argument that is out of range.
  Result<std::vector<Field>> fields(const Attrs& arguments) const;
};

// A stage of a data binding: decode, resize, random_affine, columns ...
struct AugmentDef {
  std::string_view name;
  std::string_view signature;  // the parameters after the input: "(size: int)"
  std::string_view bounds;     // bounds, as in ReaderDef
  std::string_view doc;
  std::string_view example;  // "resize(32)"
  Availability availability = Availability::kReady;
  // The type for arguments within their bounds; called by `infer`.
  Result<TensorType> (*type_of)(const AugmentDef& def, const Field& input, const Attrs& arguments) = nullptr;
  bool only_training = false;  // outside training, the stage changes nothing
  bool rescales = false;       // the range of pixels is another one afterwards
  bool variadic = false;       // the first parameter takes all positional arguments, as one list

  // The type of the stage's result for a field. Errors: XG0413 for an argument that is out of range, XG0409 for a field
  // that it does not accept.
  Result<TensorType> infer(const Field& input, const Attrs& arguments) const;
};

struct DataRegistry {
  std::vector<const ReaderDef*> readers;
  std::vector<const AugmentDef*> augments;

  const ReaderDef* find_reader(std::string_view name) const;
  const AugmentDef* find_augment(std::string_view name) const;
};

// The largest side of a picture. A larger picture is rejected before memory is allocated for it.
inline constexpr int64_t kLargestSide = 16'384;

// The height and the width that the argument `size` of a stage gives: one number for both, or [height, width].
// REQUIRES: the argument is given.
std::pair<int64_t, int64_t> picture_sides(const Attrs& arguments);

// Names of the sources with generated data, in order of declaration.
std::vector<std::string> synthetic_sources(const DataSpec& data);

// The data stages of edition 1 (graph/settings/augment_def.cpp).
std::span<const AugmentDef> augment_defs();

// All records of edition 1: readers (graph/settings/reader_def.cpp) and data stages.
const DataRegistry& data_registry();

}  // namespace xrun
