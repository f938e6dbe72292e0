// Broadcasts between ranks: bytes of one rank, cut into messages, are sent to all others.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/ranks/world.h"

namespace xrun::runtime {

// Implements Communicator::broadcast. Broadcasts with equal root and channel are carried out one after the other, in
// the order of the calls. Threads: any calls `ask` and `waits`; the network's thread calls the other functions.
class RankBroadcasts {
 public:
  explicit RankBroadcasts(World& world) : world_(world), departing_(static_cast<size_t>(world.count())) {}

  // Queues a broadcast (Communicator::broadcast). The next call of begin_asked begins it.
  void ask(int channel, int root, std::span<std::byte> bytes, Completion done);
  // Begins the queued broadcasts. `error`: the error of a run that has failed; the broadcasts then end with it.
  void begin_asked(const std::optional<Error>& error);
  // Handles a message of kind kBroadcast.
  void on_message(Message message);
  // `has_for`: whether a message to this rank is waiting. `send_some` sends the next such message through the network's
  // channel `network_channel`.
  bool has_for(int rank) const { return !departing_[static_cast<size_t>(rank)].empty(); }
  void send_some(int network_channel, int rank);
  // Ends all broadcasts with an error.
  void abandon(const Error& error);
  // Whether this rank expects messages of broadcasts. Threads: any.
  bool waits() const { return open_.load(std::memory_order_relaxed) > 0; }

 private:
  // The progress of a broadcast.
  struct Broadcast {
    int channel = 0;
    int root = 0;
    std::span<std::byte> bytes;
    Completion done;
    size_t at = 0;       // on a rank that receives: bytes that have arrived
    size_t to_send = 0;  // on the root: number of ranks to which bytes remain to be sent
  };
  // The broadcasts of one root on one channel. Messages that arrive before this rank has called `ask` wait in `early`.
  struct Arriving {
    std::deque<Broadcast> asked;
    std::deque<Message> early;
  };
  struct Departing {
    std::shared_ptr<Broadcast> broadcast;
    size_t at = 0;
  };

  void begin(const Broadcast& broadcast, const std::optional<Error>& error);
  void move_arrived(Arriving& arriving);

  World& world_;
  std::vector<std::deque<Departing>> departing_;      // index: rank; broadcasts to it, in the order of the calls
  std::map<std::pair<int, int>, Arriving> arriving_;  // key: channel and root
  std::atomic<int> open_{0};                          // number of broadcasts that wait for messages

  std::mutex mutex_;
  std::vector<Broadcast> asked_;  // broadcasts that have not begun; guarded by the mutex
};

}  // namespace xrun::runtime
