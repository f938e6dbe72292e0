#include "runtime/formats/tensors/npy_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <utility>

#include "graph/base/errors.h"

namespace xrun::runtime {
namespace {

constexpr std::string_view kSuffix = ".npy";

Error broken(std::string_view name, const std::string& why) {
  return content_error("XG0412", {"{}: {}", name, why}, "get the file again, or write it again with numpy.save");
}

// Reads the header of an array that begins at `offset` and has at most `most` bytes.
Result<std::vector<std::byte>> read_header(const RandomFile& file, Bytes offset, Bytes most, std::string_view name) {
  std::vector<std::byte> start(static_cast<size_t>(std::min(most, kNpyPrefix)));
  XRUN_TRY(file.read(offset, start));
  XRUN_ASSIGN(const Bytes bytes, npy_header_bytes(start, name));
  start.resize(static_cast<size_t>(std::min(most, bytes)));
  XRUN_TRY(file.read(offset, start));
  return start;
}

}  // namespace

Result<bool> is_npz(const RandomFile& file) {
  std::array<std::byte, 4> start{};
  if (file.size() < std::ssize(start)) {
    return false;
  }
  XRUN_TRY(file.read(0, start));
  // The second form is an archive without members.
  return std::memcmp(start.data(), "PK\x03\x04", 4) == 0 || std::memcmp(start.data(), "PK\x05\x06", 4) == 0;
}

Result<std::vector<ZipMember>> list_npz(const RandomFile& file) {
  XRUN_ASSIGN(auto members, read_zip_directory(file));
  std::erase_if(members, [](const ZipMember& member) { return !member.name.ends_with(kSuffix); });
  for (ZipMember& member : members) {
    member.name.resize(member.name.size() - kSuffix.size());
  }
  return members;
}

Status NpyFile::take_header(std::span<const std::byte> start, Bytes array_bytes, std::string_view dtype) {
  XRUN_ASSIGN(header_, parse_npy_header(start, dtype, name_));
  if (header_.dims.empty()) {
    return content_error("XG0412", {"{}: one number, not an array of samples", name_},
                         "write an array whose first dimension counts samples");
  }
  const Bytes there = array_bytes - header_.header_bytes;
  if (there < header_.data_bytes) {
    return broken(name_, fmt::format("cut short: {} needs {} bytes from byte {} on, but only {} are there",
                                     npy_content(header_), header_.data_bytes, header_.header_bytes, there));
  }
  if (there > header_.data_bytes) {
    return content_error("XG0412",
                         {"{}: {} has {} bytes, but {} bytes more follow", name_, npy_content(header_),
                          header_.data_bytes, there - header_.data_bytes},
                         "write one array to a file; several arrays belong into a .npz file (numpy.savez)");
  }
  for (size_t i = 1; i < header_.dims.size(); ++i) {
    sample_items_ *= header_.dims[i];
  }
  if (sample_items_ == 0 || header_.item_bytes == 0) {
    return content_error("XG0412", {"{}: samples of {} have no elements", name_, npy_content(header_)},
                         "write an array whose dimensions are all at least 1");
  }
  return {};
}

Result<NpyFile> NpyFile::open(std::shared_ptr<const RandomFile> file, std::string_view dtype) {
  NpyFile made;
  made.name_ = file->path();
  XRUN_ASSIGN(const auto start, read_header(*file, 0, file->size(), made.name_));
  XRUN_TRY(made.take_header(start, file->size(), dtype));
  made.data_offset_ = made.header_.header_bytes;
  made.file_ = std::move(file);
  return made;
}

Result<NpyFile> NpyFile::open_member(std::shared_ptr<const RandomFile> file, const ZipMember& member,
                                     std::string_view dtype, Extent extent, StopFlag stop) {
  NpyFile made;
  made.name_ = fmt::format("{} in {}", member.name, file->path());
  if (member.is_deflated) {
    const Bytes most = extent == Extent::kWhole ? member.bytes : kNpyPrefix;
    XRUN_ASSIGN(made.unpacked_, unpack_member(*file, member, most, stop));
    if (extent == Extent::kHeader) {
      XRUN_ASSIGN(const Bytes bytes, npy_header_bytes(made.unpacked_, made.name_));
      XRUN_ASSIGN(made.unpacked_, unpack_member(*file, member, bytes, stop));
    }
    XRUN_TRY(made.take_header(made.unpacked_, member.bytes, dtype));
    made.held_ = member.bytes;
  } else {
    XRUN_ASSIGN(const Bytes offset, zip_data_offset(*file, member));
    XRUN_ASSIGN(const auto start, read_header(*file, offset, member.bytes, made.name_));
    XRUN_TRY(made.take_header(start, member.bytes, dtype));
    made.data_offset_ = offset + made.header_.header_bytes;
  }
  made.file_ = std::move(file);
  return made;
}

Status NpyFile::read_at(Bytes offset, std::span<std::byte> to) const {
  if (unpacked_.empty()) {
    return file_->read(data_offset_ + offset, to);
  }
  std::ranges::copy(std::span(unpacked_).subspan(static_cast<size_t>(header_.header_bytes + offset), to.size()),
                    to.begin());
  return {};
}

Status NpyFile::read(int64_t first, int64_t count, std::span<std::byte> to) const {
  XRUN_DCHECK(static_cast<Bytes>(to.size()) == count * sample_bytes(), "memory for the samples");
  if (!header_.is_fortran) {
    return read_at(first * sample_bytes(), to);
  }
  // Element (i0, i1, ..) is at i0 + d0 · (i1 + d1 · (i2 + ..)).
  const auto item = static_cast<size_t>(header_.item_bytes);
  const auto dims = std::span(header_.dims).subspan(1);
  for (int64_t sample = first; sample < first + count; ++sample) {
    for (int64_t i = 0; i < sample_items_; ++i) {
      int64_t rest = i;
      int64_t at = 0;
      int64_t step = sample_items_;
      for (size_t d = dims.size(); d-- > 0;) {
        step /= dims[d];
        at += rest % dims[d] * step;
        rest /= dims[d];
      }
      XRUN_TRY(read_at((sample + header_.dims[0] * at) * header_.item_bytes, to.first(item)));
      to = to.subspan(item);
    }
  }
  return {};
}

}  // namespace xrun::runtime
