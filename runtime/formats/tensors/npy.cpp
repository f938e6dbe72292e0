#include "runtime/formats/tensors/npy.h"

#include <algorithm>
#include <archive.h>
#include <archive_entry.h>
#include <cstring>
#include <fmt/format.h>
#include <memory>
#include <new>

#include "graph/base/errors.h"
#include "graph/base/utf8.h"

namespace xrun::runtime {
namespace {

// Decodes UTF-8, which must be well-formed.
std::u32string decode(std::string_view text) {
  std::u32string characters;
  while (!text.empty()) {
    const uint32_t length = sequence_length(text);
    const auto first = static_cast<unsigned char>(text[0]);
    char32_t code = length == 1 ? first : first & (0x7fU >> length);
    for (uint32_t i = 1; i < length; ++i) {
      code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3fU);
    }
    characters.push_back(code);
    text.remove_prefix(length);
  }
  return characters;
}

constexpr size_t kMostAtOnce = size_t{16} << 20;  // libarchive accepts less than 2 GiB in one call
constexpr int kBlock = 1 << 20;                   // number of bytes that are passed to the sink at a time

la_ssize_t give(archive* a, void* to, const void* data, size_t size) {
  const int fault = (*static_cast<const ByteSink*>(to))({static_cast<const std::byte*>(data), size});
  if (fault != 0) {
    archive_set_error(a, fault, "%s", std::strerror(fault));
    return -1;
  }
  return static_cast<la_ssize_t>(size);
}

struct FreeArchive {
  void operator()(archive* a) const { archive_write_free(a); }
  void operator()(archive_entry* entry) const { archive_entry_free(entry); }
};

bool write_whole(archive* a, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const la_ssize_t written = archive_write_data(a, bytes.data(), std::min(bytes.size(), kMostAtOnce));
    if (written <= 0) {
      return false;
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return true;
}

bool add_array(archive* a, const NpyArray& array) {
  const std::string header = npy_header(array);
  const std::unique_ptr<archive_entry, FreeArchive> entry(archive_entry_new());
  if (entry == nullptr) {
    throw std::bad_alloc();
  }
  archive_entry_set_pathname(entry.get(), (array.name + ".npy").c_str());
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_entry_set_perm(entry.get(), 0644);
  archive_entry_set_size(entry.get(), static_cast<la_int64_t>(header.size() + array.data.size()));
  const bool packed = array.descr != "<f4";  // outputs of a network (f32) can hardly be compressed
  return (packed ? archive_write_zip_set_compression_deflate(a) : archive_write_zip_set_compression_store(a)) ==
             ARCHIVE_OK &&
         archive_write_header(a, entry.get()) == ARCHIVE_OK && write_whole(a, std::as_bytes(std::span(header))) &&
         write_whole(a, array.data) && archive_write_finish_entry(a) == ARCHIVE_OK;
}

}  // namespace

std::string npy_header(const NpyArray& array) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", array.descr,
                                   fmt::join(array.shape, ", "), array.shape.size() == 1 ? "," : "");
  constexpr size_t kPrefix = 10;  // magic, version, length of the header
  header += std::string(63 - (kPrefix + header.size()) % 64, ' ') + "\n";
  const auto length = static_cast<uint16_t>(header.size());
  const char prefix[kPrefix] = {
      '\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  return std::string(prefix, kPrefix) + header;
}

Result<NpyTexts> npy_texts(std::span<const std::string> texts, Bytes most) {
  size_t width = 1;
  for (const std::string& text : texts) {
    width = std::max(width, decode(well_formed(text)).size());
  }
  const Bytes bytes = static_cast<Bytes>(width * texts.size() * sizeof(char32_t));
  if (bytes > most) {
    return content_error("XG0901",
                         {"{} names of up to {} characters would take {} as an array", format_count(std::ssize(texts)),
                          format_count(static_cast<int64_t>(width)), format_bytes(bytes)},
                         "write a .npy file, whose names go into a .tsv file next to it");
  }
  NpyTexts array{.descr = fmt::format("<U{}", width), .data = std::vector<char32_t>(width * texts.size(), 0)};
  for (size_t i = 0; i < texts.size(); ++i) {
    std::ranges::copy(decode(well_formed(texts[i])), array.data.begin() + static_cast<std::ptrdiff_t>(i * width));
  }
  return array;
}

Status write_npz(std::span<const NpyArray> arrays, const ByteSink& to) {
  const std::unique_ptr<archive, FreeArchive> a(archive_write_new());
  if (a == nullptr) {
    throw std::bad_alloc();
  }
  archive_write_set_format_zip(a.get());
  archive_write_set_bytes_per_block(a.get(), kBlock);
  archive_write_set_bytes_in_last_block(a.get(), 1);  // no padding after the end of the archive
  bool done = archive_write_open(a.get(), const_cast<ByteSink*>(&to), nullptr, give, nullptr) == ARCHIVE_OK;
  for (const NpyArray& array : arrays) {
    done = done && add_array(a.get(), array);
  }
  if (!done || archive_write_close(a.get()) != ARCHIVE_OK) {
    const char* why = archive_error_string(a.get());
    return world_error("XG0901",
                       fmt::format("the archive cannot be made: {}", why != nullptr ? why : "for an unknown reason"),
                       "write a .npy file instead");
  }
  return {};
}

}  // namespace xrun::runtime
