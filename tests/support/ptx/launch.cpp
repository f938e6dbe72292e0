// Tests: tests/ptx/launch_test.cpp
#include "tests/support/ptx/launch.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

#include "graph/base/check.h"
#include "tests/support/ptx/block.h"

namespace xrun::ptx {

namespace {

constexpr uint64_t kMostLocal = uint64_t{16} << 20;  // bytes of all threads of a block; a limit of this machine

// Limits of a multiprocessor. Source: CUDA C++ Programming Guide 13.0, "Compute Capabilities".
struct Limits {
  uint64_t shared = 0;  // bytes of a block, of which more than 48 KiB only as dynamic memory
  uint64_t registers = 65536;
  uint64_t threads = 1024;  // in a block
  uint64_t static_shared = 48 * 1024;
  uint64_t local = 512 * 1024;  // bytes of a thread
};

Limits limits_of(Generation generation) {
  return {.shared = (generation == Generation::kA100 ? 163ULL : 227ULL) * 1024};
}

// A text for `sm_90` runs on newer generations too, one for `sm_90a` does not.
std::optional<std::string> wrong_target(const Module& module, Generation generation) {
  const int own = generation == Generation::kA100 ? 80 : generation == Generation::kH100 ? 90 : 100;
  const int needed = target_number(module.target);
  if (needed > own || (module.target.ends_with('a') && needed != own)) {
    return fmt::format("the text is for `{}`, but the GPU is `sm_{}`", module.target, own);
  }
  return std::nullopt;
}

std::optional<std::string> fault_of(const Kernel& kernel, const Launch& launch, const Options& options) {
  const Limits limits = limits_of(options.generation);
  const auto count = [](const std::array<uint32_t, 3>& size) { return uint64_t{size[0]} * size[1] * size[2]; };
  const uint64_t threads = count(launch.threads);
  const auto& blocks = launch.blocks;
  if (std::ranges::count(launch.threads, 0U) != 0 || std::ranges::count(blocks, 0U) != 0) {
    return "a launch needs blocks and threads";
  }
  if (std::ranges::any_of(launch.threads, [&](uint32_t size) { return size > limits.threads; }) ||
      threads > limits.threads || launch.threads[2] > 64) {
    return fmt::format("a block of {} threads; a multiprocessor takes {}, and 64 in the third dimension", threads,
                       limits.threads);
  }
  if (blocks[0] > 0x7fffffff || blocks[1] > 65535 || blocks[2] > 65535 || count(blocks) > 0x7fffffff) {
    return "the grid has too many blocks";
  }
  // Registers are handed out to warps in units of 256, 8 for each thread.
  const uint64_t for_thread = (uint64_t{launch.registers} + 7) / 8 * 8;
  const uint64_t registers = (threads + kLanes - 1) / kLanes * kLanes * for_thread;
  if (registers > limits.registers || launch.registers > 255) {
    return fmt::format("{} threads with {} registers each need {}; a multiprocessor has {}, and 255 for a thread",
                       threads, launch.registers, registers, limits.registers);
  }
  if (kernel.shared_bytes > limits.static_shared) {
    return fmt::format("{} bytes of static shared memory; a block has at most {}", kernel.shared_bytes,
                       limits.static_shared);
  }
  if (kernel.shared_bytes + launch.dynamic_shared > limits.shared) {
    return fmt::format("{} bytes of shared memory; a block has at most {}", kernel.shared_bytes + launch.dynamic_shared,
                       limits.shared);
  }
  if (kernel.local_bytes > limits.local || threads * kernel.local_bytes > kMostLocal) {
    return fmt::format("{} bytes of local memory for each thread; a thread has at most {}, and a block here {}",
                       kernel.local_bytes, limits.local, kMostLocal);
  }
  const auto& most = kernel.most_threads;
  if (most[0] != 0 && (threads > count(most) || (kernel.exact_threads && launch.threads != most))) {
    return fmt::format("the kernel is compiled for blocks of {} x {} x {} threads", most[0], most[1], most[2]);
  }
  if (!launch.parameters.empty()) {
    return launch.parameters.size() == kernel.parameter_bytes
               ? std::nullopt
               : std::optional(fmt::format("{} bytes for {} bytes of parameters", launch.parameters.size(),
                                           kernel.parameter_bytes));
  }
  if (launch.arguments.size() != kernel.parameters.size()) {
    return fmt::format("{} arguments for {} parameters", launch.arguments.size(), kernel.parameters.size());
  }
  for (const Variable& parameter : kernel.parameters) {
    if (parameter.bytes > 8) {
      return fmt::format("the parameter `{}` has more than 8 bytes: give the parameters as bytes", parameter.name);
    }
  }
  return std::nullopt;
}

Buffer parameters_of(const Kernel& kernel, const Launch& launch) {
  Buffer buffer("parameters", kParamBase, kernel.parameter_bytes, true);
  if (!launch.parameters.empty()) {
    buffer.set(0, launch.parameters);
    return buffer;
  }
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    const Variable& parameter = kernel.parameters[i];
    buffer.set(parameter.address - kParamBase,
               std::as_bytes(std::span(&launch.arguments[i], 1)).first(parameter.bytes));
  }
  return buffer;
}

}  // namespace

Execution execute(const Module& module, std::string_view kernel_name, const Launch& launch, Memory& memory,
                  const Options& options) {
  const Kernel* const kernel = module.find(kernel_name);
  XRUN_CHECK(kernel != nullptr, "the module has no such kernel");
  Execution execution;
  auto cause = wrong_target(module, options.generation);
  if (!cause) {
    cause = fault_of(*kernel, launch, options);
  }
  if (cause) {
    execution.fault = Fault{.kind = FaultKind::kLaunch,
                            .kernel = kernel->name,
                            .source = "",
                            .line = kernel->line,
                            .instruction = "",
                            .buffer = "",
                            .cause = *std::move(cause)};
    return execution;
  }
  memory.add_variables(module);
  LaunchState state{.module = module,
                    .kernel = *kernel,
                    .launch = launch,
                    .options = options,
                    .memory = memory,
                    .parameters = parameters_of(*kernel, launch),
                    .number = memory.begin_launch(),
                    .random = std::mt19937_64(options.seed),
                    .published = {},
                    .fault = std::nullopt};
  std::vector<uint32_t> order(launch.blocks[0] * launch.blocks[1] * launch.blocks[2]);
  std::iota(order.begin(), order.end(), 0);
  if (options.order == Order::kReversed) {
    std::ranges::reverse(order);
  } else if (options.order != Order::kFair) {
    std::ranges::shuffle(order, state.random);
  }
  for (const uint32_t index : order) {
    if (state.fault) {
      break;
    }
    Block(state, index).run();
  }
  execution.fault = std::move(state.fault);
  execution.warp_instructions = state.instructions;
  execution.thread_instructions = state.thread_instructions;
  return execution;
}

}  // namespace xrun::ptx
