#include "planner/plan_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "graph/base/sha256.h"
#include "graph/os/durable.h"
#include "planner/codec/plan_codec.h"
#include "planner/program/run_memory.h"
#include "planner/report/reason_text.h"
#include "planner/stale_plan.h"
#include "planner/verify/verify_parts.h"
#include "planner/verify/verify_program.h"

namespace xrun::planner {
namespace {

// The maximum size of a plan file in bytes. A plan for hundreds of devices takes some tens of MiB.
constexpr uintmax_t kLargest = 1 << 30;

constexpr std::string_view kMagic = "XPLN";
constexpr FileKind kPlanFile{.name = "plan", .code = "XG0627", .offset = 4, .magic = kMagic};

constexpr PlanTexts kTexts{choice_text, reason_text, settings_text, note_text};

Error damaged(const std::string& name, const std::string& what) {
  return {ErrorKind::kContent, "XG0621", "`" + name + "` " + what, "make the plan again with `xrun plan`"};
}

Error stale(const std::string& what) {
  return {ErrorKind::kContent, "XG0625", what, "make the plan again with `xrun plan`"};
}

// Runs the checks of docs/reference/formats.md, "Plan files", that need no graph.
Status verify_loaded(const Program& program) {
  XRUN_TRY(verify_structure(program, nullptr));
  XRUN_TRY(verify_passes(program));
  XRUN_TRY(verify_order(program));
  return verify_memory(program, 0);
}

}  // namespace

std::vector<std::byte> plan_bytes(const Plan& plan) {
  std::vector<std::byte> bytes = encode_plan(plan, kPlanSchema, kTexts);
  const Sha256 digest = sha256(bytes);
  bytes.insert(bytes.end(), digest.begin(), digest.end());
  return bytes;
}

Result<Plan> load_plan_bytes(std::span<const std::byte> bytes, const std::string& name, const OpRegistry* ops) {
  if (bytes.size() < 8 + sizeof(Sha256) || std::memcmp(bytes.data() + 4, kMagic.data(), kMagic.size()) != 0) {
    return damaged(name, "is not a plan file");
  }
  const size_t size = bytes.size() - sizeof(Sha256);
  if (!std::ranges::equal(bytes.subspan(size), sha256(bytes.first(size)))) {
    return damaged(name, "is truncated or damaged: its SHA-256 does not match");
  }
  // The copy has the alignment that the format requires.
  const std::vector<std::byte> aligned(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
  XRUN_ASSIGN(DecodedPlan decoded, decode_plan(aligned, kPlanSchema, name, ops));
  if (decoded.schema != kPlanSchema) {
    const bool newer = decoded.schema > kPlanSchema;
    return Error{
        ErrorKind::kContent, "XG0624",
        "`" + name + "` has plan schema " + std::to_string(decoded.schema) + ", " + (newer ? "newer" : "older") +
            " than " + std::to_string(kPlanSchema) + " of this xrun",
        newer ? "use the newer xrun, or make the plan again with this one" : "make the plan again with `xrun plan`"};
  }
  XRUN_TRY(verify_loaded(decoded.plan.training));
  XRUN_TRY(verify_loaded(decoded.plan.inference));
  if (decoded.plan.kept) {
    const Graph& graph = decoded.plan.kept->module.graph;
    XRUN_TRY(verify_structure(decoded.plan.training, &graph));
    XRUN_TRY(verify_nodes(decoded.plan.training, graph));
  }
  return std::move(decoded.plan);
}

Status check_plan_place(const std::string& path) { return check_place(path, kPlanFile); }

Status save_plan(const Plan& plan, const std::string& path) {
  const std::vector<std::byte> bytes = plan_bytes(plan);
  const std::span<const std::byte> all = bytes;
  return replace_file(path, Pieces(&all, 1), kPlanFile);
}

Result<Plan> load_plan(const std::string& path, const OpRegistry* ops) {
  std::error_code error;
  std::error_code absent;
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error) {
    const bool is_directory = std::filesystem::is_directory(path, absent);
    return Error{ErrorKind::kContent, "XG0621", "cannot read the plan `" + path + "`: " + error.message(),
                 is_directory ? "name a plan file in it" : "make one with `xrun plan MODEL.xgraph -o " + path + "`"};
  }
  if (size > kLargest) {
    return damaged(path, "has " + format_bytes(static_cast<Bytes>(size)) + ", more than any plan");
  }
  std::vector<std::byte> bytes(size);
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
  const int fault = errno;
  if (!in || in.gcount() != static_cast<std::streamsize>(size)) {
    return Error{ErrorKind::kWorld, "XG0621",
                 "cannot read the plan `" + path + "`: " + (fault != 0 ? std::strerror(fault) : "its size changed"),
                 "check its permissions"};
  }
  return load_plan_bytes(bytes, path, ops);
}

namespace {

// Checks that the memory of a machine is sufficient for a plan.
Status check_memory(const Plan& plan, const Module& training, const Machine& machine) {
  const RunMemory memory = run_memory(training, plan.training, plan.inference);
  for (const Program* program : {&plan.training, &plan.inference}) {
    Bytes arenas = 0;
    for (const Arena& arena : program->arenas) {
      arenas += machine.has_gpus() && arena.device != kHost ? 0 : arena.bytes;
    }
    if (machine.memory > 0 && arenas > machine.memory) {
      return stale("plan " + plan.id + " needs " + format_bytes(arenas) + " for a program, this machine has " +
                   format_bytes(machine.memory) + " to give");
    }
  }
  const Bytes bytes = memory.on_hosts();
  if (machine.memory > 0 && bytes > machine.memory) {
    return stale("plan " + plan.id + " needs " + format_bytes(bytes) + ", this machine has " +
                 format_bytes(machine.memory) + " to give");
  }
  if (machine.has_gpus() && memory.largest_device() > machine.device_memory) {
    return stale("plan " + plan.id + " needs " + format_bytes(memory.largest_device()) + " on a GPU, " +
                 machine.gpu_with_article() + " has " + format_bytes(machine.device_memory));
  }
  const Bytes node = std::ranges::max(memory_of_nodes(plan.training, machine));
  if (machine.nodes() > 1 && machine.node_memory > 0 && node > machine.node_memory) {
    return stale("plan " + plan.id + " needs " + format_bytes(node) + " on a node, this machine has " +
                 format_bytes(machine.node_memory) + " to give there");
  }
  return {};
}

}  // namespace

Status check_fresh(const Plan& plan, const Module& training, const KernelFacts& facts, const Machine& machine,
                   const Module* inference) {
  if (std::vector<std::string> changes = list_changes(plan, training, facts, machine); !changes.empty()) {
    Error error = stale(changes.front());
    error.notes.assign(std::next(changes.begin()), changes.end());
    return error;
  }
  XRUN_TRY(check_memory(plan, training, machine));
  XRUN_TRY(verify_structure(plan.training, &training.graph));
  XRUN_TRY(verify_module(plan.training, training));
  XRUN_TRY(verify_hints(plan.training, training, machine));
  if (inference != nullptr) {
    XRUN_TRY(verify_structure(plan.inference, &inference->graph));
    XRUN_TRY(verify_module(plan.inference, *inference));
  }
  return {};
}

}  // namespace xrun::planner
