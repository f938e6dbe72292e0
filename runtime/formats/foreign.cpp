#include "runtime/formats/foreign.h"

#include <algorithm>

#include "graph/base/errors.h"

namespace xrun::runtime {
namespace {

using std::string_view_literals::operator""sv;

struct Format {
  std::string_view start;
  const char* name;
  const char* help;
};

constexpr Format kFormats[] = {
    {"BZh"sv, "a file compressed by bzip2", "unpack it (bunzip2), or compress it by gzip instead"},
    {"\xFD"
     "7zXZ\0"sv,
     "a file compressed by xz", "unpack it (unxz), or compress it by gzip instead"},
    {"\x28\xB5\x2F\xFD"sv, "a file compressed by zstd", "unpack it (unzstd), or compress it by gzip instead"},
    {"\x04\x22\x4D\x18"sv, "a file compressed by lz4", "unpack it (unlz4), or compress it by gzip instead"},
    {"7z\xBC\xAF\x27\x1C"sv, "a 7z archive", "unpack it, or compress the table by gzip instead"},
    {"PK\x03\x04"sv, "a zip archive or a workbook", "unpack the archive, or save the workbook as CSV"},
    {"\xD0\xCF\x11\xE0"sv, "a workbook", "save it as CSV"},
    {"PAR1"sv, "a Parquet file", "write its table as CSV"},
    {"\x93NUMPY"sv, "an array of NumPy", "read it with npy(..): source train = npy(\"x.npy\", labels=\"y.npy\")"},
    {"\xFF\xFE"sv, "a text in UTF-16", "save it in UTF-8: iconv -f UTF-16 -t UTF-8"},
    {"\xFE\xFF"sv, "a text in UTF-16", "save it in UTF-8: iconv -f UTF-16 -t UTF-8"},
};

}  // namespace

Status refuse_foreign(std::span<const std::byte> bytes, std::string_view path) {
  constexpr size_t kLooked = 4096;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kLooked));
  for (const Format& format : kFormats) {
    if (text.starts_with(format.start)) {
      return content_error("XG0412", {"{}: {}, which is not read as a table", path, format.name}, format.help);
    }
  }
  if (text.find('\0') != std::string_view::npos) {
    return content_error("XG0412", {"{}: not a text file, since it contains bytes with the value 0", path},
                         "save the table as a text file in UTF-8");
  }
  return {};
}

}  // namespace xrun::runtime
