// Tests the watch between ranks in simulated time with random scripts: links that are cut, flap, or are slow; groups of
// ranks that do not reach each other; and ranks that are frozen, killed, cut off, or hang.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <iostream>
#include <optional>
#include <set>

#include "tests/fault_injection/runs.h"
#include "tests/fault_injection/simulated_run.h"

namespace xrun::testing {
namespace {

using runtime::accept_from;
using runtime::connect_to;
using runtime::listen_on_any_port;

constexpr int64_t kScripts = 2000;
// The faults of a script and the ranks that they affect.
struct Script {
  std::string text;
  std::set<int> touched;    // ranks with a fault, and both ends of faulty links
  std::optional<int> only;  // the only rank at fault, if its fault is permanent
  Seconds begin = 0;
  Seconds least = 0;      // least time between the fault and its detection
  bool harmless = false;  // the faults are too short for any rank to be lost
};

Script draw_harmless(SimulatedRun& run) {
  Script script{.harmless = true};
  for (Seconds time = kBegin + 1; time < kBegin + kLength; time += run.draw(4, 8)) {
    const int a = run.draw_rank();
    const int b = (a + 1 + static_cast<int>(run.random()() % static_cast<uint64_t>(run.count() - 1))) % run.count();
    const Seconds length = run.draw(0.05, 0.6);
    switch (run.random()() % 4) {
      // A whole machine is stopped, with all ranks on it.
      case 0: {
        const Seconds pause = run.draw(1, 20);
        for (int rank = 0; rank < run.count(); ++rank) {
          run.rank(rank).fate.frozen.push_back({.begin = time, .end = time + pause + run.draw(0, 0.5)});
        }
        script.text += fmt::format("freeze all at {:.2f} for {:.2f}; ", time - kBegin, pause);
        time += pause;
        break;
      }
      case 1:
        run.net().cut(a, b, time, time + length);
        script.text += fmt::format("cut {}-{} at {:.2f} for {:.2f}; ", a, b, time - kBegin, length);
        break;
      case 2:
        run.net().slow(a, b, {.begin = time, .end = time + 2, .delay = 2 * length});
        script.text += fmt::format("slow {}-{} at {:.2f} by {:.2f}; ", a, b, time - kBegin, 2 * length);
        break;
      default:
        run.rank(a).fate.frozen.push_back({.begin = time, .end = time + 2 * length});
        script.text += fmt::format("freeze {} at {:.2f} for {:.2f}; ", a, time - kBegin, 2 * length);
    }
  }
  return script;
}

Script draw_single(SimulatedRun& run) {
  const int rank = run.draw_rank();
  const Seconds time = kBegin + run.draw(1, 10);
  Script script{.touched = {rank}, .only = rank, .begin = time};
  switch (run.random()() % 4) {
    case 0:
      run.rank(rank).fate.killed = time;
      script.text = fmt::format("kill {} at {:.2f}", rank, time - kBegin);
      break;
    case 1:
      run.rank(rank).fate.frozen.push_back({.begin = time, .end = time + run.draw(6, 12)});
      script.least = kLimits.silence;
      script.text = fmt::format("freeze {} at {:.2f}", rank, time - kBegin);
      break;
    case 2:
      for (int other = 0; other < run.count(); ++other) {
        if (other != rank) {
          run.net().cut(rank, other, time, kForEver);
          script.touched.insert(other);
        }
      }
      script.least = kLimits.silence;
      script.text = fmt::format("cut off {} at {:.2f}", rank, time - kBegin);
      break;
    default:
      run.rank(rank).fate.hangs = time;
      script.text = fmt::format("hang {} at {:.2f}", rank, time - kBegin);
  }
  return script;
}

Script draw_wild(SimulatedRun& run) {
  Script script;
  const int faults = 1 + static_cast<int>(run.random()() % 4);
  for (int fault = 0; fault < faults; ++fault) {
    const int a = run.draw_rank();
    const int b = (a + 1 + static_cast<int>(run.random()() % static_cast<uint64_t>(run.count() - 1))) % run.count();
    const Seconds time = kBegin + run.draw(1, kLength);
    const Seconds length = std::exp(run.draw(std::log(0.1), std::log(15)));
    const Seconds end = run.random()() % 8 == 0 ? kForEver : time + length;
    const auto note = [&](const std::string& what) {
      script.text += fmt::format("{} at {:.2f} for {:.2f}; ", what, time - kBegin, std::min(end - time, 999.0));
    };
    script.touched.insert(a);
    switch (run.random()() % 7) {
      case 0: {  // two groups that do not reach each other
        const uint64_t side = run.random()();
        for (int i = 0; i < run.count(); ++i) {
          script.touched.insert(i);
          for (int j = i + 1; j < run.count(); ++j) {
            if (((side >> i) & 1U) != ((side >> j) & 1U)) {
              run.net().cut(i, j, time, end);
            }
          }
        }
        note(fmt::format("partition {:x}", side & 31U));
        break;
      }
      case 1:
        run.net().cut(a, b, time, end);
        script.touched.insert(b);
        note(fmt::format("cut {}-{}", a, b));
        break;
      case 2:
        script.touched.insert(b);
        for (Seconds at = time; at < time + length; at += run.draw(0.1, 3)) {
          run.net().cut(a, b, at, at + run.draw(0.01, 2));
        }
        note(fmt::format("flap {}-{}", a, b));
        break;
      case 3:
        script.touched.insert(b);
        run.net().slow(a, b, {.begin = time, .end = end, .delay = run.draw(0, 6)});
        note(fmt::format("slow {}-{}", a, b));
        break;
      case 4:
        run.rank(a).fate.frozen.push_back({.begin = time, .end = std::min(end, kBegin + kLength + 6)});
        note(fmt::format("freeze {}", a));
        break;
      case 5:
        run.rank(a).fate.killed = std::min(run.rank(a).fate.killed, time);
        note(fmt::format("kill {}", a));
        break;
      default:
        run.rank(a).fate.hangs = std::min(run.rank(a).fate.hangs, time);
        note(fmt::format("hang {}", a));
    }
  }
  return script;
}

// Returns the first time by which the rank has run for `span` seconds after `begin` without a freeze. A rank that was
// frozen starts its time limits for other ranks again.
Seconds awake_after(const SimulatedRun::Rank& rank, Seconds begin, Seconds span) {
  Seconds end = begin + span;
  for (bool moved = true; moved;) {
    moved = false;
    for (const SimulatedNet::Span& one : rank.fate.frozen) {
      if (one.begin < end && one.end + span > end && one.end > begin) {
        end = one.end + span;
        moved = true;
      }
    }
  }
  return end;
}

struct Figures {
  int64_t losses = 0;
  int64_t commits = 0;
  Seconds slowest = 0;  // longest time from a fault of one rank until the last rank notices it
  Seconds death = 0;    // like `slowest`, but from the death of a rank
};

void check(SimulatedRun& run, const Script& script, Figures& figures) {
  std::optional<Seconds> first;
  for (int r = 0; r < run.count(); ++r) {
    const auto at = run.rank(r).lost_at;
    first = at && (!first || *at < *first) ? at : first;
  }
  figures.commits += std::ssize(run.commits());
  ASSERT_FALSE(run.commits().empty());
  if (script.harmless) {
    ASSERT_FALSE(first) << "a loss without a reason";
    ASSERT_GT(run.commits().back(), kBegin + kLength);
    return;
  }
  if (script.only) {
    ASSERT_TRUE(first) << "nobody has noticed";
  }
  if (!first) {
    return;
  }
  ++figures.losses;
  for (int r = 0; r < run.count(); ++r) {
    SCOPED_TRACE(fmt::format("rank {}", r));
    const SimulatedRun::Rank& one = run.rank(r);
    const auto& lost = one.rules->lost();
    // A message that a lost rank sent earlier may arrive later, and then counts as a sign of life.
    const Seconds deadline = awake_after(one, *first, kLimits.silence + 1 + (script.only ? 0 : run.net().longest()));
    if (!lost) {
      ASSERT_TRUE(one.dead && one.fate.killed <= deadline)
          << "it waits for ever; the first loss is at " << *first - kBegin;
      continue;
    }
    ASSERT_LE(*one.lost_at, deadline) << lost->how << ", at " << *one.lost_at - kBegin << "; the first one is at "
                                      << *first - kBegin;
    ASSERT_TRUE(script.touched.contains(lost->rank)) << lost->rank << " is named, without a fault: " << lost->how;
    if (script.only) {
      const bool same = lost->rank == *script.only || (r == *script.only && run.count() == 2);
      ASSERT_TRUE(same) << "it names " << lost->rank << ": " << lost->how;
      if (r != *script.only) {
        figures.slowest = std::max(figures.slowest, *one.lost_at - script.begin);
        figures.death = script.least == 0 ? std::max(figures.death, *one.lost_at - script.begin) : figures.death;
        ASSERT_LE(*one.lost_at, script.begin + script.least + (script.least > 0 ? 1 : 0.3)) << lost->how;
      }
    }
  }
  // The run commits no steps after a rank was declared lost. One exception: a frozen rank 0 may wake later and commit
  // the step for which all ranks had done their parts. No other run can have the lock on the checkpoints until its
  // process has ended.
  const int64_t late = std::ranges::count_if(
      run.commits(), [&](Seconds time) { return time > *first + kLimits.silence + 1 + run.net().longest(); });
  ASSERT_LE(late, run.rank(0).fate.frozen.empty() ? 0 : 1);
}

TEST(NetworkScripts, EveryWaitEndsAndNoRunContinuesWithoutALostRank) {
  const uint64_t seed = fault_seed(20261124);
  const int64_t scripts = fault_runs(200, kScripts);
  Figures figures;
  for (int64_t number = 0; number < scripts; ++number) {
    const uint64_t own = seed + static_cast<uint64_t>(number) * 1000003;
    std::mt19937_64 random(own);
    SimulatedRun run(2 + static_cast<int>(random() % 4), own);
    const Script script = number % 4 == 0 ? draw_harmless(run) : number % 4 == 1 ? draw_single(run) : draw_wild(run);
    SCOPED_TRACE(fmt::format("script {} of seed {}, {} ranks: {}", number, seed, run.count(), script.text));
    run.play();
    check(run, script, figures);
    if (HasFatalFailure()) {
      return;
    }
  }
  std::cout << fmt::format(
      "{} scripts: {} with a loss, {} steps; one rank that dies or hangs is known to all after {:.3f} s, one that is "
      "frozen or cut off after {:.3f} s at most\n",
      scripts, figures.losses, figures.commits, figures.death, figures.slowest);
}

// Calls with a deadline: connecting, and reading what the other side sends late, in parts, or never.
TEST(NetworkScripts, CallsEndByTheirDeadlines) {
  const uint64_t seed = fault_seed(20261124);
  const int64_t scripts = fault_runs(200, kScripts);
  int64_t connected = 0;
  int64_t read = 0;
  for (int64_t number = 0; number < scripts; ++number) {
    const uint64_t own = seed + static_cast<uint64_t>(number) * 1000003;
    SCOPED_TRACE(fmt::format("script {} of seed {}", number, seed));
    std::mt19937_64 random(own);
    const auto draw = [&](double from, double to) { return std::uniform_real_distribution<double>(from, to)(random); };
    SimulatedClock clock;
    SimulatedNet net(clock, own);
    for (int cut = 0; cut < 3; ++cut) {
      const Seconds begin = kBegin + draw(0, 10);
      net.cut(0, 1, begin, random() % 8 == 0 ? kForEver : begin + draw(0, 4));
    }
    net.slow(0, 1, {.begin = kBegin, .end = kBegin + 20, .delay = draw(0, 3)});
    int port = 0;
    std::string error;
    net.call_from(1);
    const Socket listener = listen_on_any_port(port, error, net);
    net.call_from(0);
    Seconds began = clock.now();
    const Socket socket = connect_to("1", random() % 8 == 0 ? port + 7 : port, 2, error, net);
    ASSERT_LE(clock.now(), began + 2 + 1e-6);
    if (!socket.open()) {
      ASSERT_FALSE(error.empty());
      continue;
    }
    ++connected;
    const Socket other = accept_from(listener);
    ASSERT_TRUE(other.open());
    std::vector<std::byte> said(64);
    for (size_t at = 0; at < said.size(); at += 16) {
      if (random() % 8 != 0) {
        ASSERT_TRUE(write_whole(other, std::span(said).subspan(at, 16)));
      }
    }
    if (random() % 4 == 0) {
      net.kill(1);
    }
    began = clock.now();
    std::vector<std::byte> heard(64);
    read += read_whole(socket, heard, 2, clock) ? 1 : 0;
    ASSERT_LE(clock.now(), began + 2 + 1e-6);
  }
  EXPECT_GT(connected, scripts / 4);
  EXPECT_GT(read, scripts / 16);
  EXPECT_LT(read, connected);
}

}  // namespace
}  // namespace xrun::testing
