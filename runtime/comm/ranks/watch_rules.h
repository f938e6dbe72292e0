// The rules of the watch between ranks, without its thread (rank_watch.h): what a rank says to the others, and from
// what it concludes that one of them is lost. Time and connections come from graph/base, so that tests simulate both.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/clock.h"
#include "runtime/comm/ranks/heartbeats.h"
#include "runtime/comm/ranks/tcp.h"

namespace xrun::runtime {

// What a rank says of its own work with each heartbeat.
struct WorkReport {
  // kLate: the work takes much longer than such work has taken so far. kHangs: so long that the run is to end.
  enum State : int32_t { kFine, kLate, kHangs };
  int32_t state = kFine;
  int32_t work = 0;     // a number by which the caller knows the work
  int64_t step = 0;     // that it belongs to
  Seconds seconds = 0;  // how long the rank has been at it
  Seconds usual = 0;    // how long such work takes; 0: not known

  bool operator==(const WorkReport&) const = default;
};

struct LostRank {
  int rank = 0;     // the own rank: the others do not hear it, or ended while it was stopped, or it hangs
  std::string how;  // "its connection was closed", "it was silent for 2.5 s"
  bool hangs = false;

  bool operator==(const LostRank&) const = default;
};

struct WatchLimits {
  Seconds silence = 2.5;  // the longest one
  Seconds period = 0.25;  // between two heartbeats
};

// Threads: one.
class WatchRules {
 public:
  //   connections  to every other rank, by rank
  //   describe     "reading the data of step 12 has not ended after 10 min"
  WatchRules(int rank, std::vector<Socket> connections, WatchLimits limits,
             std::function<std::string(const WorkReport& report)> describe, const Clock& clock = system_clock());

  // Reads what has arrived, judges the other ranks, and says what is due. To be called when something has arrived, and
  // at least once a period. `own`: of this rank.
  void turn(const WorkReport& own);
  // Tells the others that this rank ends, so that they do not count it as lost.
  void end();

  // The first rank that this one has lost, or that another rank has reported as lost. It stays the same.
  const std::optional<LostRank>& lost() const { return lost_; }
  // The ranks whose work has become late since the last call, this one's included.
  std::vector<std::pair<int, WorkReport>> take_late() { return std::exchange(late_, {}); }
  // The descriptors of the connections that are open, to wait for.
  std::vector<int> descriptors() const;

 private:
  struct Word {
    enum Kind : int32_t { kAlive = 1, kEnds, kDead, kSilent, kCutOff, kHangs };
    int32_t kind = kAlive;
    int32_t rank = 0;  // of all but the first two: the one that is lost
    WorkReport work;   // of kAlive and kHangs
  };
  struct Connection {
    Socket socket;
    bool ends = false;  // as the rank has said
    std::array<std::byte, sizeof(Word)> part{};
    size_t size = 0;                           // of the part of a word that is here
    int32_t state = WorkReport::State::kFine;  // that the rank has reported last
  };

  void listen_to(int rank);
  void hear(int rank, const Word& word);
  void judge_silence();
  void note_work(int rank, const WorkReport& report);
  void lose(const Word& loss, int seen_by);
  std::string how_lost(const Word& loss, int seen_by) const;
  void say(const Word& word);

  const int rank_;
  const WatchLimits limits_;
  const std::function<std::string(const WorkReport&)> describe_;
  const Clock& clock_;
  std::vector<Connection> connections_;  // by rank; the own one's has the state of this rank
  Heartbeats beats_;
  std::optional<Seconds> said_;  // when the last heartbeat went out
  Seconds time_ = 0;
  Seconds stood_ = 0;  // how long this rank stood still, beyond the limit, and when that was over
  Seconds woke_ = 0;
  std::optional<LostRank> lost_;
  std::vector<std::pair<int, WorkReport>> late_;
};

}  // namespace xrun::runtime
