// A zip file ends with a record that has the place of the directory. The directory has an entry for each member, and
// each member has a header of its own before its data. All numbers are little-endian. Where a field is all ones, the
// number is in a zip64 record.
#include "runtime/formats/zip_directory.h"

#include <algorithm>
#include <fmt/format.h>
#include <new>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <zlib.h>

#include "graph/base/errors.h"
#include "runtime/formats/open_file.h"

namespace xrun::runtime {
namespace {

constexpr size_t kEndBytes = 22;
constexpr size_t kEnd64Bytes = 56;
constexpr size_t kLocator64Bytes = 20;
constexpr size_t kEntryBytes = 46;
constexpr size_t kHeaderBytes = 30;
constexpr Bytes kMostComment = 65'535;
constexpr Bytes kMostDirectory = 256 * kMiB;
// Deflate makes at least one byte of 1,032, so a larger size in a directory is wrong.
constexpr Bytes kMostRatio = 1032;

using Data = std::span<const std::byte>;

uint64_t number(Data data, size_t at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = bytes; i-- > 0;) {
    value = value << 8 | std::to_integer<uint64_t>(data[at + i]);
  }
  return value;
}

bool has_magic(Data data, size_t at, std::string_view magic) {
  return at + 4 <= data.size() && std::ranges::equal(data.subspan(at, 4), std::as_bytes(std::span(magic)));
}

struct Directory {
  uint64_t entries = 0;
  uint64_t bytes = 0;
  uint64_t offset = 0;
  uint64_t end = 0;  // offset of the record that ends the archive
};

// Reads the record zip64 that a locator before the ordinary record points to.
Status read_end64(const RandomFile& file, Data tail, size_t end, Bytes tail_offset, Directory& directory) {
  if (end < kLocator64Bytes || !has_magic(tail, end - kLocator64Bytes, "PK\x06\x07")) {
    return broken_file(file.path(), "its zip directory has no record zip64");
  }
  const uint64_t at = number(tail, end - kLocator64Bytes + 8, 8);
  if (at > static_cast<uint64_t>(tail_offset) + end) {
    return broken_file(file.path(), "its record zip64 is outside of the file");
  }
  std::byte record[kEnd64Bytes];
  XRUN_TRY(file.read(static_cast<Bytes>(at), record));
  if (!has_magic(record, 0, "PK\x06\x06")) {
    return broken_file(file.path(), fmt::format("no record zip64 at byte {}", at));
  }
  directory = {
      .entries = number(record, 32, 8), .bytes = number(record, 40, 8), .offset = number(record, 48, 8), .end = at};
  return {};
}

Result<Directory> find_directory(const RandomFile& file) {
  const Bytes tail_bytes = std::min(file.size(), static_cast<Bytes>(kEndBytes + kLocator64Bytes) + kMostComment);
  std::vector<std::byte> tail(static_cast<size_t>(tail_bytes));
  const Bytes tail_offset = file.size() - tail_bytes;
  XRUN_TRY(file.read(tail_offset, tail));
  for (size_t after = tail.size(); after >= kEndBytes; --after) {
    const size_t at = after - kEndBytes;
    if (!has_magic(tail, at, "PK\x05\x06") || number(tail, at + 20, 2) != tail.size() - after) {
      continue;
    }
    Directory directory{.entries = number(tail, at + 10, 2),
                        .bytes = number(tail, at + 12, 4),
                        .offset = number(tail, at + 16, 4),
                        .end = static_cast<uint64_t>(tail_offset) + at};
    if (directory.entries == UINT16_MAX || directory.bytes == UINT32_MAX || directory.offset == UINT32_MAX) {
      XRUN_TRY(read_end64(file, tail, at, tail_offset, directory));
    }
    return directory;
  }
  return broken_file(file.path(),
                     fmt::format("a zip archive without its directory: it may be cut short at byte {}", file.size()));
}

// Takes the numbers of an entry that are all ones from its extra field zip64, where they follow in this order.
bool take_zip64(Data extra, std::span<uint64_t* const> numbers) {
  while (extra.size() >= 4) {
    const uint64_t id = number(extra, 0, 2);
    const uint64_t bytes = number(extra, 2, 2);
    if (bytes > extra.size() - 4) {
      return false;
    }
    if (id == 1) {
      size_t at = 4;
      for (uint64_t* value : numbers) {
        if (*value != UINT32_MAX) {
          continue;
        }
        if (at + 8 > bytes + 4) {
          return false;
        }
        *value = number(extra, at, 8);
        at += 8;
      }
      return true;
    }
    extra = extra.subspan(4 + bytes);
  }
  return false;
}

// Reads the entry at the start of `data`, and removes it from there.
Result<ZipMember> next_entry(const RandomFile& file, Data& data, uint64_t directory_offset) {
  if (data.size() < kEntryBytes || !has_magic(data, 0, "PK\x01\x02")) {
    return broken_file(file.path(), "its zip directory has fewer entries than it counts");
  }
  const uint64_t flags = number(data, 8, 2);
  const uint64_t method = number(data, 10, 2);
  const size_t name_bytes = number(data, 28, 2);
  const size_t extra_bytes = number(data, 30, 2);
  const size_t all = kEntryBytes + name_bytes + extra_bytes + number(data, 32, 2);
  if (all > data.size()) {
    return broken_file(file.path(), "an entry of its zip directory is cut short");
  }
  ZipMember member{.name = std::string(reinterpret_cast<const char*>(data.data()) + kEntryBytes, name_bytes),
                   .is_deflated = method == 8,
                   .crc = static_cast<uint32_t>(number(data, 16, 4))};
  const std::string name = fmt::format("{} in {}", member.name, file.path());
  uint64_t packed = number(data, 20, 4);
  uint64_t bytes = number(data, 24, 4);
  uint64_t header = number(data, 42, 4);
  uint64_t* const numbers[] = {&bytes, &packed, &header};
  const bool is_long = packed == UINT32_MAX || bytes == UINT32_MAX || header == UINT32_MAX;
  if (is_long && !take_zip64(data.subspan(kEntryBytes + name_bytes, extra_bytes), numbers)) {
    return broken_file(name, "its sizes are missing");
  }
  data = data.subspan(all);
  if ((flags & 1) != 0) {
    return content_error("XG0412", {"{}: encrypted", name}, "write the archive without a password");
  }
  if (method != 0 && method != 8) {
    return content_error("XG0412", {"{}: compressed by method {} of zip", name, method},
                         "write it stored or deflated, as numpy.savez and numpy.savez_compressed do");
  }
  const uint64_t own = kHeaderBytes + name_bytes;  // the least size of the header before the data
  const bool fits =
      header <= directory_offset && own <= directory_offset - header && packed <= directory_offset - header - own;
  if (!fits || (member.is_deflated ? bytes > kMostRatio * packed : bytes != packed)) {
    return broken_file(name, "its sizes contradict each other or the size of the file");
  }
  member.packed_bytes = static_cast<Bytes>(packed);
  member.bytes = static_cast<Bytes>(bytes);
  member.header = static_cast<Bytes>(header);
  return member;
}

class Inflate {
 public:
  Inflate() {
    if (::inflateInit2(&stream_, -15) != Z_OK) {
      throw std::bad_alloc();
    }
  }
  ~Inflate() { ::inflateEnd(&stream_); }
  Inflate(const Inflate&) = delete;

