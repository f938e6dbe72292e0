// `xrun bench comm`: the limits of its flags, the ranks that a launcher has started, and the report.
// Tests: tests/runtime/cli/commands/bench_test.cpp
#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "runtime/bench/collectives.h"
#include "runtime/bench/command/benchmark.h"
#include "runtime/bench/command/machine_name.h"
#include "runtime/cli/job/join_world.h"
#include "runtime/comm/ranks/rank_communicator.h"
#include "runtime/device/host.h"

namespace xrun::cli {
namespace {

constexpr int64_t kMostMib = 1 << 16;
constexpr int64_t kMostRounds = 10'000;

class CommBenchmark final : public Benchmark {
 public:
  explicit CommBenchmark(const CommBenchArgs& args) : args_(args) {}

  Outcome<BenchReport> run(const GlobalOptions& options) override {
    XRUN_ASSIGN(world_, join_world(options, "bench comm", !args_.messages));
    auto report = measure(options, world_.get());
    if (world_ == nullptr) {
      return with_sources(std::move(report), {});
    }
    const bool tells = report.ok() || world_->tells(report.error());
    world_->leave(report.ok() ? std::nullopt : std::optional(report.error()));
    return tells ? with_sources(std::move(report), {}) : Failure::silent(exit_code(report.error().kind));
  }

 private:
  // `world`: all ranks that a launcher started; null if this process runs alone.
  Result<BenchReport> measure(const GlobalOptions& options, runtime::World* world) const {
    const runtime::Host host = runtime::detect_host();
    runtime::CollectiveCase one;
    int devices_here = one.devices;
    if (world != nullptr) {
      one.devices = world->count();
      one.first = world->rank();
      one.own = 1;
      devices_here = ranks_here(*world);
    }
    const int cores = options.threads > 0 ? options.threads : host.cores;
    one.threads = std::max(1, cores / devices_here);
    Status fits = check(devices_here, host);
    XRUN_TRY(world == nullptr ? std::move(fits) : world->agree(std::move(fits)));
    one.bytes = args_.mib * kMiB;
    one.rounds = static_cast<int>(args_.rounds);
    const auto make = [&](const runtime::DeviceSet& devices, std::span<const runtime::Exchange> exchanges) {
      return std::unique_ptr<runtime::Communicator>(std::make_unique<runtime::RankCommunicator>(
          *world, devices, [](int device) { return device; }, exchanges));
    };
    XRUN_ASSIGN(const auto figures,
                runtime::measure_collectives(one, world == nullptr ? runtime::MakeCommunicator() : make));
    return world == nullptr || world->rank() == 0 ? report(figures, one, world, host) : BenchReport();
  }

  // Checks that the machine has memory for four arrays per device. That is a little more than is mapped: three arrays
  // and one share.
  Status check(int devices_here, const runtime::Host& host) const {
    XRUN_TRY(check_number("--mib", args_.mib, kMostMib, "64"));
    XRUN_TRY(check_number("--rounds", args_.rounds, kMostRounds, "9"));
    const Bytes bytes = 4 * devices_here * args_.mib * kMiB;
    if (bytes > host.memory_free) {
      const Bytes most = host.memory_free / (4 * devices_here * kMiB);
      return usage_error("",
                         {"`--mib {}` needs {} of memory, {} are free", args_.mib, format_bytes(bytes),
                          format_bytes(host.memory_free)},
                         most > 0 ? Text("give a smaller number: --mib {}", most) : Text("free some memory first"));
    }
    return {};
  }

  static int ranks_here(const runtime::World& world) {
    return static_cast<int>(std::ranges::count(world.hosts(), world.hosts()[static_cast<size_t>(world.rank())]));
  }

  BenchReport report(const runtime::CollectiveFigures& figures, const runtime::CollectiveCase& one,
                     const runtime::World* world, const runtime::Host& host) const {
    const std::string where = world == nullptr ? "in one process" : "of ranks, " + world->spread();
    int direct = 0;
    for (int rank = 1; world != nullptr && rank < world->count(); ++rank) {
      direct += world->memory_of(rank) != nullptr ? 1 : 0;
    }
    BenchReport report;
    report.fields = {{"comm", fmt::format("{} devices {}, {} {} each, an array of {} MiB", one.devices, where,
                                          one.threads, one.threads == 1 ? "thread" : "threads", args_.mib)}};
    report.json = {{"v", 1},
                   {"benchmark", "comm"},
                   {"devices", one.devices},
                   {"ranks", world == nullptr ? 1 : world->count()},
                   {"threads", one.threads},
                   {"bytes", one.bytes},
                   {"cpu", host.cpu}};
    for (const auto& [name, times] :
         {std::pair("all_gather", figures.all_gather), std::pair("reduce_scatter", figures.reduce_scatter)}) {
      const Seconds time = median(times);
      const Seconds least = std::ranges::min(times);
      const double rate = static_cast<double>(one.bytes) / time;
      report.fields.push_back({name, fmt::format("{:.2f} GB/s: {} (least {}, {})", rate / 1e9, format_seconds(time),
                                                 format_seconds(least), counted(std::ssize(times), "round"))});
      report.json[name] = {{"bytes_per_s", rate}, {"median_s", time}, {"min_s", least}, {"seconds", times}};
    }
    if (world != nullptr) {
      report.fields.push_back({"copies", fmt::format("to rank 0 directly from {} and by messages from {} of the others",
                                                     direct, world->count() - 1 - direct)});
      report.json["direct_ranks"] = direct;
    }
    report.fields.push_back({"machine", machine_name(host)});
    return report;
  }

  // The world is destroyed with the benchmark, after the report is printed. Its destructor waits for all ranks, since a
  // launcher kills the other ranks soon after the first one has ended.
  std::unique_ptr<runtime::World> world_;
  CommBenchArgs args_;
};

}  // namespace

std::unique_ptr<Benchmark> make_comm_benchmark(const CommBenchArgs& args) {
  return std::make_unique<CommBenchmark>(args);
}

}  // namespace xrun::cli
