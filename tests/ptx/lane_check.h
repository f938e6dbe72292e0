// Compares one instruction with the arithmetic of the processor on 10^6 random operands.
#pragma once

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <functional>

#include "tests/ptx/lane_operands.h"
#include "tests/support/ptx/block.h"

namespace xrun::ptx {

// An instruction with the registers %a, %b and %c as sources and %x as result, and its meaning. A width of 1 is a
// predicate: of a source the lowest bit, of the result 0 or 1.
struct LaneCase {
  std::string line;
  std::array<int, 3> source_bits{32, 32, 32};
  int result_bits = 32;
  std::function<uint64_t(uint64_t, uint64_t, uint64_t)> meaning;
};

// The text of a kernel that has only the instruction, for sm_100.
inline std::string text_of(const LaneCase& tried) {
  std::string body;
  const auto declare = [&](const std::string& name, int bits) {
    body += fmt::format(".reg .{} {};\n", bits == 1 ? "pred" : fmt::format("b{}", bits), name);
  };
  for (size_t i = 0; i < 3; ++i) {
    declare(fmt::format("%{}", "abc"[i]), tried.source_bits[i]);
  }
  declare("%x", tried.result_bits);
  return replaced(kernel_text(body + tried.line + "\n"), "sm_80", "sm_100");
}

// A warp outside of any launch, for handlers of instructions.
struct LaneWarp {
  explicit LaneWarp(const Module& module)
      : state{.module = module,
              .kernel = module.kernels.front(),
              .launch = launch,
              .options = options,
              .memory = memory,
              .parameters = Buffer("parameters", kParamBase, 32, true),
              .random = {},
              .published = {},
              .fault = std::nullopt},
        block(state, 0),
        warp(block, 0, kAllLanes) {}

  // The register with a name; register 0, which no instruction reads, if the instruction does not have it.
  Register& find(const std::string& name) {
    const auto& names = state.kernel.names;
    const auto found = std::ranges::find(names, name);
    return warp[found == names.end() ? 0 : static_cast<uint32_t>(found - names.begin())];
  }

  Launch launch{.threads = {kLanes, 1, 1}};
  Options options;
  Memory memory;
  LaunchState state;
  Block block;
  Warp warp;
};

// Executes the instruction on random operands and compares all results. Operands for which `allowed` is false are left
// out. Instructions that differ only in a modifier get 1 / `share` of the operands each.
inline void check_lanes(const LaneCase& tried, const std::function<bool(uint64_t, uint64_t, uint64_t)>& allowed = {},
                        size_t share = 1) {
  const auto module = module_of(text_of(tried));
  ASSERT_NE(module, nullptr) << tried.line;
  LaneWarp lanes(*module);
  const std::array<const std::vector<uint64_t>*, 3> operands{&operands_of(0, tried.source_bits[0]),
                                                             &operands_of(1, tried.source_bits[1]),
                                                             &operands_of(2, tried.source_bits[2])};
  const std::array<Register*, 3> sources{&lanes.find("%a"), &lanes.find("%b"), &lanes.find("%c")};
  const Register& result = lanes.find("%x");
  for (size_t first = 0; first < operands[0]->size() / share; first += kLanes) {
    const auto operand = [&](size_t place, size_t lane) { return (*operands[place])[first + lane]; };
    uint32_t mask = 0;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      for (size_t place = 0; place < 3; ++place) {
        sources[place]->lane[lane] = operand(place, lane);
      }
      const bool taken = !allowed || allowed(operand(0, lane), operand(1, lane), operand(2, lane));
      mask |= taken ? 1U << lane : 0U;
    }
    for (const Instruction& in : lanes.state.kernel.code) {
      if (in.run != nullptr && mask != 0) {
        in.run(lanes.warp, in, mask);
      }
    }
    ASSERT_FALSE(lanes.state.fault) << tried.line << ": " << lanes.state.fault->print();
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const uint64_t a = operand(0, lane);
      const uint64_t b = operand(1, lane);
      const uint64_t c = operand(2, lane);
      const uint64_t found = low_bits(result.lane[lane], tried.result_bits);
      if ((mask >> lane & 1) != 0) {
        const uint64_t expected = low_bits(tried.meaning(a, b, c), tried.result_bits);
        ASSERT_EQ(found, expected) << tried.line
                                   << fmt::format(" of {:#x}, {:#x}, {:#x} gives {:#x}, not {:#x}; seed {}", a, b, c,
                                                  found, expected, kSeed);
      }
    }
  }
}

inline float to_float(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }
inline double to_double(uint64_t bits) { return std::bit_cast<double>(bits); }
inline uint64_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }
inline uint64_t bits_of(double value) { return std::bit_cast<uint64_t>(value); }

}  // namespace xrun::ptx
