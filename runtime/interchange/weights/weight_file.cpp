// The first bytes of a file give its format:
//   PK 03 04               a zip archive: PyTorch
//   80                     a pickle of protocol 2 or later: PyTorch before 1.6, PaddlePaddle
//   u64 n, then {          safetensors
//   {                      JSON: the index of a set of shards
//   08                     protobuf with the field 1 of an ONNX model, the version of its format
#include "runtime/interchange/weights/weight_file.h"

#include <array>
#include <fmt/format.h>
#include <string_view>
#include <utility>

#include "graph/base/errors.h"
#include "runtime/formats/random_file.h"
#include "runtime/formats/tensors/safetensors_header.h"
#include "runtime/interchange/weights/onnx_weights.h"
#include "runtime/interchange/weights/pickle_file.h"
#include "runtime/interchange/weights/safetensors_weights.h"
#include "runtime/interchange/weights/sharded_weights.h"
#include "runtime/interchange/weights/torch_zip.h"

namespace xrun::runtime {
namespace {

constexpr size_t kStart = 64;  // bytes that are looked at

Error unknown_format(const RandomFile& file, std::string_view start) {
  constexpr std::string_view kFormats =
      "name a file of PyTorch (.pth), PaddlePaddle (.pdparams), safetensors or ONNX, or the index of shards "
      "(model.safetensors.index.json)";
  const auto is = [&](std::string_view text) { return start.starts_with(text); };
  if (file.size() == 0) {
    return content_error("XG0412", {"{}: the file is empty", file.path()}, "get the file again");
  }
  if (is("version https://git-lfs")) {
    return content_error("XG0412", {"{}: a pointer of Git LFS, without the weights", file.path()},
                         "git lfs pull, or download the file itself");
  }
  if (is("<!") || is("<html") || is("<HTML")) {
    return content_error("XG0412", {"{}: a web page, not a file of weights", file.path()},
                         "download the file itself: the page has a link to it, or asks for a login");
  }
  if (is("\x1f\x8b")) {
    return content_error("XG0412", {"{}: compressed by gzip", file.path()}, "gunzip it, and name the result");
  }
  const std::string_view what = is("\x89HDF")                          ? "HDF5, as Keras writes it"
                                : is("GGUF")                           ? "GGUF"
                                : start.substr(0, 8).find("TFL3") == 4 ? "TensorFlow Lite"
                                : start.size() > 8 && is("\x93NUMPY")  ? "an array of NumPy"
                                                                       : "an unknown format";
  return content_error("XG0412", {"{}: {}, which is not read as weights", file.path(), what}, std::string(kFormats));
}

bool is_safetensors(const RandomFile& file, std::string_view start) {
  uint64_t length = 0;
  for (size_t i = 8; i-- > 0 && start.size() > 8;) {
    length = length << 8 | static_cast<unsigned char>(start[i]);
  }
  // A longer header than the file is cut short; one above the limit is rejected later.
  return start.size() > 8 && start[8] == '{' && length < (uint64_t{1} << 40) &&
         (length <= static_cast<uint64_t>(kMostHeaderBytes) || file.path().ends_with(".safetensors"));
}

Result<std::unique_ptr<WeightFile>> open(const std::string& path, bool may_be_index, StopFlag stop) {
  XRUN_TRY(check_stop(stop));
  XRUN_ASSIGN(RandomFile opened, RandomFile::open(path));
  auto file = std::make_shared<const RandomFile>(std::move(opened));
  std::array<std::byte, kStart> bytes{};
  const auto held = std::span(bytes).first(static_cast<size_t>(std::min<Bytes>(file->size(), kStart)));
  XRUN_TRY(file->read(0, held));
  const std::string_view start(reinterpret_cast<const char*>(held.data()), held.size());
  if (is_safetensors(*file, start) || (path.ends_with(".safetensors") && start.substr(0, 7) != "version")) {
    return open_safetensors(std::move(file), stop);
  }
  if (start.starts_with("PK\x03\x04")) {
    return open_torch_zip(std::move(file), stop);
  }
  if (start.starts_with('\x80')) {
    return open_pickle_of_weights(std::move(file), stop);
  }
  if (may_be_index && start.substr(std::min(start.find_first_not_of(" \t\r\n"), start.size())).starts_with('{')) {
    return open_shards(
        *file, [stop](const std::string& shard) { return open(shard, false, stop); }, stop);
  }
  if (start.starts_with('\x08') || path.ends_with(".onnx")) {
    return open_onnx_weights(std::move(file), stop);
  }
  return unknown_format(*file, start);
}

}  // namespace

Result<std::unique_ptr<WeightFile>> open_weight_file(const std::string& path, StopFlag stop) {
  return open(path, true, stop);
}

}  // namespace xrun::runtime
