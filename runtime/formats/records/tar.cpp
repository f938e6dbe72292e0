// A member is a header of 512 bytes and its content, padded with zeros to a multiple of 512. Other headers with
// contents of their own may precede it: `x` (pax: records "LENGTH KEY=VALUE\n"), `L` and `K` (GNU: a long name, a long
// link). The header, by offset:
//   0 name[100]  100 mode  108 uid  116 gid  124 size[12]  136 mtime[12]  148 checksum[8]  156 type
//   157 link[100]  257 magic[6]  263 version[2]  ...  345 prefix[155]
// Numbers are octal text, or big-endian with the highest bit of the first byte set. The checksum is the sum of the
// header's bytes, with its own field taken as blanks; older programs added signed bytes. A block of zeros ends the
// archive.
#include "runtime/formats/records/tar.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <optional>

#include "graph/base/errors.h"

namespace xrun::runtime {
namespace {

constexpr Bytes kMostExtension = kMiB;  // limit for the content of `x`, `L` and `K`; names have a few hundred bytes
constexpr size_t kTypeOffset = 156;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The text of a field, up to its first zero.
std::string_view field(std::string_view block, size_t offset, size_t size) {
  const std::string_view whole = block.substr(offset, size);
  return whole.substr(0, whole.find('\0'));
}

// The value of a number field; nullopt if it is not a number, negative, or 2^63 or more.
std::optional<int64_t> number(std::string_view digits) {
  if ((static_cast<unsigned char>(digits[0]) & 0x80) != 0) {
    uint64_t value = static_cast<unsigned char>(digits[0]) & 0x7f;
    for (const char c : digits.substr(1)) {
      if (value >> 55 != 0) {
        return std::nullopt;
      }
      value = value << 8 | static_cast<unsigned char>(c);
    }
    return static_cast<int64_t>(value);
  }
  digits.remove_prefix(std::min(digits.find_first_not_of(' '), digits.size()));
  digits = digits.substr(0, digits.find_first_of(std::string_view(" \0", 2)));
  int64_t value = 0;
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 8);
  const bool good = digits.empty() || (fault == std::errc() && end == digits.data() + digits.size() && value >= 0);
  return good ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> decimal(std::string_view digits) {
  int64_t value = 0;
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool good = fault == std::errc() && end == digits.data() + digits.size() && value >= 0;
  return good ? std::optional(value) : std::nullopt;
}

bool is_zero(std::span<const std::byte> block) {
  return std::ranges::all_of(block, [](std::byte b) { return b == std::byte{0}; });
}

// The program that unpacks a file with these first bytes, and its format; nothing if it is not compressed.
struct Compression {
  std::string_view magic;
  std::string_view name;
  std::string_view program;
};
constexpr Compression kCompressions[] = {{"\x1F\x8B", "gzip", "gunzip"},
                                         {"\x28\xB5\x2F\xFD", "zstd", "unzstd"},
                                         {"\xFD\x37zXZ", "xz", "unxz"},
                                         {"BZh", "bzip2", "bunzip2"},
                                         {"\x04\x22\x4D\x18", "lz4", "unlz4"}};

// Whether a name leads out of the directory into which the archive would be unpacked.
bool escapes(std::string_view name) {
  if (name.starts_with('/')) {
    return true;
  }
  for (size_t at = 0; at <= name.size();) {
    const size_t slash = std::min(name.find('/', at), name.size());
    if (name.substr(at, slash - at) == "..") {
      return true;
    }
    at = slash + 1;
  }
  return false;
}

TarMember::Kind kind_of(char type, std::string_view name) {
  switch (type) {
    case '1':
    case '2':
      return TarMember::Kind::kLink;
    case '5':
      return TarMember::Kind::kDirectory;
    case '3':
    case '4':
    case '6':
    case 'V':  // the label of a volume
      return TarMember::Kind::kOther;
    case '\0':  // in archives of Version 7, also a directory
      return name.ends_with('/') ? TarMember::Kind::kDirectory : TarMember::Kind::kFile;
    default:
      return TarMember::Kind::kFile;  // POSIX: a file of an unknown type is an ordinary file
  }
}

}  // namespace

// The values from the headers that precede a member.
struct TarReader::Extension {
  std::optional<std::string> name;
  std::optional<int64_t> size;
  bool sparse = false;
};

bool is_tar_header(std::span<const std::byte> block) {
  constexpr size_t kChecksum = 148, kDigits = 8;
  if (block.size() < static_cast<size_t>(kTarBlock)) {
    return false;
  }
  const auto stored = number(text_of(block).substr(kChecksum, kDigits));
  int64_t sum = ' ' * static_cast<int64_t>(kDigits);
  int64_t signed_sum = sum;
  for (size_t i = 0; i < static_cast<size_t>(kTarBlock); ++i) {
    if (i < kChecksum || i >= kChecksum + kDigits) {
      sum += std::to_integer<uint8_t>(block[i]);
      signed_sum += static_cast<int8_t>(std::to_integer<uint8_t>(block[i]));
    }
  }
  return stored && (*stored == sum || *stored == signed_sum);
}

Error TarReader::broken(Bytes offset, std::string_view why, std::string_view help) const {
  return content_error("XG0412", {"{}: {} at offset {}", path_, why, format_count(offset)}, std::string(help));
}

Error TarReader::not_a_header(std::span<const std::byte> block) const {
  if (next_ > 0) {
    return broken(next_, "a damaged header");
  }
  for (const Compression& known : kCompressions) {
    if (text_of(block).starts_with(known.magic)) {
      return content_error("XG0412",
                           {"{} is compressed by {}, so its members cannot be read in any order", path_, known.name},
                           {"unpack it once: {} {} (encoded pictures take hardly more space)", known.program, path_});
    }
  }
  return content_error("XG0412", {"{} is not a tar archive", path_}, "name tar files; xrun data show NAME says more");
}

Result<bool> TarReader::next(TarMember& member) {
  Extension extension;
  member.begin = next_;
  for (bool is_member = false; !is_member;) {
    XRUN_ASSIGN(const bool more, read_block(extension, member, is_member));
    if (!more) {
      return member.begin == next_ ? Result<bool>(false)
                                   : broken(next_, "cut short: a long name or pax header without its member");
    }
  }
  return true;
}

// Reads one header with its extension, if it is one. False at the end of the archive.
Result<bool> TarReader::read_block(Extension& extension, TarMember& member, bool& is_member) {
  const Bytes left = bytes_.end() - next_;
  if (left == 0) {
    return next_ == 0 ? Result<bool>(content_error("XG0412", {"{} is empty", path_}, "get the file again"))
                      : Result<bool>(false);
  }
  XRUN_ASSIGN(const auto block, bytes_.at(next_, std::min(left, kTarBlock)));
  if (is_zero(block)) {
    has_end_mark_ = left >= kTarBlock;
    return false;
  }
  if (!is_tar_header(block)) {
    return left < kTarBlock && next_ > 0 ? broken(next_, "cut short in a header") : not_a_header(block);
  }
  const char type = text_of(block)[kTypeOffset];
  if (type != 'x' && type != 'X' && type != 'g' && type != 'L' && type != 'K') {
    is_member = true;
    XRUN_TRY(finish(block, type, extension, member));
    return true;
  }
  const auto size = number(text_of(block).substr(124, 12));
  if (!size || *size > kMostExtension) {
    return broken(next_, "a pax header or long name of more than 1 MiB");
  }
  if (*size > left - kTarBlock) {
    return broken(next_, "cut short in a pax header or long name");
  }
  XRUN_TRY(read_extension(type, *size, extension));
  return true;
}

Status TarReader::read_extension(char type, Bytes size, Extension& extension) {
  const Bytes content = next_ + kTarBlock;
  XRUN_ASSIGN(const auto bytes, bytes_.at(content, size));
  if (type == 'L') {
    extension.name = std::string(field(text_of(bytes), 0, bytes.size()));
  } else if (type != 'K') {
    XRUN_TRY(read_pax(type == 'g', text_of(bytes), content, extension));
  }
  next_ = std::min(content + align_up(size, kTarBlock), bytes_.end());
  return {};
}

// Reads the records of a pax header. A global header with a name or a size would change all later members, which are
// also read without it, so it is refused; no common program writes one.
Status TarReader::read_pax(bool global, std::string_view records, Bytes offset, Extension& extension) const {
  while (!records.empty()) {
    const size_t blank = std::min(records.find(' '), records.size());
    const auto length = decimal(records.substr(0, blank));
    if (!length || *length <= static_cast<int64_t>(blank) + 1 || *length > static_cast<int64_t>(records.size()) ||
        records[static_cast<size_t>(*length) - 1] != '\n') {
      return broken(offset, "a damaged pax header");
    }
    const std::string_view record = records.substr(blank + 1, static_cast<size_t>(*length) - blank - 2);
    records.remove_prefix(static_cast<size_t>(*length));
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos) {
      return broken(offset, "a damaged pax header");
    }
    const std::string_view key = record.substr(0, equals);
    const std::string_view value = record.substr(equals + 1);
    if (global && (key == "path" || key == "size")) {
      return broken(offset, fmt::format("a global pax header with a `{}` for all members", key),
                    "write the archive again, with GNU tar or Python's tarfile");
    }
    if (key == "path") {
      extension.name = std::string(value);
    } else if (key == "size") {
      extension.size = decimal(value);
      if (!extension.size) {
        return broken(offset, "a damaged size in a pax header");
      }
    }
    extension.sparse = extension.sparse || key.starts_with("GNU.sparse.");
  }
  return {};
}

