#include "runtime/cli/job/run_command.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>

#include "runtime/cli/console/console.h"
#include "runtime/cli/job/join_world.h"

namespace xrun::cli {

int finish(const Outcome<int>& ended, const GlobalOptions& options) {
  return ended.ok() ? *ended : Console(options).fail(ended.error());
}

int run_once(const GlobalOptions& options, const std::string& command, const std::vector<std::string>& words,
             const std::function<Outcome<int>()>& action) {
  auto joined = connect_ranks(options, true);
  if (!joined.ok()) {
    return finish(joined.error(), options);
  }
  if (*joined == nullptr) {
    return finish(action(), options);
  }
  runtime::World& world = **joined;
  std::error_code ignored;
  std::string mine = fmt::format("{}{}\n{}", kAlone, command, std::filesystem::current_path(ignored).native());
  for (const std::string& word : words) {
    mine += "\n" + word;
  }
  const auto all = compare_commands(world, mine);
  if (!all.ok()) {
    return finish(for_one(world, all.error()), options);
  }
  if (std::ranges::any_of(*all, [&](const std::string& one) { return one != all->front(); })) {
    world.end();
    return finish(action(), options);
  }
  if (world.rank() == 0) {
    Console(options).note(
        fmt::format("note: `xrun {}` works in one process, so of the {} that were started only rank 0 runs it\n",
                    command, world.count()));
  }
  const auto exits = world.gather(std::to_string(world.rank() == 0 ? finish(action(), options) : 0));
  return exits.ok() ? std::atoi((*exits)[0].c_str()) : finish(for_one(world, exits.error()), options);
}

int run_in_job(const GlobalOptions& options, const std::string& command,
               const std::function<Outcome<int>(Job&)>& action, const std::function<void(const Job&)>& at_end) {
  auto joined = join_job(options, command);
  if (!joined.ok()) {
    return finish(fail_job({}, joined.error()), options);
  }
  Job job = std::move(joined).value();
  const int exit = finish(action(job), job.options);
  job.work.reset();
  if (at_end) {
    at_end(job);
  }
  return exit;
}

int run_for_job(const GlobalOptions& options, const std::string& command,
                const std::function<Outcome<int>(const GlobalOptions&)>& action) {
  return run_in_job(options, command, [&](Job& job) -> Outcome<int> {
    if (const Status measured = measure_network(job); !measured.ok()) {
      return fail_job(job, measured.error());
    }
    const int exit = job.leads() ? finish(action(job.options), job.options) : 0;
    if (job.world == nullptr) {
      return exit;
    }
    const auto exits = job.world->gather(std::to_string(exit));
    if (!exits.ok()) {
      return fail_job(job, exits.error());
    }
    return std::atoi((*exits)[0].c_str());
  });
}

}  // namespace xrun::cli
