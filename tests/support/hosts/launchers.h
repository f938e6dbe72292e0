// The launchers of runs with several processes, Open MPI's and MPICH's. Tests that need a launcher are skipped if it is
// not installed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/command.h"

namespace xrun::testing {

struct Launcher {
  std::string path;
  std::string module;              // file name of the xrun module for this MPI in this build
  std::string packages;            // packages that provide the launcher and its library
  std::string rank;                // environment variable that holds a process's rank
  std::vector<std::string> words;  // options that allow more ranks than cores
  std::vector<std::pair<std::string, std::string>> environment;

  // Returns why the launcher cannot be used, or an empty string if it can.
  std::string missing() const {
    if (!std::filesystem::exists(path)) {
      return "no " + path + " (" + packages + ")";
    }
    return std::filesystem::exists(std::filesystem::path(XRUN_BINARY_DIR) / module)
               ? ""
               : "this build has no " + module + " (" + packages + ")";
  }

  // Runs a command on `ranks` ranks.
  CommandResult run(int ranks, const std::vector<std::string>& command, CommandOptions options) const {
    const std::vector<std::string> all = words_for(ranks, command);
    options.binary = all[0];
    options.environment.insert(options.environment.end(), environment.begin(), environment.end());
    return run_xrun({all.begin() + 1, all.end()}, options);
  }
  // Runs the command below `xrun train --restarts 0`, which kills a launcher that outlives its ranks.
  CommandResult run_watched(int ranks, const std::vector<std::string>& command, CommandOptions options) const {
    std::vector<std::string> all{"train", "--restarts", "0", "--"};
    const std::vector<std::string> own = words_for(ranks, command);
    all.insert(all.end(), own.begin(), own.end());
    options.environment.insert(options.environment.end(), environment.begin(), environment.end());
    return run_xrun(all, options);
  }
  std::vector<std::string> words_for(int ranks, const std::vector<std::string>& command) const {
    std::vector<std::string> all{path};
    all.insert(all.end(), words.begin(), words.end());
    all.insert(all.end(), {"-n", std::to_string(ranks)});
    all.insert(all.end(), command.begin(), command.end());
    return all;
  }
};

inline Launcher open_mpi() {
  return {.path = "/usr/bin/mpirun",
          .module = "libxrun_mpi.so",
          .packages = "openmpi-bin, libopenmpi-dev",
          .rank = "OMPI_COMM_WORLD_RANK",
          .words = {"--oversubscribe", "--bind-to", "none"},
          .environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}}};
}

inline Launcher mpich() {
  return {.path = "/usr/bin/mpiexec.mpich",
          .module = "libxrun_mpich.so",
          .packages = "mpich, libmpich-dev",
          .rank = "PMI_RANK",
          .words = {},
          .environment = {}};
}

}  // namespace xrun::testing
