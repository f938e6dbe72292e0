// Tests: tests/cases/gpu_commands_test.cpp
#include "runtime/cli/model/machine_gpus.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <span>
#include <tbb/global_control.h>
#include <utility>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "runtime/cli/console/device_flag.h"
#include "runtime/device/backend.h"
#include "runtime/device/cuda/cuda_backend.h"
#include "runtime/device/cuda/driver/driver_open.h"
#include "runtime/device/cuda/machine/chosen_gpus.h"

namespace xrun::cli {
namespace {

// Rejects flags that are about processors, several processes and nodes.
Status check_request(const GlobalOptions& options, const ClusterSpec& cluster) {
  const std::string flag = "--devices " + cuda::print_numbers(*options.gpus);
  const std::string other = options.threads > 0 ? "--threads" : options.cost == "measured" ? "--cost measured" : "";
  if (!other.empty()) {
    return usage_error("XG0636", {"`{}` is about the processors of this machine, and `{}` names GPUs", other, flag},
                       {"leave out {}, or {}", other, flag});
  }
  if (options.ranks > 1) {
    return usage_error("XG0636",
                       {"`{}` with {} processes: one process runs all GPUs of a machine", flag, options.ranks},
                       "start xrun without mpirun or srun, or use CPUs");
  }
  if (cluster.nodes > 1) {
    return usage_error("XG0636", {"`{}` names GPUs of this machine, and the cluster has {} nodes", flag, cluster.nodes},
                       "leave out `--devices`, or plan for one node: --set cluster.nodes=1");
  }
  return {};
}

// The numbers of the GPUs of a plan's devices.
std::vector<int> numbers_of(const planner::Plan& plan) {
  for (const auto& [name, value] : plan.options) {
    const auto flag = name == "devices" ? parse_device_flag(value) : Result<DeviceFlag>(DeviceFlag());
    if (flag.ok() && flag->gpus && std::ssize(*flag->gpus) == plan.machine.devices) {
      return *flag->gpus;
    }
  }
  std::vector<int> numbers(static_cast<size_t>(plan.machine.devices));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

// GPUs with the functions of their driver.
class DevicesWithDriver final : public runtime::DeviceSet {
 public:
  static Result<std::unique_ptr<runtime::DeviceSet>> open(std::unique_ptr<const cuda::DriverTable> driver,
                                                          std::span<const int> numbers, int workers) {
    std::unique_ptr<DevicesWithDriver> all(new DevicesWithDriver(std::move(driver), workers));
    XRUN_ASSIGN(all->devices_, cuda::make_cuda_devices(*all->driver_, numbers));
    return std::unique_ptr<runtime::DeviceSet>(std::move(all));
  }

  std::span<const std::unique_ptr<runtime::Device>> devices() const override { return devices_->devices(); }
  Result<std::unique_ptr<runtime::HostArena>> map_host(Bytes bytes) const override { return devices_->map_host(bytes); }
  Result<std::unique_ptr<runtime::Backend>> bind(const Module& module, const planner::Program& program,
                                                 const runtime::BoundMemory& memory,
                                                 const runtime::BackendOptions& options) const override {
    return devices_->bind(module, program, memory, options);
  }

 private:
  DevicesWithDriver(std::unique_ptr<const cuda::DriverTable> driver, int workers)
      : workers_(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(workers) + 1),
        driver_(std::move(driver)) {}

  const tbb::global_control workers_;  // without it, TBB has one worker less than there are cores
  std::unique_ptr<const cuda::DriverTable> driver_;
  std::unique_ptr<runtime::DeviceSet> devices_;  // destroyed before the functions
};

}  // namespace

Result<std::optional<MachineGpus>> find_gpus(const GlobalOptions& options, const ClusterSpec& cluster,
                                             const Console& console) {
  if (!options.gpus) {
    return std::optional<MachineGpus>();
  }
  XRUN_TRY(check_request(options, cluster));
  if (options.card) {
    return std::optional(MachineGpus{*options.gpus, *options.card});
  }
  XRUN_ASSIGN(const cuda::DriverTable driver, cuda::open_driver());
  XRUN_ASSIGN(cuda::ChosenGpus chosen, cuda::choose_gpus(driver, *options.gpus));
  if (!console.json()) {
    console.note("note: " + chosen.note + "\n");
  }
  return std::optional(MachineGpus{std::move(chosen.numbers), std::move(chosen.figures)});
}

void use_gpus(const MachineGpus& gpus, planner::Machine& machine) {
  machine.devices = machine.threads = static_cast<int>(gpus.numbers.size());
  machine.gpu = gpus.figures.name;
  machine.device_memory = gpus.figures.memory;
  machine.device_link = gpus.figures.link_rate;
  machine.name = fmt::format("{} x {}", machine.devices, machine.gpu);
}

Status check_processes(const planner::Program& program, int count) {
  if (program.gpu.empty() || count == 1) {
    return {};
  }
  return usage_error("XG0635",
                     {"the plan is for {}, and {} processes were started: one process runs all GPUs of a machine",
                      counted(program.devices, program.gpu + " GPU"), count},
                     "start xrun without mpirun or srun");
}

Result<std::unique_ptr<runtime::DeviceSet>> start_gpus(const planner::Plan& plan, const std::vector<Bytes>& needs,
                                                       int workers) {
  const std::vector<int> numbers = numbers_of(plan);
  if (const std::string why = why_only_planned(plan.machine.gpu); !why.empty()) {
    return content_error("XG0635", {"this plan can be shown, but nothing runs it: {}", why},
                         "plan for the devices of this machine: leave `gpu` and `device` out of the cluster, or give "
                         "--devices cuda:0");
  }
  XRUN_ASSIGN(auto driver, cuda::open_driver());
  XRUN_TRY(cuda::check_chosen(driver, numbers, plan.machine.gpu, needs));
  return DevicesWithDriver::open(std::make_unique<const cuda::DriverTable>(driver), numbers, workers);
}

}  // namespace xrun::cli
