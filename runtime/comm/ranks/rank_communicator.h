// The communicator of a rank: blocks between its own devices are copied by a LocalCommunicator, and blocks between
// devices of different ranks are sent as messages.
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

// `post` only queues an exchange; the network's thread reads the blocks to send, and copies received data to their
// places. The bytes that one member sends to another in an exchange form a stream. A long stream to a rank of the same
// host is sent as a list of addresses, and that rank copies the bytes directly from the memory of this process. Other
// streams are cut into messages of 60 KiB, so that the receiver handles one message while the next one is on its way.
// Broadcasts use messages of the same form, and are sent when no exchange has anything to send.
class RankCommunicator final : public Communicator, private ChannelEnd {
 public:
  //   rank_of  the rank of a device
  // All arguments outlive the communicator. All ranks create theirs in the same order.
  RankCommunicator(World& world, const DeviceSet& devices, std::function<int(int device)> rank_of,
                   std::span<const Exchange> exchanges);
  ~RankCommunicator() override;

  void post(int exchange, Completion received, Completion released) override;
  void resize(std::span<const Exchange> exchanges) override;
  Outcome agree(Outcome mine) override { return world_.agree(std::move(mine)); }
  void broadcast(int channel, int root, std::span<std::byte> bytes, Completion done) override;

 private:
  // One exchange. It has ended when its local part, if any, and all its messages have been received.
  struct Member {
    DividedExchange exchange;
    Completion received;
    Completion released;
    std::atomic<int> receiving{0};  // parts (local, messages) that have not been received
    std::atomic<int> releasing{0};
    // Used by the network's thread only. Between steps both counts are 0.
    size_t missing = 0;  // received streams that have not ended
    size_t unread = 0;   // sent streams that have not been read completely
    // Messages that arrived before this member and all its sharers were posted: {device, message}.
    std::deque<std::pair<int, Message>> early;
    Status status;                                    // status of its messages
    std::chrono::steady_clock::time_point all_begun;  // when data of every received stream had begun to arrive
    Seconds moving = 0;                               // transfer time of its messages: at least since all_begun
    Seconds local_moving = 0;
    bool sends_locally() const { return !exchange.local.sends.empty(); }
    bool receives_locally() const { return !exchange.local.receives.empty(); }
  };

  static void local_received(void* member, int32_t argument, Status status, Seconds moving);
  static void local_released(void* member, int32_t argument, Status status, Seconds moving);
  static void end_receiving(Member& member);
  static void end_releasing(Member& member);

  // Divides the blocks of exchanges among the streams of their members, and returns the local parts of the exchanges.
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
  std::map<std::pair<int, int>, size_t> index_;  // key: (group, device)
  std::string host_;
  std::unique_ptr<LocalCommunicator> local_;
  std::vector<std::deque<Stream*>> outgoing_;  // index: rank; streams to send to it, in the order of posting
  RankBroadcasts broadcasts_;
  std::optional<Error> error_;  // after an error nothing more is sent
  // The number of members that wait for messages or whose sent blocks have not been read.
  std::atomic<int> open_{0};

  std::mutex mutex_;
  std::vector<int> posted_;  // exchanges that the network's thread has not handled; guarded by mutex_
  std::vector<int> taken_;   // used by the network's thread only
  int channel_ = 0;
};

}  // namespace xrun::runtime
