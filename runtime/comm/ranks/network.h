// The thread of a rank that sends and receives messages; only this thread calls MPI. Messages belong to channels: one
// for the world (world.h), and one for each communicator of a session.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "graph/base/result.h"
#include "runtime/comm/ranks/messenger.h"
#include "runtime/comm/ranks/wake_up.h"

namespace xrun::runtime {

// A message begins with kNetworkHeader bytes for the header of the network; its sender leaves them unset.
using Message = std::vector<std::byte>;
inline constexpr size_t kNetworkHeader = 8;

// Receives the messages of a channel.
// Threads: the network's, except for the calls that `open` makes before it returns.
class ChannelEnd {
 public:
  virtual ~ChannelEnd() = default;
  // Takes ownership of a message: the network's header, then the body.
  virtual void on_message(int from, Message message) = 0;
  // Sends the messages that are due (Network::send). Called after `wake`, and in each round of the network's loop.
  virtual void work() = 0;
  // Called when another rank has given up the collective work, so that expected messages may never come. If `lost` is
  // true, no further messages come at all.
  virtual void on_error(const Error& error, bool lost) = 0;
  // Whether this end expects a message; if so, the network polls often.
  virtual bool waits() const = 0;
};

// Threads: any calls `wake` and `lose`; the thread that runs steps calls `open` and `close`; others as documented.
class Network {
 public:
  // Starts the thread and creates the messenger on it. Errors: kWorld XG0834, with the library's message; kWorld
  // XG0803, the system cannot start a thread.
  static Result<std::unique_ptr<Network>> start(std::function<std::unique_ptr<Messenger>(std::string& error)> make);
  ~Network() { stop(); }
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // Sends the queued messages, waits until all ranks have done the same, and ends the thread.
  void stop();

  // For the watch of this rank (rank_watch.h); threads: any. `waits`: whether a channel end waited for messages at the
  // last poll. `looks`: the number of polls so far; if it does not change, a call of MPI does not return.
  bool waits() const { return waits_.load(std::memory_order_relaxed); }
  int64_t looks() const { return looks_.load(std::memory_order_relaxed); }

  int rank() const { return rank_; }
  int count() const { return count_; }

  // Assigns the next channel number to the end, and returns it. All ranks open their channels in the same order. Before
  // the call returns, it delivers messages that have already arrived for the channel, and an error that was reported to
  // other ends before.
  int open(ChannelEnd& end);
  // Closes a channel. After `close` returns, the end is not called any more.
  void close(int channel);
  // Makes the thread call `work` of all ends soon.
  void wake();

  // `wake_up` returns the wake-up of this rank (wake_up.h). `use_wake_ups` sets the names of the other ranks' wake-ups,
  // so that this rank can wake them after it has sent them messages; index: rank; empty name: the rank cannot be woken.
  // `all_wake`: all other ranks wake this one, so its thread may sleep longer.
  const WakeUp& wake_up() const { return wake_up_; }
  void use_wake_ups(std::vector<std::string> names, bool all_wake);

  // Begins to send a message, and fills in its header. Threads: only the network's.
  void send(int channel, int to, Message message);
  // The number of messages to a rank that are not completely sent. Threads: only the network's.
  size_t unsent(int to) const { return unsent_[static_cast<size_t>(to)]; }
  // Makes a message with space for `body` bytes after the header; its content is unspecified. Threads: only the
  // network's.
  Message make_message(size_t body);
  // Takes the memory of a message back for reuse. Threads: only the network's.
  void recycle(Message message);
  // Call when a rank has died, since MPI might wait for it forever: makes the thread end all sending and receiving, and
  // report `error` with `lost` = true to all ends.
  void lose(const Error& error);
  // Reports to all ends that a rank has given up. Call only inside a call of an end.
  void give_up(const Error& error) { tell(error, false); }

 private:
  struct Transfer {
    int number = 0;
    int peer = 0;
    Message message;
  };

  Network() = default;
  void run(const std::function<std::unique_ptr<Messenger>(std::string&)>& make);
  bool move();
  bool finish_sends();
  bool take_arrivals();
  void deliver(int from, Message message);
  void fail(const Error& error);
  void tell(const Error& error, bool lost);
  void pause(bool waits);
  void send();

  WakeUp wake_up_;
  std::atomic<bool> all_wake_{false};
  std::atomic<bool> waits_{false};
  std::atomic<int64_t> looks_{0};
  int rank_ = 0;
  int count_ = 0;

  // Used by the network's thread only.
  std::unique_ptr<Messenger> messenger_;
  std::vector<Transfer> sends_;
  std::vector<std::deque<Transfer>> receives_;  // index: rank; in the order of arrival
  std::vector<size_t> unsent_;                  // index: rank; messages that are not completely sent
  std::vector<Message> free_;
  std::vector<bool> to_wake_;  // index: rank; whether messages were sent to it since the last wake-up
  bool failed_ = false;
  std::chrono::steady_clock::time_point last_moved_;  // time of the last progress of a message, or start of a wait

  std::mutex ends_mutex_;  // held while channel ends are called
  std::map<int, ChannelEnd*> ends_;
  std::map<int, std::deque<std::pair<int, Message>>> early_;  // messages for channels that are not open yet
  std::optional<Error> error_;                                // the first error that was reported to ends
  bool lost_ = false;                                         // whether that error was reported with `lost` = true
  int next_channel_ = 0;

  std::mutex mutex_;  // guards all members below
  std::condition_variable changed_;
  std::vector<std::string> wake_ups_;  // index: rank
  std::optional<Error> loss_;          // the error that was passed to `lose`
  bool stopping_ = false;
  bool started_ = false;
  std::string start_error_;
  std::thread thread_;
};

}  // namespace xrun::runtime
