#include "runtime/interchange/weights/safetensors_weights.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/formats/tensors/safetensors_header.h"
#include "runtime/interchange/weights/stored_weights.h"

namespace xrun::runtime {
namespace {

using enum ElementType;

struct Dtype {
  std::string_view name;
  ElementType type;
};

constexpr Dtype kDtypes[] = {
    {"BOOL", kBool},
    {"U8", kU8},
    {"I8", kI8},
    {"U16", kU16},
    {"I16", kI16},
    {"F16", kF16},
    {"BF16", kBf16},
    {"U32", kU32},
    {"I32", kI32},
    {"F32", kF32},
    {"U64", kU64},
    {"I64", kI64},
    {"F64", kF64},
    {"F8_E4M3", kF8E4M3},
    {"F8_E5M2", kF8E5M2},
    {"F8_E8M0", kF8E8M0},
    {"F8_E4M3FNUZ", kF8E4M3Fnuz},
    {"F8_E5M2FNUZ", kF8E5M2Fnuz},
};

}  // namespace

Result<std::unique_ptr<WeightFile>> open_safetensors(std::shared_ptr<const RandomFile> file, StopFlag stop) {
  uint64_t length = 0;
  if (file->size() < static_cast<Bytes>(sizeof length)) {
    return damaged_safetensors(file->path(), "too short for a header");
  }
  XRUN_TRY(file->read(0, std::as_writable_bytes(std::span(&length, 1))));
  const auto most = static_cast<uint64_t>(std::min<Bytes>(file->size() - 8, kMostHeaderBytes));
  std::vector<std::byte> start(8 + std::min(length, most));
  XRUN_TRY(file->read(0, start));
  XRUN_ASSIGN(const SafeHeader header, parse_safetensors(start, file->size(), file->path()));
  XRUN_TRY(check_stop(stop));
  WeightContents contents{.path = file->path()};
  for (const SafeTensor& tensor : header.tensors) {
    const auto dtype = std::ranges::find(kDtypes, tensor.dtype, &Dtype::name);
    if (dtype == std::end(kDtypes)) {
      contents.add_other(tensor.name,
                         fmt::format("{} [{}], which is not read", tensor.dtype, fmt::join(tensor.shape, ", ")));
      continue;
    }
    XRUN_TRY(contents.add(tensor.name,
                          {.dtype = tensor.dtype,
                           .type = dtype->type,
                           .source = bytes_of_file(file, header.header_bytes + tensor.begin, tensor.end - tensor.begin),
                           .dims = tensor.shape}));
  }
  return make_stored_weights(std::move(contents), "safetensors", stop);
}

}  // namespace xrun::runtime
