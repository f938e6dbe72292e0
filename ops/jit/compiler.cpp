// The code of a loop is looked up in three places: among the loops of this process, by their description (describe);
// then in the cache of object code on disk, whose key also contains the compiler and the build; and if it is in
// neither, the module compiles it and the object code is stored on disk. If that fails, the loop is interpreted, and
// the report keeps the reason. Kernels of GPUs are looked up and stored likewise, as PTX text.
// Tests: tests/ops/jit/element_loop_test.cpp, tests/gpu_loops/kernels_test.cpp
#include "ops/jit/compiler.h"

#include <cstdlib>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <unistd.h>

#include "graph/os/clock.h"
#include "graph/os/modules.h"
#include "ops/jit/kernel_cache.h"
#include "ops/jit/plugin_api.h"

namespace xrun::ops {
namespace {

constexpr std::string_view kModule = "xrun_jit.so";

// The largest number of operations of a loop that is compiled. Larger loops are interpreted, since the compiler's time
// and memory grow faster than the number of operations.
constexpr size_t kMostCompiledOps = 1000;

Error unavailable(std::string why, std::string fix) {
  return {ErrorKind::kWorld, "XG0821", "functions and updates are interpreted, not compiled: " + std::move(why),
          std::move(fix)};
}

Result<const JitPlugin*> open_module() {
  const std::string path = module_path(kModule);
  if (::access(path.c_str(), F_OK) != 0) {
    return unavailable(std::string(kModule) + " is not next to the program",
                       "install llvm-19-dev and build again; results are the same, slower");
  }
  void* const module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const build = module != nullptr ? ::dlsym(module, kJitBuild) : nullptr;
  void* const symbol = build != nullptr ? ::dlsym(module, kOpenJit) : nullptr;
  if (symbol == nullptr) {
    const char* const reason = ::dlerror();
    return unavailable(path + " cannot be loaded: " + (reason != nullptr ? reason : "no reason is given"),
                       "install libllvm19, or build again");
  }
  if (static_cast<const char*>(build) != std::string_view(XRUN_JIT_BUILD)) {
    return unavailable(path + " is of another build of xrun", "build again, so that both are of one build");
  }
  return reinterpret_cast<OpenJit>(symbol)();
}

class Compiler {
 public:
  void use(bool compiled) {
    const std::lock_guard lock(mutex_);
    used_ = compiled;
  }

  const JitPlugin* open() {
    const std::lock_guard lock(mutex_);
    if (!used_) {
      return nullptr;
    }
    if (!opened_) {
      opened_ = true;
      const Seconds begin = system_clock().now();
      auto plugin = open_module();
      report_.open_time = system_clock().now() - begin;
      if (plugin.ok()) {
        plugin_ = *plugin;
        report_.compiler = plugin_->compiler;
      } else {
        report_.failure = std::move(plugin).error();
      }
    }
    return plugin_;
  }

  LoopCode code_of(const LoopForm& form, Isa isa) {
    const JitPlugin* const plugin = form.expr.operations() <= kMostCompiledOps ? open() : nullptr;
    if (plugin == nullptr) {
      return nullptr;
    }
    const std::string text = describe(form, isa);
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = loops_.find(text); known != loops_.end()) {
        return known->second;
      }
    }
    // Compiles without holding the lock. Two threads may compile the same loop, and both results are correct.
    const Seconds begin = system_clock().now();
    const std::string key = std::string(XRUN_JIT_BUILD) + " " + std::string(plugin->compiler) + " " + text;
    const std::optional<std::string> stored = read_object(key);
    auto loaded = stored ? plugin->load(*stored) : Result<LoadedLoop>(LoadedLoop{});
    const bool cached = loaded.ok() && loaded->code != nullptr;
    if (!cached) {
      const auto object = plugin->compile(form, isa);
      loaded = object.ok() ? plugin->load(*object) : Result<LoadedLoop>(object.error());
      if (!loaded.ok()) {
        return keep_failure(text, loaded.error());
      }
      store_object(key, *object);
    }
    const std::lock_guard lock(mutex_);
    report_.compile_time += system_clock().now() - begin;
    ++(cached ? report_.from_cache : report_.compiled);
    return loops_[text] = loaded->code;
  }

  Result<std::string> ptx_of(const GpuLoop& given, GpuTarget target) {
    GpuLoop loop = given;
    loop.expr.prune();
    XRUN_TRY(check(loop));
    const JitPlugin* const plugin = open();
    if (plugin == nullptr) {
      return no_kernels();
    }
    const std::string text = describe(loop, target);
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = kernels_.find(text); known != kernels_.end()) {
        return known->second;
      }
    }
    const Seconds begin = system_clock().now();
    const std::string key = std::string(XRUN_JIT_BUILD) + " " + std::string(plugin->compiler) + " " + text;
    std::optional<std::string> ptx = read_object(key);
    const bool cached = ptx.has_value();
    if (!cached) {
      XRUN_ASSIGN(ptx, plugin->compile_ptx(loop, target));
      store_object(key, *ptx);
    }
    const std::lock_guard lock(mutex_);
    report_.compile_time += system_clock().now() - begin;
    ++(cached ? report_.kernels_from_cache : report_.compiled_kernels);
    return kernels_[text] = *ptx;
  }

  void forget() {
    const std::lock_guard lock(mutex_);
    loops_.clear();
    kernels_.clear();
  }

  JitReport report() {
    const std::lock_guard lock(mutex_);
    return report_;
  }

 private:
  Error no_kernels() {
    const std::lock_guard lock(mutex_);
    return {ErrorKind::kWorld, "XG0824",
            "no kernel of a GPU can be made: " + (report_.failure ? report_.failure->message : "XRUN_JIT is `off`"),
            report_.failure ? report_.failure->help : "leave XRUN_JIT out; a GPU has no interpreter"};
  }

  LoopCode keep_failure(const std::string& loop, const Error& why) {
    const std::lock_guard lock(mutex_);
    report_.failure = why;
    return loops_[loop] = nullptr;
  }

  std::mutex mutex_;
  bool used_ = true;
  bool opened_ = false;
  const JitPlugin* plugin_ = nullptr;
  std::map<std::string, LoopCode, std::less<>> loops_;
  std::map<std::string, std::string, std::less<>> kernels_;
  JitReport report_;
};

Compiler& compiler() {
  static Compiler* const one = new Compiler;  // never destroyed, because code may run until the process ends
  return *one;
}

}  // namespace

LoopCode compile_loop(const LoopForm& form, Isa isa) { return compiler().code_of(form, isa); }

Result<std::string> compile_ptx(const GpuLoop& loop, GpuTarget target) { return compiler().ptx_of(loop, target); }

Result<bool> choose_jit() {
  const char* const wanted = std::getenv("XRUN_JIT");
  const std::string_view word = wanted != nullptr && *wanted != 0 ? wanted : "on";
  if (word != "on" && word != "off") {
    return Error{ErrorKind::kUsage, "XG0822", "XRUN_JIT is `" + std::string(word) + "`",
                 "`on` compiles functions and updates, `off` interprets them; without XRUN_JIT they are compiled"};
  }
  return word == "on";
}

void use_jit(bool compiled) { compiler().use(compiled); }

void forget_loops() { compiler().forget(); }

JitReport jit_report() { return compiler().report(); }

JitReport open_jit() {
  compiler().open();
  return jit_report();
}

}  // namespace xrun::ops
