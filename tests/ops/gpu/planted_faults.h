// Faults that are planted in the PTX of kernels or as uninitialised bytes. Each must be found with its place: kernel,
// line of the source, block and thread.
#pragma once

#include <filesystem>
#include <regex>

#include "tests/ops/gpu/kernel_runner.h"

namespace xrun::ops::gpu {

// A launch of one kernel on small operands.
struct Scene {
  const char* module;
  const char* kernel;
  void (*launch)(Machine& machine, const ptx::Module& module);
};

// Returns the text of a module with only one of its kernels, since parsing takes longer than execution, in which one
// occurrence of a pattern is replaced. The running test fails if this occurrence does not exist.
inline std::string planted_text(const Scene& scene, const std::string& pattern, const std::string& with, int which) {
  const std::string text(kernel_text(90, scene.module));
  const std::string kernel = ".visible .entry ", end = "\n}\n";
  const size_t begin = text.find(kernel + scene.kernel + "(");
  std::string body = text.substr(begin, text.find(end, begin) + end.size() - begin);
  const std::regex expression(pattern);
  auto at = std::sregex_iterator(body.begin(), body.end(), expression);
  for (int i = 0; i < which && at != std::sregex_iterator(); ++i) {
    ++at;
  }
  if (at == std::sregex_iterator()) {
    ADD_FAILURE() << scene.kernel << " has too few " << pattern;
    return text;
  }
  const std::string replaced = at->format(with);
  body.replace(static_cast<size_t>(at->position()), static_cast<size_t>(at->length()), replaced);
  return text.substr(0, text.find(kernel)) + body + text.substr(text.rfind(end) + end.size());
}

struct Planted {
  const char* name;
  Scene scene;
  const char* pattern;
  const char* with;
  int which;                          // index of the occurrence of the pattern
  std::vector<ptx::FaultKind> kinds;  // the kinds that are reported, by the order of warps
};

inline constexpr const char* kBarrier = "bar\\.sync \t0;";
inline constexpr const char* kWait1 = "cp\\.async\\.wait_group 1;";
inline constexpr const char* kWait0 = "cp\\.async\\.wait_group 0;";
inline constexpr const char* kMask = "(shfl\\.sync[^;]*), %r\\d+;";
inline constexpr const char* kBeyond = "setp\\.ge\\.s64 \t";

// Returns a line of a source of kernels, "pool.cu:27", without leading blanks; empty if there is no such line. For the
// headers of CUDA (`shfl`), returns the place.
inline std::string source_line(const std::string& place) {
  namespace fs = std::filesystem;
  static const auto paths = [] {
    std::map<std::string, fs::path> found;
    for (const char* const folder : {"graph/base", "ops"}) {
      for (const auto& entry : fs::recursive_directory_iterator(fs::path(XRUN_SOURCE_DIR) / folder)) {
        const bool host = entry.path().parent_path().filename() == "launch";
        if (!host && (entry.path().extension() == ".cu" || entry.path().extension() == ".h")) {
          found[entry.path().filename()] = fs::relative(entry.path(), XRUN_SOURCE_DIR);
        }
      }
    }
    return found;
  }();
  const size_t colon = place.find(':');
  if (place.substr(0, colon).ends_with(".hpp")) {
    return place;
  }
  const auto path = paths.find(place.substr(0, colon));
  if (colon == std::string::npos || path == paths.end()) {
    return "";
  }
  std::istringstream lines(test::read_source_file(path->second));
  std::string line;
  for (int left = std::stoi(place.substr(colon + 1)); left > 0; --left) {
    line.clear();
    std::getline(lines, line);
  }
  return line.substr(std::min(line.find_first_not_of(' '), line.size()));
}

// Expects that a fault of the last launch has its place.
inline void expect_place(const Machine& machine, const Scene& scene, const std::string& what) {
  const ptx::Fault& fault = *machine.fault;
  EXPECT_EQ(fault.kernel, scene.kernel) << what;
  EXPECT_NE(source_line(fault.source), "") << what << ": " << fault.print();
  for (size_t d = 0; d < 3; ++d) {
    EXPECT_LT(fault.block[d], machine.last_blocks[d]) << what << ": " << fault.print();
    EXPECT_LT(fault.thread[d], machine.last_threads[d]) << what << ": " << fault.print();
  }
  const bool memory = fault.kind == ptx::FaultKind::kRace || fault.kind == ptx::FaultKind::kPendingCopy ||
                      fault.kind == ptx::FaultKind::kUninitialisedMemory;
  EXPECT_TRUE(!memory || !fault.buffer.empty()) << what << ": " << fault.print();
}

// Expects that each fault is found in a fair order of warps and in two unfair ones.
inline void expect_found(const std::vector<Planted>& faults) {
  for (const Planted& planted : faults) {
    const std::string what = std::string(planted.scene.kernel) + ": " + planted.name;
    const auto module = module_of(planted_text(planted.scene, planted.pattern, planted.with, planted.which));
    ASSERT_NE(module, nullptr) << what;
    for (const ptx::Order order : {ptx::Order::kFair, ptx::Order::kReversed, ptx::Order::kThreadLast}) {
      Machine machine(kTargets[1], order);
      planted.scene.launch(machine, *module);
      if (!machine.fault) {
        ADD_FAILURE() << what << " is not found in order " << static_cast<int>(order);
        continue;
      }
      const ptx::Fault& fault = *machine.fault;
      EXPECT_TRUE(std::ranges::count(planted.kinds, fault.kind) > 0) << what << ": " << fault.print();
      expect_place(machine, planted.scene, what);
    }
  }
}

struct Unset {
  Scene scene;
  const char* buffer;
};

// Expects a fault that names the buffer whose last element is uninitialised.
inline void expect_named(const std::vector<Unset>& buffers) {
  for (const Unset& unset : buffers) {
    const std::string what = std::string(unset.scene.kernel) + ", " + unset.buffer;
    Machine machine(kTargets[1]);
    machine.unset = unset.buffer;
    unset.scene.launch(machine, module_of(90, unset.scene.module));
    ASSERT_TRUE(machine.fault) << what;
    EXPECT_EQ(machine.fault->kind, ptx::FaultKind::kUninitialisedMemory) << what << ": " << machine.fault->print();
    EXPECT_TRUE(machine.fault->buffer.starts_with(unset.buffer)) << what << ": " << machine.fault->print();
    expect_place(machine, unset.scene, what);
  }
}

// Expects that the launches without a planted fault have none in any order.
inline void expect_no_faults(const std::vector<Scene>& scenes) {
  for (const Scene& scene : scenes) {
    for (const ptx::Order order : ptx::kOrders) {
      Machine machine(kTargets[1], order);
      scene.launch(machine, module_of(90, scene.module));
      EXPECT_FALSE(machine.fault) << machine.fault->print();
    }
  }
}

}  // namespace xrun::ops::gpu
