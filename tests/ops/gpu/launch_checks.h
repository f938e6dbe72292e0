// Launches of tests that are executed again in other orders of warps and blocks, and must give the same bits.
#pragma once

#include <array>
#include <cstdlib>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "ops/gpu/kernel_texts.h"
#include "tests/support/ptx/launch.h"

namespace xrun::ops::gpu {

// An order of warps and of blocks with its seed. The fair and the reversed order do not depend on the seed.
struct SeededOrder {
  ptx::Order order;
  uint64_t seed;
};
inline constexpr int kOrderCount = 20;
constexpr SeededOrder order_of(int index) {
  constexpr std::array kSeeded{ptx::Order::kGreedy, ptx::Order::kThreadLast, ptx::Order::kWarpLast,
                               ptx::Order::kRandom};
  return index == 0   ? SeededOrder{ptx::Order::kFair, 1}
         : index == 1 ? SeededOrder{ptx::Order::kReversed, 1}
                      : SeededOrder{kSeeded[static_cast<size_t>(index) % 4], static_cast<uint64_t>(index)};
}

// Executes a launch in 20 orders, each on a copy of `before`. Returns whether there are no faults, and all memory has
// the same bits as `after`, the memory after the launch in any order.
inline ::testing::AssertionResult same_in_all_orders(const ptx::Module& module, std::string_view kernel,
                                                     const ptx::Launch& launch, const ptx::Memory& before,
                                                     const ptx::Memory& after, ptx::Options options) {
  for (int index = 0; index < kOrderCount; ++index) {
    options.order = order_of(index).order;
    options.seed = order_of(index).seed;
    ptx::Memory memory = before;
    const ptx::Execution done = ptx::execute(module, kernel, launch, memory, options);
    const std::string place = done.fault ? done.fault->print() : memory.difference(after);
    if (!place.empty()) {
      return ::testing::AssertionFailure() << kernel << " in order " << static_cast<int>(options.order) << " with seed "
                                           << options.seed << ": " << (done.fault ? "" : "other bits at ") << place;
    }
  }
  return ::testing::AssertionSuccess();
}

// The kernels of ops/gpu with their launches so far.
class CheckedLaunches {
 public:
  // The launches of this process.
  static CheckedLaunches& instance() {
    static CheckedLaunches launches;
    return launches;
  }

  // Executes a launch like `ptx::execute`. The first launch of a kernel for compute_90 that has at most kMost
  // instructions of threads is also executed in all orders. With XRUN_ALL_PLANS=1 in the environment, the first launch
  // may have kMostOfFirst instructions and be for compute_80, since some kernels have launches for only one of the two,
  // and each grid with at most kMostOfAll is executed in all orders.
  ptx::Execution execute(const ptx::Module& module, std::string_view kernel, const ptx::Launch& launch,
                         ptx::Memory& memory, const ptx::Options& options) {
    const auto at = checked_.find(kernel);
    const bool candidate = at != checked_.end() && (all_ || at->second.empty()) &&
                           (module.target == "sm_90" || (all_ && at->second.empty())) &&
                           !at->second.contains({launch.blocks, launch.threads});
    const ptx::Memory before = candidate ? memory : ptx::Memory();
    ptx::Execution done = ptx::execute(module, kernel, launch, memory, options);
    if (candidate && !done.fault) {
      const uint64_t most = !all_ ? kMost : at->second.empty() ? kMostOfFirst : kMostOfAll;
      if (done.thread_instructions <= most) {
        at->second.insert({launch.blocks, launch.threads});
        EXPECT_TRUE(same_in_all_orders(module, kernel, launch, before, memory, options));
      }
    }
    return done;
  }

  // Whether XRUN_ALL_PLANS is set.
  bool all() const { return all_; }
  // The kernels that no launch has executed in all orders.
  std::vector<std::string> missing() const {
    std::vector<std::string> names;
    for (const auto& [kernel, grids] : checked_) {
      if (grids.empty()) {
        names.push_back(kernel);
      }
    }
    return names;
  }

 private:
  static constexpr uint64_t kMost = 200'000, kMostOfFirst = 50'000'000, kMostOfAll = 2'000'000;
  using Grid = std::pair<std::array<uint32_t, 3>, std::array<uint32_t, 3>>;

  CheckedLaunches() : all_(std::getenv("XRUN_ALL_PLANS") != nullptr) {
    constexpr std::string_view kEntry = ".visible .entry ";
    for (const std::string_view name : kernel_modules()) {
      const std::string_view text = kernel_text(90, name);
      for (size_t i = text.find(kEntry); i != std::string_view::npos; i = text.find(kEntry, i + 1)) {
        const size_t begin = i + kEntry.size();
        checked_[std::string(text.substr(begin, text.find('(', begin) - begin))];
      }
    }
  }

  bool all_ = false;
  std::map<std::string, std::set<Grid>, std::less<>> checked_;
};

}  // namespace xrun::ops::gpu
