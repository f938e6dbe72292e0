// The rules of the watch between ranks (rank_watch.h), without its thread: which messages a rank sends to the others,
// and when it concludes that a rank is lost. Clock and sockets are interfaces of graph/base, so that tests can simulate
// both.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/os/clock.h"
#include "runtime/comm/ranks/heartbeats.h"
#include "runtime/comm/ranks/tcp.h"

namespace xrun::runtime {

// The state of a rank's own work, sent with each heartbeat.
struct WorkReport {
  // kLate: the work takes much longer than usual (`usual`). kHangs: it takes so long that the run must end.
  enum State : int32_t { kFine, kLate, kHangs };
  int32_t state = kFine;
  int32_t work = 0;     // the number that the caller has given to the kind of work
  int64_t step = 0;     // the step that the work belongs to
  Seconds seconds = 0;  // how long this rank has worked on it so far
  Seconds usual = 0;    // usual duration of such work; 0: unknown

  bool operator==(const WorkReport&) const = default;
};

struct LostRank {
  int rank = 0;     // may be this rank: it hangs, others do not hear it, or they ended while it was suspended
  std::string how;  // "its connection was closed", "it was silent for 2.5 s"
  bool hangs = false;

  bool operator==(const LostRank&) const = default;
};

struct WatchLimits {
  Seconds silence = 2.5;  // longest time that a rank may be silent
  Seconds period = 0.25;  // time between two heartbeats
};

// Threads: one.
class WatchRules {
 public:
  //   connections  a connection to every other rank; index: rank
  //   describe     describes work that hangs: "reading the data of step 12 has not ended after 10 min"
  WatchRules(int rank, std::vector<Socket> connections, WatchLimits limits,
             std::function<std::string(const WorkReport& report)> describe, const Clock& clock = system_clock());

  // Reads messages that have arrived, decides whether a rank is lost, and sends messages that are due. Call when data
  // have arrived, and at least once in each period. `own`: the state of this rank's work.
  void turn(const WorkReport& own);
  // Announces the end of this rank to the others, so that they do not count it as lost.
  void end();

  // The first rank that this one has lost, or that another rank has reported as lost. It does not change afterwards.
  const std::optional<LostRank>& lost() const { return lost_; }
  // The ranks whose work has become late since the last call, including this one.
  std::vector<std::pair<int, WorkReport>> take_late() { return std::exchange(late_, {}); }
  // The descriptors of the open connections, for waiting.
  std::vector<int> descriptors() const;

 private:
  struct Word {
    enum Kind : int32_t { kAlive = 1, kEnds, kDead, kSilent, kCutOff, kHangs };
    int32_t kind = kAlive;
    int32_t rank = 0;  // the lost rank; unused with kAlive and kEnds
    WorkReport work;   // work of the sender or of the lost rank; for kAlive and kHangs
  };
  struct Connection {
    Socket socket;
    bool ends = false;  // whether the rank has announced its end
    std::array<std::byte, sizeof(Word)> part{};
    size_t size = 0;                           // number of bytes of the incomplete message that have arrived
    int32_t state = WorkReport::State::kFine;  // last work state that the rank has reported
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
  std::vector<Connection> connections_;  // index: rank; the entry of this rank has its own state
  Heartbeats beats_;
  std::optional<Seconds> said_;  // time of the last heartbeat that this rank has sent
  Seconds time_ = 0;
  Seconds stood_ = 0;  // how long this rank was suspended; 0: within the limit
  Seconds woke_ = 0;   // when the suspension ended
  std::optional<LostRank> lost_;
  std::vector<std::pair<int, WorkReport>> late_;
};

}  // namespace xrun::runtime
