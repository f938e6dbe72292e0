// Tests: tests/ptx/races_test.cpp
#include "tests/support/ptx/clocks.h"

#include <algorithm>

namespace xrun::ptx {

Clocks::Clocks(uint32_t block, uint32_t threads, Published& published)
    : block_(block), own_(threads, 1), past_(threads), fenced_(threads), pending_(threads), published_(published) {
  const auto nothing = std::make_shared<const Past>(Past{std::vector<uint32_t>(threads, 0), {}});
  std::ranges::fill(past_, nothing);
}

bool Clocks::ordered(const Access& access, uint32_t thread) const {
  const Past& past = *past_[thread];
  const std::vector<uint32_t>* clocks = &past.own;
  if (access.block != block_) {
    const auto found = past.others.find(access.block);
    if (found == past.others.end()) {
      return false;
    }
    clocks = found->second.get();
  }
  const uint32_t first = uint32_t{access.warp} * kLanes;
  for (uint32_t lanes = access.lanes; lanes != 0; lanes &= lanes - 1) {
    const uint32_t other = first + static_cast<uint32_t>(std::countr_zero(lanes));
    if ((*clocks)[other] < access.clock && (other != thread || access.block != block_)) {
      return false;
    }
  }
  return true;
}

void Clocks::join(std::span<const uint32_t> threads) {
  auto joined = std::make_shared<Past>(*past_[threads.front()]);
  const Past* last = past_[threads.front()].get();
  for (const uint32_t thread : threads) {
    const Past* const past = past_[thread].get();
    if (past == last) {
      continue;
    }
    last = past;
    for (size_t i = 0; i < joined->own.size(); ++i) {
      joined->own[i] = std::max(joined->own[i], past->own[i]);
    }
    merge(joined->others, past->others);
  }
  for (const uint32_t thread : threads) {
    joined->own[thread] = own_[thread]++;
  }
  for (const uint32_t thread : threads) {
    past_[thread] = joined;
  }
}

Known Clocks::knowledge(uint32_t thread) const {
  Known known = past_[thread]->others;
  auto own = std::make_shared<std::vector<uint32_t>>(past_[thread]->own);
  (*own)[thread] = own_[thread];
  known[block_] = std::move(own);
  return known;
}

void Clocks::merge(Known& to, const Known& from) {
  for (const auto& [block, clocks] : from) {
    auto& mine = to[block];
    if (mine == nullptr || mine == clocks) {
      mine = clocks;
      continue;
    }
    auto joined = std::make_shared<std::vector<uint32_t>>(*mine);
    for (size_t i = 0; i < joined->size(); ++i) {
      (*joined)[i] = std::max((*joined)[i], (*clocks)[i]);
    }
    mine = std::move(joined);
  }
}

void Clocks::acquire(uint32_t thread, const Known& known) {
  if (known.empty()) {
    return;
  }
  auto past = std::make_shared<Past>(*past_[thread]);
  for (const auto& [block, clocks] : known) {
    if (block == block_) {
      for (size_t i = 0; i < clocks->size(); ++i) {
        past->own[i] = std::max(past->own[i], (*clocks)[i]);
      }
    } else {
      merge(past->others, {{block, clocks}});
    }
  }
  past_[thread] = std::move(past);
}

void Clocks::fence(uint32_t thread, bool block_scope) {
  // A fence of the block orders only threads of the block.
  Known& near = pending_[thread][1];
  if (const auto own = near.find(block_); own != near.end()) {
    acquire(thread, {*own});
    near.erase(own);
  }
  fenced_[thread][1] = knowledge(thread);
  if (!block_scope) {
    acquire(thread, pending_[thread][0]);
    pending_[thread][0].clear();
    fenced_[thread][0] = fenced_[thread][1] = knowledge(thread);
  }
  ++own_[thread];
}

void Clocks::strong(uint32_t thread, uint64_t address, bool shared, bool reads, bool writes) {
  // Knowledge of a fence of the device reaches all blocks; in shared memory only the own block can meet it.
  const std::array<std::pair<uint64_t, uint32_t>, 2> keys{std::pair{address, shared ? block_ + 1 : 0},
                                                          std::pair{address, block_ + 1}};
  for (size_t scope = 0; scope < keys.size(); ++scope) {
    const auto found = published_.find(keys[scope]);
    if (reads && found != published_.end()) {
      merge(pending_[thread][scope], found->second);
      merge(pending_[thread][1], found->second);
    }
  }
  for (size_t scope = 0; writes && scope < keys.size(); ++scope) {
    if (!reads) {
      published_.erase(keys[scope]);
    }
  }
  for (size_t scope = 0; writes && scope < keys.size(); ++scope) {
    if (!fenced_[thread][scope].empty()) {
      merge(published_[keys[scope]], fenced_[thread][scope]);
    }
  }
}

}  // namespace xrun::ptx
