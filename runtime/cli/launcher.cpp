#include "runtime/cli/launcher.h"

#include <charconv>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>
#include <optional>

#include "graph/base/errors.h"

namespace xrun::cli {
namespace {

constexpr const char* kModule = "libxrun_mpi.so";

// The module lies beside the program, or where the package puts libraries.
std::filesystem::path module_path() {
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  const auto beside = program / kModule;
  return std::filesystem::exists(beside, ignored) ? beside : program / "../lib/xrun" / kModule;
}

std::optional<int> number(const char* text) {
  int value = 0;
  const char* const end = text == nullptr ? nullptr : text + std::strlen(text);
  const bool whole = text != nullptr && text != end && std::from_chars(text, end, value).ptr == end;
  return whole && value >= 0 ? std::optional(value) : std::nullopt;
}

}  // namespace

Result<Launch> find_launch(const std::function<const char*(const char* name)>& variable) {
  const auto value = [&](const char* name) { return number(variable(name)); };
  if (const auto count = value("OMPI_COMM_WORLD_SIZE")) {
    return Launch{.count = *count, .rank = value("OMPI_COMM_WORLD_RANK").value_or(0)};
  }
  const auto tasks = value("SLURM_STEP_NUM_TASKS");
  if (const auto rank = value("PMIX_RANK")) {
    return Launch{.count = tasks.value_or(0), .rank = *rank};
  }
  if (const auto rank = value("PMI_RANK")) {
    return Launch{.count = value("PMI_SIZE").value_or(0), .rank = *rank};
  }
  if (tasks.value_or(1) > 1) {
    return usage_error("XG0832",
                       {"Slurm started {} processes that cannot find each other: it gives them no PMIx", *tasks},
                       "start them with `srun --mpi=pmix`, or one of them with `srun -n 1`");
  }
  return Launch{};
}

std::string missing_mpi() {
  std::error_code ignored;
  return std::filesystem::exists(module_path(), ignored)
             ? ""
             : fmt::format("{} is not beside the program: this xrun was built without MPI", kModule);
}

std::unique_ptr<runtime::Messenger> load_mpi(std::string& error) {
  // RTLD_GLOBAL: MPI loads plugins, which need the symbols of its own library.
  void* const module = ::dlopen(module_path().c_str(), RTLD_NOW | RTLD_GLOBAL);
  void* const make = module == nullptr ? nullptr : ::dlsym(module, "xrun_make_messenger");
  if (make == nullptr) {
    error = ::dlerror();
    return nullptr;
  }
  using Make = runtime::Messenger* (*)(std::string*);
  return std::unique_ptr<runtime::Messenger>(reinterpret_cast<Make>(make)(&error));
}

}  // namespace xrun::cli
