// A communicator that moves no data: its exchanges take time, and messages between nodes take their bytes from the
// token buckets of the links that they cross.
//
// An exchange begins for a member when this member and all members that send to it are posted. The member has received
// when its least time is over and all messages to it have arrived; a member is released when its receivers on its own
// node have received, and its messages have left. Messages of one route are sent one after the other, in the order in
// which they became ready. A message takes its bytes in small parts, so that routes share links fairly.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>

#include "graph/base/result.h"
#include "runtime/comm/communicator.h"
#include "runtime/wall/token_bucket.h"
#include "runtime/wall/wall_model.h"

namespace xrun::runtime {

class BucketCommunicator final : public Communicator {
 public:
  // Starts the thread of the network. The arguments outlive the communicator. Errors: XG0803 the system starts no more
  // threads.
  static Result<std::unique_ptr<BucketCommunicator>> start(const WallModel& model, TokenBuckets& buckets);
  // REQUIRES: no exchange is under way.
  ~BucketCommunicator() override;

  void post(int exchange, Completion received, Completion released) override;
  void resize(std::span<const Exchange> /*exchanges*/) override {}
  Outcome agree(Outcome mine) override { return mine; }
  void broadcast(int /*channel*/, int /*root*/, std::span<std::byte> /*bytes*/, Completion done) override {
    done.done(done.context, done.argument, {}, 0);
  }

 private:
  // Counts of events that a member waits for. The thread sets a count to its first value again when it reaches zero.
  struct Count {
    int first = 0;
    int left = 0;
    void add() { left = ++first; }
    bool counts_down() { return --left == 0 && (left = first, true); }
  };
  struct Member {
    std::vector<int> takers;    // members that cannot begin before this one is posted, with itself if it receives
    std::vector<int> senders;   // members of its node from which it receives
    std::vector<int> messages;  // messages that cannot begin before this one is posted
    Count posts;                // members that must be posted before this one begins to receive
    Count arrivals;             // messages, and its least time
    Count departures;           // receivers of its node, and messages
    Seconds begun = 0;
    Completion received;
    Completion released;
  };
  struct Message {
    Count posts;
    double left = 0;  // bytes for which no tokens were taken yet
  };
  struct Posted {
    int member = 0;
    Seconds at = 0;
    Completion received;
    Completion released;
  };
  enum class What { kLeastTime, kPart, kArrival };
  struct Event {
    Seconds at = 0;
    What what = What::kLeastTime;
    int index = 0;  // member or message
    bool operator>(const Event& other) const { return at > other.at; }
  };

  BucketCommunicator(const WallModel& model, TokenBuckets& buckets);
  void run();
  std::vector<Posted> take_posted();
  void begin(const Posted& posted);
  void queue(int message, Seconds at);
  void take_part(int message, Seconds at);
  void handle(const Event& event);
  void end_part(int message, Seconds at);
  void arrive(int member);
  void depart(int member);

  const WallModel& model_;
  TokenBuckets& buckets_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Posted> posted_;  // guarded by mutex_
  bool stops_ = false;          // guarded by mutex_
  // The members below are used by the thread of the network only.
  std::vector<Member> members_;
  std::vector<Message> messages_;
  std::vector<std::deque<int>> routes_;  // messages that are sent or wait; index: route
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::thread thread_;
};

}  // namespace xrun::runtime
