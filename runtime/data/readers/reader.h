// Readers: a common interface to sources of samples; each kind (folder, recordio, synthetic ...) is a pair of
// files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "graph/settings/reader_def.h"
#include "graph/settings/specs.h"
#include "runtime/formats/tables/csv.h"

namespace xrun {
struct TemplatePairs;  // graph/settings/template_pairs.h
}

namespace xrun::runtime {

// The value of one field of a sample. `bytes` refers to memory of the reader, or to memory of this object. An object is
// reused for many samples, so that reading allocates nothing after the first ones.
struct FieldValue {
  DType dtype = DType::kU8;
  int rank = 0;  // dimensions of one sample, without N: pictures [C, H, W]
  std::array<int64_t, 4> dims{};
  std::span<const std::byte> bytes;  // valid until the next read into this value
  std::vector<std::byte> storage;

  int64_t elements() const;
  void set_view(DType type, std::span<const int64_t> shape, std::span<const std::byte> view);
  // Makes `bytes` refer to memory of this object, and returns that memory for the caller to fill. After the value the
  // memory has `scratch` more bytes, in which the caller can convert what it reads.
  std::byte* set_own(DType type, std::span<const int64_t> shape, size_t scratch = 0);
  void set_integer(DType type, int64_t value);  // type: i32 or i64
};

// An opened source. All methods are const and may be called by any number of threads.
class Reader {
 public:
  virtual ~Reader() = default;

  virtual int64_t samples() const = 0;
  // The fields, with the sizes found in the source. A size that differs from sample to sample is 0, as in pictures.
  virtual const std::vector<Field>& fields() const = 0;
  // The number of classes; labels are 0..classes()-1. 0: the source has no labels.
  virtual int64_t classes() const = 0;
  // Reads field number `field` of a sample. Errors, to which the caller adds the sample's name: XG0412 the content is
  // broken or missing, so another sample may replace it; XG0401 the operating system denies the read.
  virtual Status read(int64_t sample, int field, FieldValue& out) const = 0;

  virtual std::string class_name(int64_t label) const = 0;  // "" if classes have no names
  // Whether samples have classes. False if all pictures lie outside class directories; their label is then 0.
  virtual bool has_labels() const { return true; }
  virtual std::string sample_name(int64_t sample) const = 0;  // "uming U+4E00"
  // The numbers of the samples in natural order (2.png before 10.png), for predictions and evaluations; empty:
  // ascending. Training does not use it: its order depends only on the numbers of the samples.
  virtual std::vector<int64_t> listing() const { return {}; }
  // The templates of a verification set, and their pairs; null for other sources. `listing` is then empty.
  virtual const TemplatePairs* templates() const { return nullptr; }
  virtual std::string describe() const = 0;  // "glyphs: 16 faces, 284 045 images, 20 902 classes"
  // The columns of a table, with their names and texts; empty for other sources.
  virtual std::span<const CsvColumn> columns() const { return {}; }
  // The memory that the reader uses. After open_header: that of the whole source, except for the pictures of glyphs.
  virtual Bytes memory() const { return 0; }
  // Returns warnings about a source that could be opened, with code and help but without the source's name.
  virtual std::vector<Error> warnings() const { return {}; }

  int find_field(std::string_view name) const;  // -1: no such field
};

// The samples whose pictures a plan examines: at most 64, evenly spread, so that reading them is always fast.
std::vector<int64_t> looked_samples(int64_t samples);

// The absolute form of `path`: a relative path starts at `directory`.
std::string resolve_path(std::string_view directory, std::string_view path);

}  // namespace xrun::runtime
