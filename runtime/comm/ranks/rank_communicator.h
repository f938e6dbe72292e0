// The communicator of a rank: blocks between its own devices are copied as in one process, all others go as messages.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/local/local_communicator.h"
#include "runtime/comm/ranks/rank_broadcasts.h"
#include "runtime/comm/ranks/rank_streams.h"
#include "runtime/comm/ranks/world.h"

namespace xrun::runtime {

// `post` only queues; the thread of the network reads what is sent, and writes what has come to its places. What one
// member sends another in an exchange is a stream of bytes. A long one to a rank of the same host goes as a list of
// addresses, from which that rank copies it at once; all others are cut into messages of 60 KiB, so that one message
// is read while another is on its way. Broadcasts go in such messages, too, when none of an exchange is to be sent.
class RankCommunicator final : public Communicator, private ChannelEnd {
 public:
  //   rank_of  of a device
  // All outlive the communicator. All ranks make theirs in the same order.
  RankCommunicator(World& world, const DeviceSet& devices, std::function<int(int device)> rank_of,
                   std::span<const Exchange> exchanges);
  ~RankCommunicator() override;

  void post(int exchange, Completion received, Completion released) override;
  void resize(std::span<const Exchange> exchanges) override;
  Outcome agree(Outcome mine) override { return world_.agree(std::move(mine)); }
  void broadcast(int channel, int root, std::span<std::byte> bytes, Completion done) override;

 private:
  // One exchange. It has received when both its local part, where there is one, and its messages have.
  struct Member {
    DividedExchange exchange;
    Completion received;
    Completion released;
    std::atomic<int> receiving{0};  // parts that are not over
    std::atomic<int> releasing{0};
    // Of the network's thread. Between steps both counts are 0.
    size_t missing = 0;                               // streams that have not come to their end
    size_t unread = 0;                                // streams that have not been read to their end
    std::deque<std::pair<int, Message>> early;        // by device; came before it and its sharers were posted
    Status status;                                    // of its messages
    std::chrono::steady_clock::time_point all_begun;  // when data of all streams have begun to come
    Seconds moving = 0;                               // its messages: at least the time since then
    Seconds local_moving = 0;
    bool sends_locally() const { return !exchange.local.sends.empty(); }
    bool receives_locally() const { return !exchange.local.receives.empty(); }
  };

  static void local_received(void* member, int32_t argument, Status status, Seconds moving);
  static void local_released(void* member, int32_t argument, Status status, Seconds moving);
  static void end_receiving(Member& member);
  static void end_releasing(Member& member);

  // Divides the blocks of exchanges among the streams of their members, and returns those of this rank.
  std::vector<Exchange> divide(std::span<const Exchange> exchanges);
  void on_message(int from, Message message) override;
  void work() override;
  void on_error(const Error& error, bool lost) override;
  bool waits() const override { return open_.load(std::memory_order_relaxed) > 0 || broadcasts_.waits(); }

  bool is_remote(int rank) const { return world_.hosts()[static_cast<size_t>(rank)] != host_; }
  void begin(Member& member);
  void place_early(Member& member);
  bool can_place(Member& member, int device);
  void end_stream(Member& member);
  void place(Member& member, int device, const Message& message);
  Status place_direct(Stream& stream, const Message& message);
  void taken(Member& member);
  void pump();
  bool send_some(Stream& stream);
  void send_addresses(Stream& stream);
  bool is_direct(const Stream& stream) const;
  void abandon(Member& member, const Error& error);

  World& world_;
  Network& network_;
  std::function<int(int)> rank_of_;
  std::vector<std::unique_ptr<Member>> members_;
  std::map<std::pair<int, int>, size_t> index_;  // (group, device)
  std::string host_;
  std::unique_ptr<LocalCommunicator> local_;
  std::vector<std::deque<Stream*>> outgoing_;  // by rank, in the order of posting
  RankBroadcasts broadcasts_;
  std::optional<Error> error_;  // behind it nothing is sent
  // Members that wait for messages, and members whose sent blocks have not been read.
  std::atomic<int> open_{0};

  std::mutex mutex_;
  std::vector<int> posted_;  // guarded: that the network's thread has not seen
  std::vector<int> taken_;   // of the network's thread
  int channel_ = 0;
};

}  // namespace xrun::runtime
