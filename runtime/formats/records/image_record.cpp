#include "runtime/formats/records/image_record.h"

#include <cstring>
#include <fmt/format.h>
#include <string>

#include "graph/base/errors.h"

namespace xrun::runtime {
namespace {

template <class T>
T number_at(std::span<const std::byte> bytes, size_t at) {
  T number;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

Error broken(std::string why) {
  return content_error("XG0412", std::move(why), "write the record again, or raise `max_bad`");
}

}  // namespace

std::optional<ImageHeader> image_header_at(std::span<const std::byte> contents) {
  if (contents.size() < kImageHeader) {
    return std::nullopt;
  }
  return ImageHeader{number_at<uint32_t>(contents, 0), number_at<float>(contents, 4), number_at<uint64_t>(contents, 8)};
}

Status check_labels_fit(const ImageHeader& header, Bytes length) {
  const Bytes needed = static_cast<Bytes>(kImageHeader) + Bytes{header.flag} * static_cast<Bytes>(sizeof(float));
  if (needed > length) {
    return broken(fmt::format("the record has {} bytes, which is less than the {} labels that its header promises",
                              length, header.flag));
  }
  return {};
}

float ImageRecord::label(int64_t i) const {
  return header.flag == 0 ? header.label : number_at<float>(list, static_cast<size_t>(i) * sizeof(float));
}

Result<ImageRecord> parse_image_record(std::span<const std::byte> contents) {
  const std::optional<ImageHeader> header = image_header_at(contents);
  if (!header) {
    return broken(fmt::format("the record has {} bytes, which is less than the header of a picture ({})",
                              contents.size(), kImageHeader));
  }
  XRUN_TRY(check_labels_fit(*header, static_cast<Bytes>(contents.size())));
  const auto rest = contents.subspan(kImageHeader);
  const size_t list_bytes = size_t{header->flag} * sizeof(float);
  return ImageRecord{*header, rest.first(list_bytes), rest.subspan(list_bytes)};
}

}  // namespace xrun::runtime
