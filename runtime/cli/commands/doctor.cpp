// `xrun doctor`: reports what this machine offers and what is missing, one line each.
// Tests: tests/runtime/cli/commands/command_test.cpp, tests/cuda/gpus_test.cpp
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <unistd.h>
#include <utility>

#include "graph/base/utf8.h"
#include "graph/os/cache_file.h"
#include "ops/jit/compiler.h"
#include "ops/simd/isa.h"
#include "runtime/cli/commands/commands.h"
#include "runtime/cli/console/console.h"
#include "runtime/device/cpu/placement.h"
#include "runtime/device/cuda/machine/gpu_probe.h"
#include "runtime/device/host.h"
#include "runtime/device/libraries.h"

namespace xrun::cli {
namespace {

std::string row(const std::string& name, const std::string& what) {
  return fmt::format("  {:<9}{}\n", name, printable_line(what));
}

std::string describe_isa(ops::Isa isa) {
  std::string text{ops::name_of(isa)};
  return ops::has_native_bf16(isa) ? text + ", bf16 in hardware" : text + ", bf16 is rounded and computed in f32";
}

std::string describe_compiler() {
  const ops::JitReport report = ops::open_jit();
  return report.failure            ? report.failure->message + "; " + report.failure->help
         : report.compiler.empty() ? "XRUN_JIT=off: functions and updates are interpreted, with the same results"
                                   : fmt::format("{}, opened in {:.0f} ms", report.compiler, report.open_time * 1e3);
}

std::string describe_cache() {
  const std::string directory = cache_directory();
  if (directory.empty()) {
    return "none: neither XDG_CACHE_HOME nor HOME names a directory";
  }
  std::error_code ignored;
  std::filesystem::create_directories(directory, ignored);
  return access(directory.c_str(), W_OK) == 0
             ? directory
             : directory + " cannot be written: fonts are drawn and kernels timed again each time";
}

// The longest time of a detection of GPUs. A driver that is not loaded needs some seconds for a machine of eight GPUs.
constexpr Seconds kMostDetection = 20;

cuda::Gpus detect_gpus() { return cuda::GpuProbe().wait(kMostDetection); }

// The cores that this process may use, by NUMA node.
std::map<int, int> cores_by_node() {
  std::map<int, int> cores;
  for (const runtime::Core& core : runtime::read_cpu_topology().cores) {
    ++cores[core.node];
  }
  return cores;
}

std::string describe_nodes(const std::map<int, int>& nodes) {
  std::string text;
  for (const auto& [node, cores] : nodes) {
    text += fmt::format("{}node {} with {} {}", text.empty() ? "" : ", ", node, cores, cores == 1 ? "core" : "cores");
  }
  return text;
}

// The report as one JSON object, sizes in bytes.
std::string report_json(const runtime::Host& host, ops::Isa isa) {
  nlohmann::ordered_json json{{"v", 1},
                              {"cpu", host.cpu},
                              {"cores", host.cores},
                              {"isa", ops::name_of(isa)},
                              {"native_bf16", ops::has_native_bf16(isa)}};
  json["numa_nodes"] = nlohmann::ordered_json::array();
  for (const auto& [node, cores] : cores_by_node()) {
    json["numa_nodes"].push_back({{"node", node}, {"cores", cores}});
  }
  json["l2_cache"] = host.l2_cache;
  json["l3_cache"] = host.l3_cache;
  json["memory_total"] = host.memory_total;
  json["memory_free"] = host.memory_free;
  for (const auto& [name, version] : runtime::library_versions()) {
    json["libraries"][name] = version;
  }
  const ops::JitReport jit = ops::open_jit();
  json["compiler"] = jit.compiler;
  if (jit.failure) {
    json["compiler_failure"] = jit.failure->message;
  }
  json["gpus"] = nlohmann::ordered_json::array();
  const cuda::Gpus gpus = detect_gpus();
  json["cuda"] = {{"driver", gpus.driver}, {"error", gpus.error}};
  for (const cuda::Gpu& gpu : gpus.found) {
    json["gpus"].push_back({{"name", gpu.name}, {"memory", gpu.memory}, {"capability", gpu.capability}});
  }
  json["cache"] = cache_directory();
  return json_line(json);
}

}  // namespace

Outcome<int> run_doctor(const GlobalOptions& options) {
  const Console console(options);
  XRUN_ASSIGN(const ops::Isa isa, ops::choose_isa());
  const runtime::Host host = runtime::detect_host();
  if (console.json()) {
    console.out(report_json(host, isa));
    return 0;
  }
  std::string out = row("cpu", fmt::format("{}, {} {}", host.cpu, host.cores, host.cores == 1 ? "core" : "cores"));
  if (const auto nodes = cores_by_node(); nodes.size() > 1) {
    out += row("nodes", describe_nodes(nodes));
  }
  out += row("isa", describe_isa(isa));
  out += row("cache", fmt::format("L2 {} a core, L3 {}", format_bytes(host.l2_cache), format_bytes(host.l3_cache)));
  out +=
      row("memory", fmt::format("{} in all, {} free", format_bytes(host.memory_total), format_bytes(host.memory_free)));
  std::string libraries;
  for (const auto& [name, version] : runtime::library_versions()) {
    libraries += fmt::format("{}{} {}", libraries.empty() ? "" : ", ", name, version);
  }
  out += row("library", libraries);
  out += row("compiler", describe_compiler());
  std::string gpu = "gpu";
  for (const std::string& line : cuda::describe(detect_gpus())) {
    out += row(std::exchange(gpu, ""), line);
  }
  out += row("files", describe_cache());
  if (host.memory_free < 2 * kGiB) {
    out += row("", "warning: less than 2 GiB are free; plans may not fit");
  }
  console.out(out);
  return 0;
}

}  // namespace xrun::cli
