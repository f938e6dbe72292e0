// Finds the members of a tar archive and the offsets of their contents, so that single members can be read in any
// order. Nothing is unpacked. It reads POSIX ustar and pax, GNU tar (long names, sizes in base 256) and the older form
// of Version 7. Sources: IEEE Std 1003.1 ("pax", ustar Interchange Format), GNU tar 1.34 ("Basic Tar Format").
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "graph/base/result.h"
#include "graph/base/units.h"

namespace xrun::runtime {

// Headers and contents begin at multiples of this size.
inline constexpr Bytes kTarBlock = 512;

struct TarMember {
  enum class Kind { kFile, kDirectory, kLink, kOther };

  Kind kind = Kind::kFile;
  std::string name;
  Bytes begin = 0;   // offset of its first header
  Bytes offset = 0;  // offset of its content
  Bytes size = 0;    // size of its content; 0 unless it is a file

  Bytes end() const { return offset + align_up(size, kTarBlock); }  // offset of the next member
};

// The bytes of an archive, or of a part of it. Offsets count from the start of the archive.
class TarBytes {
 public:
  virtual ~TarBytes() = default;
  virtual Bytes end() const = 0;  // offset after the last byte
  // Returns `count` bytes, which are valid until the next call. REQUIRES: they are within the part. Errors: XG0401,
  // kInterrupted; XG0412 the file became shorter.
  virtual Result<std::span<const std::byte>> at(Bytes offset, Bytes count) = 0;
};

// A part of an archive in memory that begins at `begin`.
class TarMemory final : public TarBytes {
 public:
  explicit TarMemory(std::span<const std::byte> bytes, Bytes begin = 0) : bytes_(bytes), begin_(begin) {}
  Bytes end() const override { return begin_ + static_cast<Bytes>(bytes_.size()); }
  Result<std::span<const std::byte>> at(Bytes offset, Bytes count) override {
    return bytes_.subspan(static_cast<size_t>(offset - begin_), static_cast<size_t>(count));
  }

 private:
  std::span<const std::byte> bytes_;
  Bytes begin_;
};

class TarReader {
 public:
  // `path`: name for messages. `begin`: offset of the first member to read.
  TarReader(TarBytes& bytes, std::string_view path, Bytes begin = 0) : bytes_(bytes), path_(path), next_(begin) {}

  // Reads the next member; false after the last one. The content of a file lies within the bytes. Errors, with file and
  // offset: XG0412 a header is damaged, the archive is cut short or compressed, a name leads out of the archive
  // (absolute, or with a part `..`), a member is sparse or continues in another archive; those of TarBytes.
  Result<bool> next(TarMember& member);

  // After the last member: whether an end mark, a block of zeros, follows. Offset where the next member would begin.
  bool has_end_mark() const { return has_end_mark_; }
  Bytes position() const { return next_; }

 private:
  struct Extension;
  Error broken(Bytes offset, std::string_view why, std::string_view help = "get the file again") const;
  Error not_a_header(std::span<const std::byte> block) const;
  Result<bool> read_block(Extension& extension, TarMember& member, bool& is_member);
  Status read_extension(char type, Bytes size, Extension& extension);
  Status read_pax(bool global, std::string_view records, Bytes offset, Extension& extension) const;
  Status finish(std::span<const std::byte> block, char type, const Extension& extension, TarMember& member);

  TarBytes& bytes_;
  std::string path_;
  Bytes next_;
  bool has_end_mark_ = false;
};

// Whether a block is a header with the right checksum.
bool is_tar_header(std::span<const std::byte> block);

}  // namespace xrun::runtime
