#include "runtime/cluster/launcher.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>
#include <optional>

#include "graph/base/errors.h"
#include "graph/os/modules.h"

namespace xrun::cli {
namespace {

struct MpiNames {
  const char* name;
  const char* module;
  const char* package;  // Debian package needed to build the module
  const char* launchers;
};

MpiNames names_of(Mpi mpi) {
  return mpi == Mpi::kOpenMpi
             ? MpiNames{"Open MPI", "libxrun_mpi.so", "libopenmpi-dev", "`mpirun`, or `srun --mpi=pmix`"}
             : MpiNames{"MPICH", "libxrun_mpich.so", "libmpich-dev", "`mpiexec`, or `srun --mpi=pmi2`"};
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
    return Launch{.count = *count, .rank = value("OMPI_COMM_WORLD_RANK").value_or(0), .mpis = {Mpi::kOpenMpi}};
  }
  // The variables of PMI come before those of Slurm: if Hydra starts its proxies by srun, ranks inherit the proxy's
  // variables of Slurm.
  const auto rank_in_pmi = value("PMI_RANK");
  if (rank_in_pmi && value("MPI_LOCALRANKID")) {
    return Launch{.count = value("PMI_SIZE").value_or(0), .rank = *rank_in_pmi, .mpis = {Mpi::kMpich}};
  }
  const auto tasks = value("SLURM_STEP_NUM_TASKS");
  if (const auto rank = value("PMIX_RANK")) {
    return Launch{.count = tasks.value_or(0), .rank = *rank, .mpis = {Mpi::kOpenMpi, Mpi::kMpich}};
  }
  if (rank_in_pmi) {
    // Open MPI is not tried: if it was built without PMI, as Debian's is, it ends the process in MPI_Init.
    return Launch{.count = value("PMI_SIZE").value_or(0), .rank = *rank_in_pmi, .mpis = {Mpi::kMpich}};
  }
  if (tasks.value_or(1) > 1) {
    Error error =
        usage_error("XG0832", {"Slurm started {} processes that cannot find each other: it gives them no PMIx", *tasks},
                    "start them with `srun --mpi=pmix`, or one of them with `srun -n 1`");
    if (value("SLURM_PROCID").value_or(0) != 0) {
      error.message.clear();  // only the first process prints the error
    }
    return error;
  }
  return Launch{};
}

bool has_module(Mpi mpi) {
  std::error_code ignored;
  return std::filesystem::exists(module_path(names_of(mpi).module), ignored);
}

Result<Mpi> choose_mpi(const Launch& launch, const std::function<bool(Mpi)>& is_built) {
  const auto chosen = std::ranges::find_if(launch.mpis, is_built);
  if (chosen != launch.mpis.end()) {
    return *chosen;
  }
  const MpiNames missing = names_of(launch.mpis.at(0));
  const Mpi other = launch.mpis[0] == Mpi::kOpenMpi ? Mpi::kMpich : Mpi::kOpenMpi;
  return world_error(
      "XG0832",
      {"a launcher of {} started several processes, but this xrun was built without {}: {} is not next to the program",
       missing.name, missing.name, missing.module},
      fmt::format("{}install {} and build again{}", is_built(other) ? launcher_help(other) + "; or " : "",
                  missing.package, is_built(other) ? "" : ", or start one process"));
}

std::string launcher_help(Mpi mpi) {
  const MpiNames names = names_of(mpi);
  return fmt::format("start them with the launcher of {}: {}", names.name, names.launchers);
}

std::unique_ptr<runtime::Messenger> load_mpi(Mpi mpi, std::string& error) {
  // RTLD_GLOBAL: MPI loads plugins, which need the symbols of its own library.
  void* const module = ::dlopen(module_path(names_of(mpi).module).c_str(), RTLD_NOW | RTLD_GLOBAL);
  void* const make = module == nullptr ? nullptr : ::dlsym(module, "xrun_make_messenger");
  if (make == nullptr) {
    error = ::dlerror();
    return nullptr;
  }
  using Make = runtime::Messenger* (*)(std::string*);
  return std::unique_ptr<runtime::Messenger>(reinterpret_cast<Make>(make)(&error));
}

}  // namespace xrun::cli
