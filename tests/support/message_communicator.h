// A communicator of ranks that share no memory: blocks go as serialised messages over channels. A test double that
// stands for MPI: two threads with arenas of their own, or two processes over a socket pair.
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

// One end of a connection between two ranks. Threads: one that sends, one that receives.
class Channel {
 public:
  virtual ~Channel() = default;
  virtual bool send(const Message& message) = 0;  // false: the other end is gone
  virtual std::optional<Message> receive() = 0;   // waits; nullopt: the other end is gone
  virtual void close() = 0;                       // ends both directions, and the other thread's wait
};

// Two ends in one process.
std::pair<std::shared_ptr<Channel>, std::shared_ptr<Channel>> make_queue_channel();
// The end of a connected socket, which it closes.
std::shared_ptr<Channel> make_socket_channel(int socket);

// One thread does all the work: it reads the blocks of what is posted, sends them, and writes what has come into its
// places. A thread for each peer only takes messages off the channel, so that no two ranks wait for one another.
class MessageCommunicator final : public Communicator {
 public:
  //   rank_of   rank of a device
  //   channels  by rank; null for this rank
  MessageCommunicator(int rank, std::function<int(int device)> rank_of, std::span<const Exchange> exchanges,
                      std::vector<std::shared_ptr<Channel>> channels);
  ~MessageCommunicator() override;

  void post(int exchange, Completion received, Completion released) override;
  void resize(std::span<const Exchange> exchanges) override;
  Outcome agree(Outcome mine) override;
  void broadcast(int channel, int root, std::span<std::byte> bytes, Completion done) override;

  // Sends texts to all ranks and gives back theirs, by rank; the own one among them. Waits for all.
  std::vector<std::string> gather(const std::string& mine);

 private:
  // Blocks of one exchange that have come, or are to come.
  struct Member {
    Exchange exchange;
    bool posted = false;
    Completion received;
    Completion released;
    size_t missing = 0;                          // blocks
    std::map<int, size_t> next;                  // sending device to the index of its next block
    std::vector<std::pair<int, Message>> early;  // messages that came before it was posted
  };

  // A broadcast that was asked for, and what has come of those with its channel and root.
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
  std::vector<Member> members_;                  // used by the worker's thread
  std::map<std::pair<int, int>, size_t> index_;  // (group, device)
  std::vector<std::thread> readers_;
  std::mutex mutex_;  // guards all members below
  std::condition_variable changed_;
  std::deque<std::function<void()>> events_;
  bool stopping_ = false;
  std::set<int> lost_;                                   // ranks that are gone: they may have ended their run
  std::map<int64_t, std::map<int, std::string>> texts_;  // keys: round, then rank
  int64_t round_ = 0;
  std::map<std::pair<int, int>, Broadcasts> broadcasts_;  // key: channel and root
  std::thread worker_;
};

}  // namespace xrun::runtime::testing
