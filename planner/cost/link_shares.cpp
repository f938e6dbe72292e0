// Progressive filling: the shares of all transfers grow at one pace until a link is full, which fixes the shares of its
// transfers; the others go on growing. Source: Bertsekas, Gallager, "Data Networks", 1992, section 6.5.2. Only
// transfers that are connected with a changed one, by links and transfers between them, are computed again.
// Tests: tests/planner/cost/link_shares_test.cpp
#include "planner/cost/link_shares.h"

#include <algorithm>
#include <cmath>

namespace xrun::planner {
namespace {

// Links that are full up to rounding count as full, so that equal links are full at the same time.
constexpr double kRounding = 1 + 1e-12;

}  // namespace

void LinkShares::add(size_t transfer, std::span<const LinkUse> uses) {
  if (transfer >= transfers_.size()) {
    transfers_.resize(transfer + 1);
  }
  transfers_[transfer] = {.uses = uses};
  for (const LinkUse& use : uses) {
    links_[use.link].transfers.push_back(transfer);
  }
  mark(uses);
}

void LinkShares::remove(size_t transfer) {
  for (const LinkUse& use : transfers_[transfer].uses) {
    auto& all = links_[use.link].transfers;
    *std::ranges::find(all, transfer) = all.back();
    all.pop_back();
  }
  mark(transfers_[transfer].uses);
}

void LinkShares::mark(std::span<const LinkUse> uses) {
  for (const LinkUse& use : uses) {
    if (!links_[use.link].changed) {
      links_[use.link].changed = true;
      marked_.push_back(use.link);
    }
  }
}

void LinkShares::visit(size_t link) {
  if (links_[link].seen != calls_) {
    links_[link].seen = calls_;
    near_.push_back(link);
  }
}

void LinkShares::find_affected() {
  near_.clear();
  affected_.clear();
  for (const size_t link : marked_) {
    links_[link].changed = false;
    visit(link);
  }
  marked_.clear();
  for (size_t next = 0; next < near_.size(); ++next) {
    Link& link = links_[near_[next]];
    link.used = link.parts = 0;
    link.open = link.transfers.size();
    for (const size_t transfer : link.transfers) {
      if (transfers_[transfer].seen != calls_) {
        transfers_[transfer].seen = calls_;
        affected_.push_back(transfer);
        for (const LinkUse& use : transfers_[transfer].uses) {
          visit(use.link);
        }
      }
    }
  }
  for (const size_t transfer : affected_) {
    for (const LinkUse& use : transfers_[transfer].uses) {
      links_[use.link].parts += use.part;
    }
  }
}

void LinkShares::set_share(size_t transfer, double share) {
  for (const LinkUse& use : transfers_[transfer].uses) {
    Link& link = links_[use.link];
    link.used += use.part * share;
    link.parts -= use.part;
    --link.open;
  }
  if (transfers_[transfer].share != share) {
    transfers_[transfer].share = share;
    changed_.push_back({transfer, share});
  }
}

std::span<const LinkShares::Changed> LinkShares::update() {
  changed_.clear();
  if (marked_.empty()) {
    return changed_;
  }
  ++calls_;
  find_affected();
  // Sums of parts that are left of rounding never limit a transfer, since its part of its busiest link is 1.
  const auto full_at = [](const Link& link) {
    return link.open == 0 || link.parts < 1e-9 ? HUGE_VAL : (1 - link.used) / link.parts;
  };
  double least = 0;  // shares only grow
  while (!affected_.empty()) {
    double share = HUGE_VAL;
    for (const size_t link : near_) {
      share = std::min(share, full_at(links_[link]));
    }
    share = least = std::clamp(share, least, 1.0);
    // The links that are full now. Their transfers are taken out of the list before any share is set, because setting a
    // share changes what other links have left.
    const auto stops = [&](size_t transfer) {
      return std::ranges::any_of(transfers_[transfer].uses,
                                 [&](const LinkUse& use) { return full_at(links_[use.link]) <= share * kRounding; });
    };
    const auto stopped =
        std::stable_partition(affected_.begin(), affected_.end(), [&](size_t transfer) { return !stops(transfer); });
    for (auto transfer = stopped; transfer != affected_.end(); ++transfer) {
      set_share(*transfer, share);
    }
    affected_.erase(stopped, affected_.end());
  }
  return changed_;
}

}  // namespace xrun::planner
