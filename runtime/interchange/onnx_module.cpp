#include "runtime/interchange/onnx_module.h"

#include <dlfcn.h>
#include <string_view>
#include <unistd.h>

#include "graph/base/errors.h"
#include "graph/os/durable.h"
#include "graph/os/modules.h"

namespace xrun::runtime {
namespace {

constexpr std::string_view kModule = "xrun_onnx.so";

struct Module {
  WriteOnnx write = nullptr;
};

Result<Module> open_module() {
  const std::string path = module_path(kModule);
  if (::access(path.c_str(), F_OK) != 0) {
    return world_error("XG0931", {"{} is not next to the program", kModule},
                       "install libonnx-dev and build again: without it, no ONNX file can be written");
  }
  void* const module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const build = module != nullptr ? ::dlsym(module, kOnnxBuild) : nullptr;
  void* const symbol = build != nullptr ? ::dlsym(module, kWriteOnnx) : nullptr;
  if (symbol == nullptr) {
    const char* const reason = ::dlerror();
    return world_error("XG0931", {"{} cannot be loaded: {}", path, reason != nullptr ? reason : "no reason is given"},
                       "install libonnx1 and libprotobuf32, or build again");
  }
  if (static_cast<const char*>(build) != std::string_view(XRUN_ONNX_BUILD)) {
    return world_error("XG0931", {"{} is of another build of xrun", path},
                       "build again, so that both are of one build");
  }
  return Module{reinterpret_cast<WriteOnnx>(symbol)};
}

}  // namespace

Result<OnnxWritten> write_onnx(const ops::OnnxGraph& graph, const ConstantValues& values, const OnnxFile& file) {
  static const Result<Module> opened = open_module();
  if (!opened.ok()) {
    return opened.error();
  }
  return opened->write(graph, values, file);
}

Status check_data_place(const ops::OnnxGraph& graph, const std::string& path, Bytes most_inside) {
  constexpr FileKind kKind{.name = "file of constants that xrun wrote", .code = "XG0901", .magic = kOnnxDataMagic};
  Bytes bytes = 0;
  for (const ops::OnnxTensor& constant : graph.constants) {
    bytes += float_bytes(constant);
  }
  return bytes > most_inside ? check_place(path + ".data", kKind) : Status();
}

}  // namespace xrun::runtime
