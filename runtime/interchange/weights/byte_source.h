// The bytes of tensors: a part of a file, which is read in place, or bytes that have to be unpacked or decoded first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "graph/base/units.h"
#include "runtime/formats/pickle/pickle_input.h"
#include "runtime/formats/random_file.h"

namespace xrun::runtime {

// Immutable; any number of threads may read at once.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  virtual Bytes bytes() const = 0;
  // Fills `to` with the bytes from `offset` on. REQUIRES: they are within bytes(). Errors: XG0401 the file cannot be
  // read; XG0412 it became shorter or is damaged; kInterrupted.
  virtual Status read(Bytes offset, std::span<std::byte> to) const = 0;
};
using Source = std::shared_ptr<const ByteSource>;

// A part of a file. REQUIRES: the part is within the file.
Source bytes_of_file(std::shared_ptr<const RandomFile> file, Bytes begin, Bytes bytes);
// Likewise; the first read also reads all of the part, and compares its CRC-32 with `crc`. Further errors of reads:
// XG0412 it differs; `name` is for messages.
Source checked_bytes_of_file(std::shared_ptr<const RandomFile> file, Bytes begin, Bytes bytes, uint32_t crc,
                             std::string name, StopFlag stop);
// A part of the input of a pickle. REQUIRES: likewise.
Source bytes_of_pickle(std::shared_ptr<const PickleInput> input, Bytes begin, Bytes bytes);
// Several sources, one after the other.
Source joined_bytes(std::vector<Source> parts);

// Memory for bytes that must be unpacked. It holds those of one source at a time, so that the unpacked bytes of a file
// take no more memory than its largest tensor. Shared by the sources of a file.
class UnpackedBytes;
std::shared_ptr<UnpackedBytes> make_unpacked_bytes();

// The most bytes of a source that are unpacked into memory.
inline constexpr Bytes kMostUnpacked = kGiB;

// Bytes that `unpack` gives, which is called at the first read, and again after a read of another source of `memory`.
// If it gives another number of bytes than `bytes`, reads fail with XG0412. `name` is for messages.
using Unpack = std::function<Result<std::vector<std::byte>>()>;
Source unpacked_bytes(std::shared_ptr<UnpackedBytes> memory, std::string name, Bytes bytes, Unpack unpack);

// The input of a pickle in a part of a file; `name` is for messages. REQUIRES: the part is within the file.
std::shared_ptr<const PickleInput> pickle_in_file(std::shared_ptr<const RandomFile> file, Bytes begin, Bytes bytes,
                                                  std::string name);
// The input of a pickle in memory.
std::shared_ptr<const PickleInput> pickle_of_bytes(std::vector<std::byte> bytes, std::string name);

}  // namespace xrun::runtime
