// Arrays in files of NumPy: a .npy file, or a member of an archive .npz. Samples are read from the file when they are
// needed, so that an array may be larger than the memory; only compressed members are unpacked into memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "graph/base/units.h"
#include "runtime/formats/random_file.h"
#include "runtime/formats/tensors/npy_header.h"
#include "runtime/formats/zip_directory.h"

namespace xrun::runtime {

// Whether the file is an archive .npz: whether it begins like a zip file. Errors: XG0401.
Result<bool> is_npz(const RandomFile& file);

// The arrays of an archive, by the names that numpy.load gives them: without ".npy". Errors: those of
// read_zip_directory.
Result<std::vector<ZipMember>> list_npz(const RandomFile& file);

// An array whose first dimension counts samples. Immutable; any number of threads may read at once.
class NpyFile {
 public:
  enum class Extent { kWhole, kHeader };

  // Opens the array of a .npy file. `dtype`: see parse_npy_header. Errors: XG0401; those of parse_npy_header; XG0412
  // the array has no dimension, or the file is shorter or longer than its header says.
  static Result<NpyFile> open(std::shared_ptr<const RandomFile> file, std::string_view dtype);
  // Opens an array of an archive. With Extent::kHeader no compressed data is unpacked, and `read` must not be called.
  // Further errors: XG0412 damaged data.
  static Result<NpyFile> open_member(std::shared_ptr<const RandomFile> file, const ZipMember& member,
                                     std::string_view dtype, Extent extent, StopFlag stop);

  const NpyHeader& header() const { return header_; }
  const std::string& name() const { return name_; }  // "x.npy", or "x in set.npz"
  int64_t samples() const { return header_.dims[0]; }
  int64_t sample_items() const { return sample_items_; }
  Bytes sample_bytes() const { return sample_items_ * header_.item_bytes; }

  // Reads the elements of `count` samples from `first` on, in the order of C and the byte order of the file. In an
  // array of Fortran's order each element is read by itself. REQUIRES: the samples exist; `to` has count *
  // sample_bytes(). Errors: XG0401, XG0412 the file became shorter.
  Status read(int64_t first, int64_t count, std::span<std::byte> to) const;

  // Bytes of the unpacked array; 0 if the array is read from the file. With Extent::kHeader: as after Extent::kWhole.
  Bytes held() const { return held_; }

 private:
  NpyFile() = default;
  Status take_header(std::span<const std::byte> start, Bytes array_bytes, std::string_view dtype);
  Status read_at(Bytes offset, std::span<std::byte> to) const;

  std::string name_;
  NpyHeader header_;
  int64_t sample_items_ = 1;
  std::shared_ptr<const RandomFile> file_;
  Bytes data_offset_ = 0;            // offset of the data in the file
  std::vector<std::byte> unpacked_;  // a compressed member, with its header
  Bytes held_ = 0;
};

}  // namespace xrun::runtime
