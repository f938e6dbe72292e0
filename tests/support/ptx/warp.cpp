// Tests: tests/ptx/barriers_test.cpp, tests/ptx/product_test.cpp
#include "tests/support/ptx/warp.h"

#include <algorithm>
#include <fmt/format.h>

#include "tests/support/ptx/block.h"

namespace xrun::ptx {

Warp::Warp(Block& block, uint32_t index, uint32_t lanes)
    : block_(block),
      index_(index),
      all_(lanes),
      registers_(block.kernel().registers),
      written_(block.kernel().registers, 0),
      fragments_{{.lanes = lanes, .at = 0, .state = Fragment::State::kReady, .barrier = 0}} {
  for (const Constant& constant : block.kernel().constants) {
    for_lanes(lanes,
              [&](uint32_t lane) { registers_[constant.reg].lane[lane] = block.constant(constant, thread(lane)); });
    written_[constant.reg] = lanes;
  }
}

void Warp::fail(FaultKind kind, uint32_t lane, std::string cause, uint64_t address) {
  block_.fail(kind, thread(lane), place_, std::move(cause), address);
}

bool Warp::failed() const { return block_.state().fault.has_value(); }

uint64_t Warp::run(uint64_t most, uint32_t held) {
  LaunchState& state = block_.state();
  uint64_t count = 0;
  while (count < most && !state.fault) {
    Fragment* const fragment = choose(held);
    if (fragment == nullptr) {
      break;
    }
    const auto lanes = static_cast<uint64_t>(std::popcount(fragment->lanes));
    if (execute(*fragment)) {
      ++count;
      state.thread_instructions += lanes;
    }
    if (state.thread_instructions > block_.options().most_instructions) {
      fail(FaultKind::kBudget, static_cast<uint32_t>(std::countr_zero(all_)),
           fmt::format("the launch executes more than {} instructions", block_.options().most_instructions));
    }
  }
  state.instructions += count;
  return count;
}

Fragment* Warp::choose(uint32_t held) {
  if (fragments_.size() == 1 && held == 0) {
    return fragments_.front().state == Fragment::State::kReady ? &fragments_.front() : nullptr;
  }
  join_fragments(held);
  // The fragment with the smallest program counter runs first, so that the others wait for it where branches end.
  Fragment* chosen = nullptr;
  for (Fragment& fragment : fragments_) {
    const bool ready = fragment.state == Fragment::State::kReady && (fragment.lanes & held) == 0;
    if (ready && (chosen == nullptr || fragment.at < chosen->at)) {
      chosen = &fragment;
    }
  }
  return chosen;
}

void Warp::join_fragments(uint32_t held) {
  for (size_t i = 0; i < fragments_.size(); ++i) {
    const uint32_t last = fragments_[i].lanes & held;
    if (last != 0 && last != fragments_[i].lanes) {
      Fragment other = fragments_[i];
      other.lanes = last;
      fragments_[i].lanes &= ~held;
      fragments_.push_back(other);
    }
  }
  for (size_t i = 0; i < fragments_.size(); ++i) {
    for (size_t j = fragments_.size() - 1; j > i; --j) {
      Fragment& a = fragments_[i];
      const Fragment& b = fragments_[j];
      const bool waits = a.state == Fragment::State::kAtBarrier || b.state == Fragment::State::kAtBarrier;
      if (a.at == b.at && !waits && ((a.lanes & held) == 0) == ((b.lanes & held) == 0)) {
        a.lanes |= b.lanes;
        a.state = Fragment::State::kReady;
        fragments_.erase(fragments_.begin() + static_cast<std::ptrdiff_t>(j));
      }
    }
  }
}

bool Warp::check_registers(const Instruction& in, uint32_t mask) {
  for (size_t i = in.destinations; i < size_t{in.destinations} + in.sources; ++i) {
    const uint32_t missing = mask & ~written_[in.reg[i]];
    if (missing != 0) {
      fail(FaultKind::kUninitialisedRegister, static_cast<uint32_t>(std::countr_zero(missing)),
           fmt::format("`{}` has no value", block_.kernel().names[in.reg[i]]));
      return false;
    }
  }
  return true;
}

void Warp::perform(const Instruction& in, uint32_t mask) {
  if (mask == 0 || !check_registers(in, mask)) {
    return;
  }
  in.run(*this, in, mask);
  for (size_t i = 0; i < in.destinations; ++i) {
    written_[in.reg[i]] |= mask;
  }
}

bool Warp::execute(Fragment& fragment) {
  const Instruction& in = block_.kernel().code[fragment.at];
  place_ = fragment.at;
  running_ = fragment.lanes;
  uint32_t mask = fragment.lanes;
  if (in.guarded) {
    const uint32_t missing = mask & ~written_[in.guard];
    if (missing != 0) {
      fail(FaultKind::kUninitialisedRegister, static_cast<uint32_t>(std::countr_zero(missing)),
           fmt::format("`{}` has no value", block_.kernel().names[in.guard]));
      return false;
    }
    uint32_t guarded = 0;
    const Register& guard = registers_[in.guard];
    for_lanes(mask, [&](uint32_t lane) { guarded |= get<uint8_t>(guard, lane) != 0 ? 1U << lane : 0U; });
    mask &= in.guard_negated ? ~guarded : guarded;
  }
  if (in.flow != Flow::kNext) {
    return execute_flow(fragment, in, mask);
  }
  perform(in, mask);
  ++fragment.at;
  return true;
}

void Warp::move_lanes(Fragment& fragment, uint32_t lanes, uint32_t at) {
  if (lanes == fragment.lanes) {
    fragment.at = at;
    return;
  }
  fragment.lanes &= ~lanes;
  fragments_.push_back({.lanes = lanes, .at = at, .state = Fragment::State::kReady, .barrier = 0});
}

bool Warp::execute_flow(Fragment& fragment, const Instruction& in, uint32_t mask) {
  const uint32_t others = fragment.lanes & ~mask;
  if (mask == 0) {
    ++fragment.at;
    return true;
  }
  switch (in.flow) {
    case Flow::kNext:
      break;
    case Flow::kBranch:
      if (others != 0) {
        // The threads that do not branch stay in this fragment.
        ++fragment.at;
        fragment.lanes = others;
        fragments_.push_back({.lanes = mask, .at = in.target, .state = Fragment::State::kReady, .barrier = 0});
      } else {
        fragment.at = in.target;
      }
      return true;
    case Flow::kTable:
      if (others != 0) {
        move_lanes(fragment, others, fragment.at + 1);
      } else if (check_registers(in, mask)) {
        branch_by_table(fragment, in, mask);
      }
      return true;
    case Flow::kExit:
      exited_ |= mask;
      if (others != 0) {
        fragment.lanes = others;
        ++fragment.at;
      } else {
        std::erase_if(fragments_, [&](const Fragment& entry) { return &entry == &fragment; });
      }
      // Threads that wait for those of the warp that have ended may go on.
      for (Fragment& entry : fragments_) {
        entry.state = entry.state == Fragment::State::kConverging ? Fragment::State::kReady : entry.state;
      }
      return true;
    case Flow::kConverge:
    case Flow::kBarrier:
      if (others != 0) {
        move_lanes(fragment, others, fragment.at + 1);
        return true;  // the fragments have changed, so the caller chooses again
      }
      return in.flow == Flow::kBarrier ? meet_barrier(fragment, in, mask) : converge(fragment, in, mask);
  }
  return true;
}

bool Warp::converge(Fragment& fragment, const Instruction& in, uint32_t mask) {
  if (in.whole_warp && mask != kAllLanes && (all_ & ~exited_) != kAllLanes) {
    fail(FaultKind::kDivergentWarp, static_cast<uint32_t>(std::countr_zero(mask)),
         "the instruction needs all 32 threads of the warp, and some do not exist or have exited");
    return false;
  }
  if (!check_registers(in, mask)) {
    return false;
  }
  const size_t last = size_t{in.destinations} + in.sources - 1;
  for (uint32_t rest = mask; rest != 0;) {
    const auto first = static_cast<uint32_t>(std::countr_zero(rest));
    const auto members_of = [&](uint32_t lane) {
      return in.whole_warp ? kAllLanes : get<uint32_t>(registers_[in.reg[last]], lane);
    };
    const uint32_t members = members_of(first);
    uint32_t group = 0;
    for_lanes(rest, [&](uint32_t lane) { group |= members_of(lane) == members ? 1U << lane : 0U; });
    rest &= ~group;
    if ((group & ~members) != 0) {
      fail(FaultKind::kDivergentWarp, static_cast<uint32_t>(std::countr_zero(group & ~members)),
           fmt::format("the thread is not in its member mask {:#x}", members));
      return false;
    }
    if ((members & all_ & ~exited_ & ~group) == 0) {
      perform(in, group);
      move_lanes(fragment, group, fragment.at + 1);
      return true;
    }
  }
  fragment.state = Fragment::State::kConverging;
  return false;
}

bool Warp::meet_barrier(Fragment& fragment, const Instruction& in, uint32_t mask) {
  if (in.whole_warp && mask != (all_ & ~exited_)) {
    fragment.state = Fragment::State::kConverging;
    return false;
  }
  if (!check_registers(in, mask)) {
    return false;
  }
  const auto first = static_cast<uint32_t>(std::countr_zero(mask));
  const auto id = get<uint32_t>(registers_[in.reg[in.destinations]], first);
  const bool counted = (in.extra & kBarrierCount) != 0;
  const uint32_t count = counted ? get<uint32_t>(registers_[in.reg[in.destinations + 1U]], first) : 0;
  if (id >= 16 || (counted && (count == 0 || count % kLanes != 0))) {
    fail(FaultKind::kDivergentBarrier, first, fmt::format("barrier {} for {} threads does not exist", id, count));
    return false;
  }
  fragment.state = Fragment::State::kAtBarrier;
  fragment.barrier = id;
  uint32_t votes = 0;
  if ((in.extra & 0xff) != 0) {
    const Register& vote = registers_[in.reg[in.destinations + in.sources - 1U]];
    const bool expected = (in.extra & kBarrierNegated) == 0;
    for_lanes(mask, [&](uint32_t lane) { votes += (get<uint8_t>(vote, lane) != 0) == expected ? 1U : 0U; });
  }
  block_.arrive(*this, mask, fragment.at, id, count, votes);
  return true;
}

void Warp::branch_by_table(Fragment& fragment, const Instruction& in, uint32_t mask) {
  const std::vector<uint32_t>& targets = block_.kernel().tables[in.target];
  const Register& index = registers_[in.reg[0]];
  const auto first = static_cast<uint32_t>(std::countr_zero(mask));
  const auto chosen = get<uint32_t>(index, first);
  if (chosen >= targets.size()) {
    fail(FaultKind::kArithmetic, first, fmt::format("label {} of a list of {} is chosen", chosen, targets.size()));
    return;
  }
  // The others stay and choose in their next turn.
  uint32_t equal = 0;
  for_lanes(mask, [&](uint32_t lane) { equal |= get<uint32_t>(index, lane) == chosen ? 1U << lane : 0U; });
  move_lanes(fragment, equal, targets[chosen]);
}

void Warp::release(uint32_t id, uint32_t votes, uint32_t threads) {
  for (Fragment& fragment : fragments_) {
    if (fragment.state == Fragment::State::kAtBarrier && fragment.barrier == id) {
      const Instruction& in = block_.kernel().code[fragment.at];
      if (in.destinations != 0) {
        const auto vote = static_cast<BarrierVote>(in.extra & 0xff);
        const uint32_t result = vote == BarrierVote::kCount ? votes
                                : vote == BarrierVote::kAll ? static_cast<uint32_t>(votes == threads)
                                                            : static_cast<uint32_t>(votes != 0);
        for_lanes(fragment.lanes, [&](uint32_t lane) { put(registers_[in.reg[0]], lane, result); });
        written_[in.reg[0]] |= fragment.lanes;
      }
      fragment.state = Fragment::State::kReady;
      ++fragment.at;
    }
  }
}

}  // namespace xrun::ptx
