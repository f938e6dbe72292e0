// Tests: tests/cases/launched_commands_test.cpp
#include "runtime/cli/job/join_world.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <string_view>

#include "graph/base/errors.h"
#include "runtime/checkpoint/files/owner.h"
#include "runtime/cli/console/console.h"
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

// Waits for all ranks, as join_world does, but does not compare their commands.
Result<std::unique_ptr<runtime::World>> connect(const GlobalOptions& options, bool direct) {
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

// Ranks exchange their commands as texts. The text of a command that runs in one process (run_once) begins with this.
constexpr std::string_view kAlone = "alone ";

// Checks that no rank runs a command that conflicts with `mine`. Returns the commands that all ranks sent.
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

}  // namespace

Result<std::unique_ptr<runtime::World>> join_world(const GlobalOptions& options, const std::string& command,
                                                   bool direct) {
  XRUN_ASSIGN(auto world, connect(options, direct));
  if (world != nullptr) {
    const StartLimit limit(options, world->rank(), world->count());
    if (const auto all = compare_commands(*world, command); !all.ok()) {
      return for_one(*world, all.error());
    }
  }
  return world;
}

int run_once(const GlobalOptions& options, const std::string& command, const std::vector<std::string>& words,
             const std::function<int()>& action) {
  const Console console(options);
  const auto fail = [&](const Error& error) {
    return error.message.empty() ? exit_code(error.kind) : console.fail(error);
  };
  auto joined = connect(options, true);
  if (!joined.ok()) {
    return fail(joined.error());
  }
  if (*joined == nullptr) {
    return action();
  }
  runtime::World& world = **joined;
  std::error_code ignored;
  std::string mine = fmt::format("{}{}\n{}", kAlone, command, std::filesystem::current_path(ignored).native());
  for (const std::string& word : words) {
    mine += "\n" + word;
  }
  const auto all = compare_commands(world, mine);
  if (!all.ok()) {
    return fail(for_one(world, all.error()));
  }
  if (std::ranges::any_of(*all, [&](const std::string& one) { return one != all->front(); })) {
    world.end();
    return action();
  }
  if (world.rank() == 0) {
    console.note(
        fmt::format("note: `xrun {}` works in one process, so of the {} that were started only rank 0 runs it\n",
                    command, world.count()));
  }
  const auto exits = world.gather(std::to_string(world.rank() == 0 ? action() : 0));
  return exits.ok() ? std::atoi((*exits)[0].c_str()) : fail(for_one(world, exits.error()));
}

Error for_one(const runtime::World& world, Error error) {
  if (!world.tells(error)) {
    error.message.clear();
  }
  return error;
}

}  // namespace xrun::cli