  // Unpacks into `to` and removes the filled part from it. Returns false if the data is damaged.
  bool add(Data packed, std::span<std::byte>& to) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
    stream_.avail_in = static_cast<uInt>(packed.size());
    while (!to.empty() && !ended_) {
      const size_t room = std::min(to.size(), kReadChunk);
      stream_.next_out = reinterpret_cast<Bytef*>(to.data());
      stream_.avail_out = static_cast<uInt>(room);
      const int status = ::inflate(&stream_, Z_NO_FLUSH);
      const size_t made = room - stream_.avail_out;
      to = to.subspan(made);
      ended_ = status == Z_STREAM_END;
      if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
        return false;
      }
      if (made == 0) {
        break;  // more input is needed
      }
    }
    return true;
  }

 private:
  z_stream stream_{};
  bool ended_ = false;
};

}  // namespace

Result<std::vector<ZipMember>> read_zip_directory(const RandomFile& file) {
  XRUN_ASSIGN(const Directory directory, find_directory(file));
  if (directory.offset > directory.end || directory.bytes > directory.end - directory.offset ||
      directory.bytes > static_cast<uint64_t>(kMostDirectory) || directory.entries > directory.bytes / kEntryBytes) {
    return broken_file(file.path(), "its zip directory is outside of the file");
  }
  std::vector<std::byte> bytes(directory.bytes);
  XRUN_TRY(file.read(static_cast<Bytes>(directory.offset), bytes));
  Data rest = bytes;
  std::vector<ZipMember> members;
  std::unordered_set<std::string> names;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    XRUN_ASSIGN(ZipMember member, next_entry(file, rest, directory.offset));
    if (!names.insert(member.name).second) {
      return broken_file(file.path(), fmt::format("two members have the name {}", member.name));
    }
    members.push_back(std::move(member));
  }
  return members;
}

Result<Bytes> zip_data_offset(const RandomFile& file, const ZipMember& member) {
  std::byte header[kHeaderBytes];
  XRUN_TRY(file.read(member.header, header));
  const auto names = static_cast<Bytes>(number(header, 26, 2) + number(header, 28, 2));
  const Bytes offset = member.header + static_cast<Bytes>(kHeaderBytes) + names;
  if (!has_magic(header, 0, "PK\x03\x04") || offset > file.size() || member.packed_bytes > file.size() - offset) {
    return broken_file(fmt::format("{} in {}", member.name, file.path()),
                       fmt::format("no data of this member at byte {}", member.header));
  }
  return offset;
}

Result<std::vector<std::byte>> unpack_member(const RandomFile& file, const ZipMember& member, Bytes most,
                                             StopFlag stop) {
  const std::string name = fmt::format("{} in {}", member.name, file.path());
  XRUN_ASSIGN(Bytes at, zip_data_offset(file, member));
  std::vector<std::byte> out(static_cast<size_t>(std::min(member.bytes, most)));
  std::span<std::byte> rest = out;
  if (member.is_deflated) {
    Inflate inflate;
    std::vector<std::byte> chunk(kReadChunk);
    const Bytes end = at + member.packed_bytes;
    while (!rest.empty() && at < end) {
      XRUN_TRY(check_stop(stop));
      const auto part = std::span(chunk).first(std::min(chunk.size(), static_cast<size_t>(end - at)));
      XRUN_TRY(file.read(at, part));
      at += static_cast<Bytes>(part.size());
      if (!inflate.add(part, rest)) {
        return broken_file(name, fmt::format("damaged before byte {} of the file", at));
      }
    }
    if (!rest.empty()) {
      return broken_file(name, fmt::format("{} bytes instead of {}", out.size() - rest.size(), out.size()));
    }
  } else {
    XRUN_TRY(file.read(at, rest));
  }
  if (most >= member.bytes) {
    const auto crc = ::crc32_z(0, reinterpret_cast<const Bytef*>(out.data()), out.size());
    if (static_cast<uint32_t>(crc) != member.crc) {
      return broken_file(name, "its checksum is wrong");
    }
  }
  return out;
}

}  // namespace xrun::runtime
