#include "runtime/comm/ranks/heartbeats.h"

#include <algorithm>

namespace xrun::runtime {

Heartbeats::Heartbeats(int ranks, int own, Seconds limit, Seconds now)
    : limit_(limit), ticked_(now), ranks_(static_cast<size_t>(ranks), Rank{.heard = now}) {
  leave(own);
}

Seconds Heartbeats::tick(Seconds now) {
  const Seconds passed = now - ticked_;
  ticked_ = now;
  if (passed <= limit_ / 2) {
    return 0;
  }
  for (Rank& rank : ranks_) {
    rank.heard = now;
  }
  return passed;
}

void Heartbeats::heard(int rank, Seconds now) { ranks_[static_cast<size_t>(rank)].heard = now; }

void Heartbeats::leave(int rank) { ranks_[static_cast<size_t>(rank)].expected = false; }

std::optional<int> Heartbeats::silent(Seconds now) const {
  std::optional<int> longest;
  Seconds heard = now - limit_;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].expected && ranks_[rank].heard < heard) {
      heard = ranks_[rank].heard;
      longest = static_cast<int>(rank);
    }
  }
  return longest;
}

int Heartbeats::expected() const { return static_cast<int>(std::ranges::count(ranks_, true, &Rank::expected)); }

bool Heartbeats::all_silent(Seconds now, Seconds time) const {
  return std::ranges::none_of(ranks_, [&](const Rank& rank) { return rank.expected && now - rank.heard <= time; });
}

}  // namespace xrun::runtime
