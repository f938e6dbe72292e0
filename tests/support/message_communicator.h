// A communicator of ranks that share no memory: blocks are sent as serialised messages over channels. It is a test
// double for MPI between two threads with their own arenas, or between two processes over a socket pair.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/comm/communicator.h"

namespace xrun::runtime::testing {

using Message = std::vector<std::byte>;

// One end of a connection between two ranks. Threads: one may send while another one receives.
class Channel {
 public:
  virtual ~Channel() = default;
  virtual bool send(const Message& message) = 0;  // false: the other end is gone
  virtual std::optional<Message> receive() = 0;   // waits; nullopt: the other end is gone
  virtual void close() = 0;                       // closes both directions, and ends a wait of the other thread
};

// Makes the two ends of a connection within one process.
std::pair<std::shared_ptr<Channel>, std::shared_ptr<Channel>> make_queue_channel();
// Makes a channel of a connected socket, and closes the socket at the end.
std::shared_ptr<Channel> make_socket_channel(int socket);

// One thread does all the work: it reads and sends the blocks of posted exchanges and writes received blocks to their
// destinations. A further thread for each peer only takes messages off the channel, so that two ranks never wait for
// each other.
class MessageCommunicator final : public Communicator {
 public:
  //   rank_of   returns the rank of a device
  //   channels  indexed by rank; null for this rank
  MessageCommunicator(int rank, std::function<int(int device)> rank_of, std::span<const Exchange> exchanges,
                      std::vector<std::shared_ptr<Channel>> channels);
  ~MessageCommunicator() override;

  void post(int exchange, Completion received, Completion released) override;
  void resize(std::span<const Exchange> exchanges) override;
  Outcome agree(Outcome mine) override;
  void broadcast(int channel, int root, std::span<std::byte> bytes, Completion done) override;

  // Sends a text to all ranks and returns the texts of all ranks, indexed by rank, including this one. Waits for all
  // ranks.
  std::vector<std::string> gather(const std::string& mine);

 private:
  // The state of one exchange: blocks that have been received, and blocks that are still missing.
  struct Member {
    Exchange exchange;
    bool posted = false;
    Completion received;
    Completion released;
    size_t missing = 0;                          // number of blocks that are still missing
    std::map<int, size_t> next;                  // for each sending device, the index of its next block
    std::vector<std::pair<int, Message>> early;  // messages that arrived before the exchange was posted
  };

  // Broadcasts of one channel and root: those that this rank has called, and the messages received for them.
  struct Broadcast {
    std::span<std::byte> bytes;
    Completion done;
  };
  struct Broadcasts {
    std::deque<Broadcast> waiting;
    std::deque<Message> early;
  };

  void work();
  void send_blocks(Member& member);
  void deliver(const Message& message);
  void place(Member& member, int from, std::span<const std::byte> bytes);
  void move_broadcasts(int channel, int root);
  void fail_broadcasts(int root, const std::string& why);
  void lose(int rank);
  std::set<int> lost_ranks();
  void enqueue(std::function<void()> event);
  void send(int rank, const Message& message);

  const int rank_;
  std::function<int(int)> rank_of_;
  std::vector<std::shared_ptr<Channel>> channels_;
  std::vector<Member> members_;                  // used only by the thread of the worker
  std::map<std::pair<int, int>, size_t> index_;  // index in `members_`; key: group and device
  std::vector<std::thread> readers_;
  std::mutex mutex_;  // guards all members below
  std::condition_variable changed_;
  std::deque<std::function<void()>> events_;
  bool stopping_ = false;
  std::set<int> lost_;                                   // ranks that have left; they may have ended their run
  std::map<int64_t, std::map<int, std::string>> texts_;  // keys: round, then rank
  int64_t round_ = 0;
  std::map<std::pair<int, int>, Broadcasts> broadcasts_;  // key: channel and root
  std::thread worker_;
};

}  // namespace xrun::runtime::testing
