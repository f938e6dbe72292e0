// Simulates a run of several ranks: the watches of the ranks work in simulated time, over a model of the steps that the
// ranks do together.
#pragma once

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "runtime/comm/ranks/watch_rules.h"
#include "tests/support/hosts/simulated_net.h"

namespace xrun::testing {

using runtime::Socket;
using runtime::WatchLimits;
using runtime::WatchRules;
using runtime::WorkReport;

inline constexpr WatchLimits kLimits;
inline constexpr Seconds kBegin = 1000;  // start of the clock
inline constexpr Seconds kLength = 25;   // length of a script
inline constexpr Seconds kForEver = 1e12;
inline constexpr Seconds kStep = 0.1;

// The faults of one rank in a script.
struct Fate {
  Seconds killed = kForEver;
  Seconds hangs = kForEver;
  std::vector<SimulatedNet::Span> frozen;

  // Returns the first time at or after `time` at which the rank is not frozen.
  Seconds awake(Seconds time) const {
    for (size_t i = 0; i < frozen.size(); ++i) {
      if (frozen[i].begin <= time && time < frozen[i].end) {
        return awake(frozen[i].end);
      }
    }
    return time;
  }
};

// Simulates a run. Each rank does its part of a step and reports it to rank 0. Rank 0 commits the step when all ranks
// are done, just as a real run writes a manifest. A rank that has lost another rank ends a little later.
class SimulatedRun {
 public:
  SimulatedRun(int ranks, uint64_t seed) : random_(seed), net_(clock_, seed + 1), ranks_(static_cast<size_t>(ranks)) {
    std::vector<std::vector<Socket>> sockets(ranks_.size());
    for (auto& row : sockets) {
      row.resize(ranks_.size());
    }
    for (int a = 0; a < ranks; ++a) {
      for (int b = a + 1; b < ranks; ++b) {
        const auto [of_a, of_b] = net_.join(a, b);
        sockets[static_cast<size_t>(a)][static_cast<size_t>(b)] = Socket(of_a, net_);
        sockets[static_cast<size_t>(b)][static_cast<size_t>(a)] = Socket(of_b, net_);
      }
      if (a > 0) {
        const auto [of_first, of_a] = net_.join(0, a);
        rank(0).steps.emplace_back(of_first, net_);
        rank(a).steps.emplace_back(of_a, net_);
      }
    }
    for (int r = 0; r < ranks; ++r) {
      rank(r).rules = std::make_unique<WatchRules>(
          r, std::move(sockets[static_cast<size_t>(r)]), kLimits,
          [](const WorkReport& report) { return fmt::format("it hangs in step {}", report.step); }, clock_);
      rank(r).next = kBegin + draw(0, kLimits.period);
    }
    rank(0).done.resize(ranks_.size(), 0);
  }

  struct Rank {
    Fate fate;
    std::unique_ptr<WatchRules> rules;
    std::vector<Socket> steps;  // connections for steps: to rank 0; in rank 0: one to each other rank
    std::vector<int64_t> done;  // only in rank 0: the number of steps that each rank has done
    Seconds next = 0;           // time of the rank's next action
    Seconds turned = 0;         // time of the rank's last action
    std::optional<Seconds> lost_at;
    Seconds ends_at = kForEver;  // time at which the process ends, a while after it decided to
    bool ended = false;
    bool dead = false;
  };

  Rank& rank(int r) { return ranks_[static_cast<size_t>(r)]; }
  int count() const { return static_cast<int>(ranks_.size()); }
  SimulatedNet& net() { return net_; }
  double draw(double from, double to) { return std::uniform_real_distribution<double>(from, to)(random_); }
  int draw_rank() { return static_cast<int>(random_() % ranks_.size()); }
  std::mt19937_64& random() { return random_; }
  const std::vector<Seconds>& commits() const { return commits_; }

  void play() {
    const Seconds end = kBegin + kLength + 60;
    for (;;) {
      int first = -1;
      Seconds at = end;
      for (int r = 0; r < count(); ++r) {
        const Seconds due = due_of(r);
        if (due < at) {
          first = r;
          at = due;
        }
      }
      if (first < 0) {
        return;
      }
      clock_.move_to(at);
      act(first);
    }
  }

 private:
  Seconds due_of(int r) const {
    const Rank& one = ranks_[static_cast<size_t>(r)];
    if (one.dead || one.ended) {
      return kForEver;
    }
    Seconds due = std::min(one.next, one.ends_at);
    due = std::min(due, net_.next_arrival(r, one.turned).value_or(due));
    due = one.fate.awake(due);
    return std::min(due, one.fate.killed);
  }

  void act(int r) {
    Rank& one = rank(r);
    const Seconds now = clock_.now();
    if (now >= one.fate.killed) {
      one.dead = true;
      net_.kill(r);
      return;
    }
    if (now >= one.ends_at) {
      one.ended = true;
      if (random_() % 2 == 0) {  // otherwise a launcher has killed the rank before its watch ended
        one.rules->end();
      }
      net_.kill(r);  // the system closes the connections of an ended process
      return;
    }
    WorkReport work{.step = std::ssize(commits_)};
    work.state = now >= one.fate.hangs ? WorkReport::kHangs : WorkReport::kFine;
    one.rules->turn(work);
    one.turned = now;
    if (one.rules->lost() && !one.lost_at) {
      one.lost_at = now;
      one.ends_at = now + draw(0.001, 5);
    }
    if (!one.lost_at) {
      train(r);
    }
    if (now >= one.next) {
      one.next = now + std::min(kLimits.period, kStep);
    }
  }

  // Does the steps of rank `r`. A rank that hangs does no more steps, but its watch continues.
  void train(int r) {
    Rank& one = rank(r);
    if (clock_.now() >= one.fate.hangs) {
      return;
    }
    if (r > 0) {
      int64_t step = -1;
      while (take(one.steps[0], step)) {
        ++step;
        (void)write_whole(one.steps[0], std::as_bytes(std::span(&step, 1)));
      }
      return;
    }
    const int64_t step = std::ssize(commits_);
    one.done[0] = step + 1;
    for (size_t other = 1; other < ranks_.size(); ++other) {
      while (take(one.steps[other - 1], one.done[other])) {
      }
    }
    if (clock_.now() < asked_ + kStep) {
      return;
    }
    if (asked_ > 0 && std::ranges::all_of(one.done, [&](int64_t done) { return done == step + 1; })) {
      commits_.push_back(clock_.now());
    } else if (asked_ > 0) {
      return;
    }
    asked_ = clock_.now();
    const int64_t next = std::ssize(commits_);
    for (const Socket& socket : one.steps) {
      (void)write_whole(socket, std::as_bytes(std::span(&next, 1)));
    }
  }

  static bool take(const Socket& socket, int64_t& number) {
    bool ended = false;
    return socket.open() && read_some(socket, std::as_writable_bytes(std::span(&number, 1)), ended) == sizeof number;
  }

  std::mt19937_64 random_;
  SimulatedClock clock_;
  SimulatedNet net_;
  std::vector<Rank> ranks_;
  std::vector<Seconds> commits_;  // time of each step's commit
  Seconds asked_ = 0;             // time at which rank 0 asked for the current step
};

}  // namespace xrun::testing
