// Readers and augmentations as records: signature, bounds and fields here; runtime/data carries them out.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/attr.h"
#include "graph/base/result.h"
#include "graph/base/units.h"
#include "graph/op_def.h"
#include "graph/specs.h"
#include "graph/tensor_type.h"

namespace xrun {

// Conventions of the signatures: `list` takes one value for a list of one (attributes always hold the list); `range` is
// two whole numbers a..b; an argument whose default is `none` is absent from the attributes unless it is given.

// A field that a source gives for each sample; types begin with the batch dimension, "u8[N, 1, 32, 32]". Encoded
// pictures have `encoded` set and no shape of their own; an unknown size (IDX headers are not read by `check`) is a
// dimension of 0. A label whose number of classes is found only by opening has classes = 0: it may stand for any
// index(C), and its values are checked as they are read (XG0402). Floats and u8 of any width bind to a float input.
// A binding that starts with a stage, `x = columns(0..64)`, is of the field `row`.
struct Field {
  std::string name;
  TensorType type;
  bool encoded = false;
};

struct ReaderDef {
  std::string_view name;
  std::string_view signature;  // "(fonts: list, chars: range, size: int = 32, em: int = 26)"
  std::string_view bounds;     // of arguments that are numbers, both allowed: "size 4..1024, em 4..1024"
  std::string_view doc;
  std::string_view example;  // what stands behind `source train =`
  Availability availability = Availability::kReady;
  // For arguments within their bounds; called by `fields`.
  Result<std::vector<Field>> (*fields_of)(const Attrs& arguments) = nullptr;
  // What an open reader holds in memory, at most, by arguments that `fields` accepts; null: as much as its files have.
  Bytes (*held)(const Attrs& arguments) = nullptr;
  bool synthetic = false;  // made up: said wherever results are printed

  // Fields by arguments alone; nothing is opened. Errors: XG0413 for an argument that is out of range.
  Result<std::vector<Field>> fields(const Attrs& arguments) const;
};

// A stage of a data binding: decode, resize, random_affine, columns ...
struct AugmentDef {
  std::string_view name;
  std::string_view signature;  // arguments after the input
  std::string_view bounds;     // as of a reader
  std::string_view doc;
  std::string_view example;  // "resize(32)"
  Availability availability = Availability::kReady;
  // For arguments within their bounds; called by `infer`.
  Result<TensorType> (*type_of)(const AugmentDef& def, const Field& input, const Attrs& arguments) = nullptr;

  // What the stage makes of a field. Errors: XG0413 for an argument that is out of range, XG0409 for a field that it
  // does not take.
  Result<TensorType> infer(const Field& input, const Attrs& arguments) const;
};

struct DataRegistry {
  std::vector<const ReaderDef*> readers;
  std::vector<const AugmentDef*> augments;

  const ReaderDef* find_reader(std::string_view name) const;
  const AugmentDef* find_augment(std::string_view name) const;
};

// Names of the sources that are made up, in order of declaration.
std::vector<std::string> synthetic_sources(const DataSpec& data);

// The records of edition 1 (graph/reader_def.cpp).
const DataRegistry& data_registry();

}  // namespace xrun
