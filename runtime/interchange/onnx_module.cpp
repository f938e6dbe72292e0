#include "runtime/interchange/onnx_module.h"

#include <dlfcn.h>
#include <string_view>
#include <unistd.h>

#include "graph/base/errors.h"
#include "graph/os/durable.h"
#include "graph/os/modules.h"
#include "runtime/interchange/onnx_initializers.h"

namespace xrun::runtime {
namespace {

constexpr std::string_view kModule = "xrun_onnx.so";

struct Module {
  WriteOnnx write = nullptr;
  ListOnnx list = nullptr;
  DecodeOnnx decode = nullptr;
};

Result<Module> open_module() {
  const std::string path = module_path(kModule);
  if (::access(path.c_str(), F_OK) != 0) {
    return world_error("XG0931", {"{} is not next to the program", kModule},
                       "install libonnx-dev and build again: without it, no ONNX file can be written or read");
  }
  void* const module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const build = module != nullptr ? ::dlsym(module, kOnnxBuild) : nullptr;
  const auto find = [&](const char* name) { return build != nullptr ? ::dlsym(module, name) : nullptr; };
  void* const write = find(kWriteOnnx);
  void* const list = find(kListOnnx);
  void* const decode = find(kDecodeOnnx);
  if (write == nullptr || list == nullptr || decode == nullptr) {
    const char* const reason = ::dlerror();
    return world_error("XG0931", {"{} cannot be loaded: {}", path, reason != nullptr ? reason : "no reason is given"},
                       "install libonnx1 and libprotobuf32, or build again");
  }
  if (static_cast<const char*>(build) != std::string_view(XRUN_ONNX_BUILD)) {
    return world_error("XG0931", {"{} is of another build of xrun", path},
                       "build again, so that both are of one build");
  }
  return Module{reinterpret_cast<WriteOnnx>(write), reinterpret_cast<ListOnnx>(list),
                reinterpret_cast<DecodeOnnx>(decode)};
}

const Result<Module>& onnx_module() {
  static const Result<Module> opened = open_module();
  return opened;
}

}  // namespace

Result<OnnxWritten> write_onnx(const ops::OnnxGraph& graph, const ConstantValues& values, const OnnxFile& file) {
  const Result<Module>& module = onnx_module();
  return module.ok() ? module.value().write(graph, values, file) : module.error();
}

Result<OnnxInitializers> list_onnx(int file, const std::string& path) {
  const Result<Module>& module = onnx_module();
  return module.ok() ? module.value().list(file, path) : module.error();
}

Result<std::vector<std::byte>> decode_onnx(std::span<const std::byte> message, const std::string& path) {
  const Result<Module>& module = onnx_module();
  return module.ok() ? module.value().decode(message, path) : module.error();
}

Status check_data_place(const ops::OnnxGraph& graph, const std::string& path, Bytes most_inside) {
  constexpr FileKind kKind{.name = "file of constants that xrun wrote", .code = "XG0901", .magic = kOnnxDataMagic};
  Bytes bytes = 0;
  for (const ops::OnnxTensor& constant : graph.constants) {
    bytes += weight_bytes(constant);
  }
  return bytes > most_inside ? check_place(path + ".data", kKind) : Status();
}

}  // namespace xrun::runtime
