// Tests: tests/cases/launched_commands_test.cpp
#include "runtime/cli/job/join_world.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <string_view>

#include "graph/base/errors.h"
#include "runtime/checkpoint/files/owner.h"
#include "runtime/cli/job/job_watch.h"
#include "runtime/cluster/launcher.h"

namespace xrun::cli {
namespace {

// Keeps the message only on rank 0. Before the world exists, ranks cannot agree on the rank that prints an error.
Error for_first(const Launch& launch, Error error) {
  if (launch.rank != 0) {
    error.message.clear();
  }
  return error;
}

}  // namespace

Result<std::unique_ptr<runtime::World>> connect_ranks(const GlobalOptions& options, bool direct) {
  XRUN_ASSIGN(const Launch launch, find_launch([](const char* name) { return std::getenv(name); }));
  if (launch.count == 1) {
    return std::unique_ptr<runtime::World>();
  }
  const auto mpi = choose_mpi(launch);
  if (!mpi.ok()) {
    return for_first(launch, mpi.error());
  }
  const StartLimit limit(options, launch.rank, launch.count);
  auto world = runtime::World::join([mpi = *mpi](std::string& error) { return load_mpi(mpi, error); },
                                    runtime::host_name(), direct);
  if (!world.ok()) {
    return for_first(launch, std::move(world).error());
  }
  if ((*world)->count() > 1) {
    return world;
  }
  if (launch.count > 1) {
    return for_first(
        launch, usage_error("XG0832", {"the launcher started {} processes, but MPI finds only this one", launch.count},
                            launcher_help(*mpi)));
  }
  return std::unique_ptr<runtime::World>();
}

Result<std::vector<std::string>> compare_commands(runtime::World& world, const std::string& mine) {
  XRUN_ASSIGN(auto all, world.gather(mine));
  const auto name = [&](size_t rank) {
    const std::string_view text = all[rank];
    const std::string_view whole = text.starts_with(kAlone) ? text.substr(kAlone.size()) : text;
    return std::string(whole.substr(0, whole.find('\n')));
  };
  Status alike;
  const bool alone = std::ranges::all_of(all, [](const std::string& one) { return one.starts_with(kAlone); });
  for (size_t rank = 1; rank < all.size() && alike.ok() && !alone && world.rank() == 0; ++rank) {
    if (all[rank] != all[0]) {
      alike = content_error("XG0833",
                            {"{} was started with another command than rank 0: `xrun {}`, and rank 0 `xrun {}`",
                             world.name(static_cast<int>(rank)), name(rank), name(0)},
                            "start all processes of a launcher with one command");
    }
  }
  XRUN_TRY(world.agree(std::move(alike)));
  return all;
}

Result<std::unique_ptr<runtime::World>> join_world(const GlobalOptions& options, const std::string& command,
                                                   bool direct) {
  XRUN_ASSIGN(auto world, connect_ranks(options, direct));
  if (world != nullptr) {
    const StartLimit limit(options, world->rank(), world->count());
    if (const auto all = compare_commands(*world, command); !all.ok()) {
      Error error = for_one(*world, all.error());
      keep_until_exit(std::move(world));
      return error;
    }
  }
  return world;
}

void keep_until_exit(std::unique_ptr<runtime::World> world) {
  static std::unique_ptr<runtime::World> kept;
  kept = std::move(world);
}

Error for_one(const runtime::World& world, Error error) {
  if (!world.tells(error)) {
    error.message.clear();
  }
  return error;
}

}  // namespace xrun::cli
