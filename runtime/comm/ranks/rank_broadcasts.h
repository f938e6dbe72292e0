// Broadcasts between ranks: bytes of one rank, cut into messages, for all others.
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

// Broadcasts of one root on one channel follow one another in the order of the calls. Threads: `ask` any; the rest the
// network's.
class RankBroadcasts {
 public:
  explicit RankBroadcasts(World& world) : world_(world), departing_(static_cast<size_t>(world.count())) {}

  // Communicator::broadcast. It begins with the next begin_asked.
  void ask(int channel, int root, std::span<std::byte> bytes, Completion done);
  // `error`: of a run that has failed; the broadcasts end in it at once.
  void begin_asked(const std::optional<Error>& error);
  // A message of kind kBroadcast.
  void on_message(Message message);
  // Whether there is something for this rank, and the next message of it, through the network's channel
  // `network_channel`.
  bool has_for(int rank) const { return !departing_[static_cast<size_t>(rank)].empty(); }
  void send_some(int network_channel, int rank);
  // Ends all that were asked for.
  void abandon(const Error& error);
  // Whether messages are waited for. Threads: any.
  bool waits() const { return open_.load(std::memory_order_relaxed) > 0; }

 private:
  // How far a broadcast has come.
  struct Broadcast {
    int channel = 0;
    int root = 0;
    std::span<std::byte> bytes;
    Completion done;
    size_t at = 0;       // of another rank: bytes that are here
    size_t to_send = 0;  // of the own one: ranks that have not been sent all
  };
  // Those of one root on one channel; what comes before its call waits.
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
  std::vector<std::deque<Departing>> departing_;      // by rank, in the order of the calls
  std::map<std::pair<int, int>, Arriving> arriving_;  // by channel and root
  std::atomic<int> open_{0};                          // that wait for messages

  std::mutex mutex_;
  std::vector<Broadcast> asked_;  // guarded: that have not begun
};

}  // namespace xrun::runtime
