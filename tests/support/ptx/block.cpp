// Tests: tests/ptx/barriers_test.cpp, tests/ptx/product_test.cpp
#include "tests/support/ptx/block.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <utility>

namespace xrun::ptx {

namespace {

constexpr uint64_t kLongTurn = 1 << 14;  // instructions after which even a greedy warp yields, for kernels that poll
constexpr uint32_t kNoThread = UINT32_MAX;

}  // namespace

Block::Block(LaunchState& state, uint32_t index)
    : state_(state),
      index_(index),
      threads_(state.launch.threads[0] * state.launch.threads[1] * state.launch.threads[2]),
      clocks_(index, threads_, state.published) {
  for (const Variable& variable : state.kernel.shared) {
    const uint64_t bytes = variable.bytes == 0 ? state.launch.dynamic_shared : variable.bytes;
    const bool known = std::ranges::any_of(
        shared_, [&](const Buffer& buffer) { return buffer.address == kSharedBase + variable.address; });
    if (bytes != 0 && !known) {  // all dynamic arrays are one buffer
      shared_.emplace_back(variable.name, kSharedBase + variable.address, bytes, false);
    }
  }
  for (uint32_t warp = 0; warp * kLanes < threads_; ++warp) {
    const uint32_t count = std::min(kLanes, threads_ - warp * kLanes);
    warps_.emplace_back(*this, warp, count == kLanes ? kAllLanes : (1U << count) - 1);
  }
  held_ = static_cast<uint32_t>(state.random() % threads_);
}

Buffer* Block::find(uint64_t address, uint32_t thread) {
  if (address >= kSharedBase) {
    for (Buffer& buffer : shared_) {
      if (address - buffer.address < buffer.data.size()) {
        return &buffer;
      }
    }
    return nullptr;
  }
  if (address >= kParamBase) {
    return address - kParamBase < state_.parameters.data.size() ? &state_.parameters : nullptr;
  }
  return address >= kLocalBase && address < kModuleBase ? find_local(address, thread) : state_.memory.find(address);
}

Buffer* Block::find_local(uint64_t address, uint32_t thread) {
  std::vector<Buffer>& own = local_[thread];
  if (own.empty()) {
    for (const Variable& variable : kernel().local) {
      own.emplace_back(variable.name, variable.address, variable.bytes, false).one_thread = true;
    }
  }
  const auto found =
      std::ranges::find_if(own, [&](const Buffer& entry) { return address - entry.address < entry.data.size(); });
  return found == own.end() ? nullptr : &*found;
}

std::string Block::describe(uint64_t address) const {
  if (address >= kLocalBase && address < kModuleBase) {
    const Variable* own = nullptr;
    for (const Variable& variable : kernel().local) {
      own = variable.address <= address ? &variable : own;
    }
    return own == nullptr ? "before all local arrays"
                          : fmt::format("{} + {} of {} bytes", own->name, address - own->address, own->bytes);
  }
  const Buffer* nearest = nullptr;
  if (address >= kSharedBase) {
    for (const Buffer& buffer : shared_) {
      if (buffer.address <= address && (nearest == nullptr || buffer.address > nearest->address)) {
        nearest = &buffer;
      }
    }
  } else {
    nearest = address >= kParamBase ? &state_.parameters : state_.memory.nearest(address);
  }
  return nearest == nullptr
             ? "before all buffers"
             : fmt::format("{} + {} of {} bytes", nearest->name, address - nearest->address, nearest->data.size());
}

uint64_t Block::constant(const Constant& constant, uint32_t thread) const {
  const uint32_t lane = thread % kLanes;
  const uint32_t own = 1U << lane;
  switch (constant.kind) {
    case Constant::Kind::kValue:
      return constant.value;
    case Constant::Kind::kThread:
      return thread_of(thread)[constant.value];
    case Constant::Kind::kThreads:
      return state_.launch.threads[constant.value];
    case Constant::Kind::kBlock:
      return coordinates_of(index_)[constant.value];
    case Constant::Kind::kBlocks:
      return state_.launch.blocks[constant.value];
    case Constant::Kind::kLane:
      return lane;
    case Constant::Kind::kWarp:
      return thread / kLanes;
    case Constant::Kind::kWarps:
      return (threads_ + kLanes - 1) / kLanes;
    case Constant::Kind::kLanesEqual:
      return own;
    case Constant::Kind::kLanesLess:
      return own - 1;
    case Constant::Kind::kLanesLessEqual:
      return own | (own - 1);
    case Constant::Kind::kLanesGreater:
      return ~(own | (own - 1));
    case Constant::Kind::kLanesGreaterEqual:
      return ~(own - 1);
    case Constant::Kind::kDynamicShared:
      return state_.launch.dynamic_shared;
  }
  return 0;
}

std::array<uint32_t, 3> Block::coordinates_of(uint32_t block) const {
  const auto& blocks = state_.launch.blocks;
  return {block % blocks[0], block / blocks[0] % blocks[1], block / blocks[0] / blocks[1]};
}

std::array<uint32_t, 3> Block::thread_of(uint32_t thread) const {
  const auto& threads = state_.launch.threads;
  return {thread % threads[0], thread / threads[0] % threads[1], thread / threads[0] / threads[1]};
}

std::string Block::name_of(uint32_t block, uint32_t thread, uint32_t place) const {
  const auto b = coordinates_of(block);
  const auto t = thread_of(thread);
  std::string where;
  if (place < kernel().statements.size()) {
    const Statement& statement = kernel().statements[place];
    where = state_.module.source_of(statement);
    where = where.empty() ? fmt::format("PTX line {}", statement.line) : where;
  }
  return fmt::format("thread ({}, {}, {}) of block ({}, {}, {}) at {}", t[0], t[1], t[2], b[0], b[1], b[2], where);
}

void Block::fail(FaultKind kind, uint32_t thread, uint32_t place, std::string cause, uint64_t address) {
  if (state_.fault) {
    return;
  }
  Fault fault{.kind = kind,
              .kernel = kernel().name,
              .source = "",
              .line = 0,
              .instruction = "the end of the kernel",
              .block = coordinates_of(index_),
              .thread = thread_of(thread),
              .address = address,
              .buffer = address == 0 && kind != FaultKind::kOutOfBounds ? "" : describe(address),
              .cause = std::move(cause)};
  if (place < kernel().statements.size()) {
    const Statement& statement = kernel().statements[place];
    fault.source = state_.module.source_of(statement);
    fault.line = statement.line;
    fault.instruction = statement.whole;
  }
  state_.fault = std::move(fault);
}

void Block::arrive(Warp& warp, uint32_t lanes, uint32_t place, uint32_t id, uint32_t count, uint32_t votes) {
  Barrier& barrier = barriers_[id];
  const auto first = warp.thread(static_cast<uint32_t>(std::countr_zero(lanes)));
  if (!barrier.threads.empty() && (barrier.count != count || (count == 0 && barrier.place != place))) {
    fail(FaultKind::kDivergentBarrier, first, place,
         fmt::format("{} waits at the same barrier", name_of(index_, barrier.threads.front(), barrier.place)));
    return;
  }
  barrier.place = place;
  barrier.count = count;
  barrier.votes += votes;
  for_lanes(lanes, [&](uint32_t lane) { barrier.threads.push_back(warp.thread(lane)); });
  const size_t expected = count == 0 ? threads_ : count;
  if (barrier.threads.size() < expected) {
    return;
  }
  if (barrier.threads.size() > expected) {
    fail(FaultKind::kDivergentBarrier, first, place, fmt::format("more than {} threads arrive", expected));
    return;
  }
  clocks_.join(barrier.threads);
  const uint32_t for_it = std::exchange(barrier.votes, 0);
  barrier.threads.clear();
  for (Warp& waiting : warps_) {
    waiting.release(id, for_it, static_cast<uint32_t>(expected));
  }
}

bool Block::finished() {
  return std::ranges::all_of(warps_, [](Warp& warp) { return warp.fragments().empty(); });
}

bool Block::turn_of(const std::vector<uint32_t>& order, uint64_t most, uint32_t held, bool& all) {
  bool any = false;
  all = false;
  for (const uint32_t warp : order) {
    const bool mine = held != kNoThread && warp == held / kLanes;
    const uint32_t own = state_.options.order == Order::kThreadLast ? 1U << (held % kLanes) : kAllLanes;
    const uint64_t count = warps_[warp].run(most, mine ? own : 0);
    any = any || count != 0;
    if (count != 0 && count < most) {
      return true;
    }
  }
  all = any;
  return any;
}

bool Block::turn() {
  std::vector<uint32_t> order(warps_.size());
  std::iota(order.begin(), order.end(), 0);
  bool all = false;
  switch (state_.options.order) {
    case Order::kFair: {
      bool any = false;
      for (const uint32_t warp : order) {
        any = warps_[warp].run(1, 0) != 0 || any;
      }
      return any;
    }
    case Order::kGreedy:
      std::ranges::shuffle(order, state_.random);
      return turn_of(order, kLongTurn, kNoThread, all);
    case Order::kReversed:
      std::ranges::reverse(order);
      return turn_of(order, kLongTurn, kNoThread, all);
    case Order::kThreadLast:
    case Order::kWarpLast: {
      // The others go as far as they get, then the last one has a turn. If they only poll, they wait for it.
      const bool any = turn_of(order, kLongTurn, held_, all);
      return any && !all ? true : turn_of(order, all ? kLongTurn : 1, kNoThread, all) || any;
    }
    case Order::kRandom:
      std::ranges::shuffle(order, state_.random);
      return warps_[order.front()].run(1 + state_.random() % 64, 0) != 0 || turn_of(order, 1, kNoThread, all);
  }
  return false;
}

void Block::run() {
  while (!state_.fault && !finished()) {
    if (!turn() && !state_.fault && !finished()) {
      report_standstill();
    }
  }
}

void Block::report_standstill() {
  uint32_t exited = 0;
  for (Warp& warp : warps_) {
    exited += static_cast<uint32_t>(std::popcount(warp.exited()));
  }
  // A barrier that is waited for explains the rest; else threads of a warp wait for each other.
  for (const bool barriers : {true, false}) {
    for (Warp& warp : warps_) {
      for (const Fragment& fragment : warp.fragments()) {
        const bool at_barrier = kernel().code[fragment.at].flow == Flow::kBarrier;
        if (at_barrier != barriers) {
          continue;
        }
        const uint32_t thread = warp.thread(static_cast<uint32_t>(std::countr_zero(fragment.lanes)));
        std::string cause = fmt::format("the thread waits for ever; {} threads of the block have exited", exited);
        for (Warp& other : warps_) {
          for (const Fragment& elsewhere : other.fragments()) {
            if (elsewhere.at != fragment.at) {
              const auto lane = static_cast<uint32_t>(std::countr_zero(elsewhere.lanes));
              cause += fmt::format(", and {} waits", name_of(index_, other.thread(lane), elsewhere.at));
              return fail(barriers ? FaultKind::kDivergentBarrier : FaultKind::kDivergentWarp, thread, fragment.at,
                          std::move(cause));
            }
          }
        }
        return fail(barriers ? FaultKind::kDivergentBarrier : FaultKind::kDivergentWarp, thread, fragment.at,
                    std::move(cause));
      }
    }
  }
}

}  // namespace xrun::ptx
