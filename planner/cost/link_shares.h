// The shares of links that transfers have while they run at the same time: max-min fair, so that no share can be larger
// without a smaller or equal one becoming smaller still (docs/internals/algorithms.md, "Simulation").
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace xrun::planner {

// A link that a transfer crosses, with its bytes on this link as a fraction of those on its busiest link.
struct LinkUse {
  size_t link = 0;
  double part = 1;
};

// A transfer moves its bytes on all of its links at one pace. Its share is the fraction of its busiest link that it
// uses: 1 if it is alone on its links.
class LinkShares {
 public:
  explicit LinkShares(size_t links) : links_(links) {}

  // Adds a transfer with a number that no other transfer of these links has at the time. `uses` must not be empty, and
  // must live until the transfer is removed.
  void add(size_t transfer, std::span<const LinkUse> uses);
  void remove(size_t transfer);

  struct Changed {
    size_t transfer = 0;
    double share = 1;
  };
  // Shares the links again, and returns the transfers whose shares have changed since the last call, and new ones. The
  // result is valid until the next call.
  std::span<const Changed> update();

 private:
  struct Transfer {
    std::span<const LinkUse> uses;
    double share = 0;  // 0: not known yet
    size_t seen = 0;   // the last call of `update` that visited it
  };
  struct Link {
    std::vector<size_t> transfers;
    double used = 0;   // the share of the link that transfers with a known new share use
    double parts = 0;  // sum of the parts of the other transfers
    size_t open = 0;   // number of the other transfers
    size_t seen = 0;
    bool changed = false;
  };
  void mark(std::span<const LinkUse> uses);
  void visit(size_t link);
  void find_affected();
  void set_share(size_t transfer, double share);

  std::vector<Link> links_;
  std::vector<Transfer> transfers_;  // index: number of the transfer
  std::vector<size_t> marked_;       // links whose transfers have changed
  std::vector<size_t> near_;         // links of all affected transfers
  std::vector<size_t> affected_;     // transfers whose shares may change and are not known yet
  std::vector<Changed> changed_;
  size_t calls_ = 0;
};

}  // namespace xrun::planner