// Fills the member from its own header and the extensions before it.
Status TarReader::finish(std::span<const std::byte> block, char type, const Extension& extension, TarMember& member) {
  const std::string_view header = text_of(block);
  if (extension.name) {
    member.name = *extension.name;
  } else {
    const bool posix = header.substr(257, 6) == std::string_view("ustar\0", 6);
    const std::string_view prefix = posix ? field(header, 345, 155) : "";
    member.name = prefix;
    member.name += prefix.empty() ? "" : "/";
    member.name += field(header, 0, 100);
  }
  if (member.name.empty() || member.name.find('\0') != std::string::npos) {
    return broken(next_, "a member without a valid name");
  }
  if (escapes(member.name)) {
    return broken(next_, fmt::format("the member `{}`, whose name leads out of the archive,", member.name),
                  "do not use the archive unless you know who made it: names of samples are relative, without `..`");
  }
  member.kind = kind_of(type, member.name);
  if (type == 'S' || type == 'M' || (extension.sparse && member.kind == TarMember::Kind::kFile)) {
    return broken(next_, fmt::format("the {} member `{}`", type == 'M' ? "continued" : "sparse", member.name),
                  "write the archive again without --sparse and --multi-volume");
  }
  const bool has_content = member.kind == TarMember::Kind::kFile;
  const auto size = extension.size ? extension.size : number(header.substr(124, 12));
  member.offset = next_ + kTarBlock;
  member.size = has_content ? size.value_or(-1) : 0;
  if (member.size < 0) {
    return broken(next_, fmt::format("the member `{}` with a damaged size", member.name));
  }
  if (member.size > bytes_.end() - member.offset) {
    return broken(next_,
                  fmt::format("cut short: {} of the {} of the member `{}`", format_bytes(bytes_.end() - member.offset),
                              format_bytes(member.size), member.name));
  }
  next_ = std::min(member.end(), bytes_.end());  // the padding after the last member may be absent
  return {};
}

}  // namespace xrun::runtime
