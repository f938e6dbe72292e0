// The one thread of a rank that sends and receives messages, and that nothing else calls MPI from. Messages belong to
// channels: one is the world's (world.h), each communicator of a session has one.
#pragma once

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

namespace xrun::runtime {

// A message with the header of the network in front: kNetworkHeader bytes that its sender leaves alone.
using Message = std::vector<std::byte>;
inline constexpr size_t kNetworkHeader = 8;

// What receives the messages of a channel. All calls come from the network's thread.
class ChannelEnd {
 public:
  virtual ~ChannelEnd() = default;
  // Behind the header lies the body. The message may be kept.
  virtual void on_message(int from, Message message) = 0;
  // After `wake`, and each time that the network looks around: begins what is to be sent.
  virtual void work() = 0;
  // A rank has given up what all do, so that messages of it may not come; or no messages come at all (`lost`).
  virtual void on_error(const Error& error, bool lost) = 0;
  // Whether somebody waits for a message, so that the network looks for one often.
  virtual bool waits() const = 0;
};

// Threads: `wake` and `lose` from any; open and close from the thread that runs steps; the rest as it says.
class Network {
 public:
  // Starts the thread and makes the messenger on it. Errors: kWorld XG0834, the library's words.
  static Result<std::unique_ptr<Network>> start(std::function<std::unique_ptr<Messenger>(std::string& error)> make);
  ~Network() { stop(); }
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // Sends what is queued, then waits until all ranks do the same. Ends are called no more.
  void stop();

  int rank() const { return rank_; }
  int count() const { return count_; }

  // Gives the end the next channel; all ranks open theirs in the same order. What has come for it is told at once, and
  // so is an error that the other ends have been told.
  int open(ChannelEnd& end);
  // Returns when the end is called no more.
  void close(int channel);
  // Has `work` called soon.
  void wake();

  // On the network's thread: queues a message. `message` has the header's bytes in front.
  void send(int channel, int to, Message message);
  // On the network's thread: messages to a rank that are queued or under way.
  size_t unsent(int to) const { return unsent_[static_cast<size_t>(to)]; }
  // On the network's thread: a message with this many bytes behind the header, of any content.
  Message make_message(size_t body);
  // On the network's thread: gives memory back, to be used again.
  void recycle(Message message);
  // No message is sent or received from now on, and all ends are told so: a rank is gone, and the library of messages
  // may wait for it for ever.
  void lose(const Error& error);
  // From a call of an end: tells all ends that a rank has given up.
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

  int rank_ = 0;
  int count_ = 0;

  // Of the network's thread.
  std::unique_ptr<Messenger> messenger_;
  std::vector<Transfer> sends_;
  std::vector<std::deque<Transfer>> receives_;  // by rank, in the order of their arrival
  std::vector<size_t> unsent_;                  // by rank
  std::vector<Message> free_;
  bool failed_ = false;

  std::mutex ends_mutex_;  // held while ends are called
  std::map<int, ChannelEnd*> ends_;
  std::map<int, std::deque<std::pair<int, Message>>> early_;  // of channels that are not open yet
  std::optional<Error> error_;                                // the first that ends were told
  bool lost_ = false;                                         // whether no messages come behind it
  int next_channel_ = 0;

  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  bool woken_ = false;
  std::optional<Error> loss_;  // of `lose`
  bool stopping_ = false;
  bool started_ = false;
  std::string start_error_;
  std::thread thread_;
};

}  // namespace xrun::runtime
