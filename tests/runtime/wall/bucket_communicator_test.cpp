// Exchanges over token buckets. Times are compared with the least possible ones, since a busy machine may delay the
// thread of the network; tests of the largest times repeat an exchange, and need a single one that is not delayed.
#include "runtime/wall/bucket_communicator.h"

#include <algorithm>
#include <atomic>
#include <gtest/gtest.h>
#include <memory>
#include <thread>

#include "runtime/wall/sleep.h"

namespace xrun::runtime {
namespace {

constexpr Seconds kRounding = 1e-6;

// Posts exchanges, and waits until all of them have received and are released.
class Posts {
 public:
  explicit Posts(WallModel model) : model_(std::move(model)), events_(model_.exchanges.size()) {
    for (const double rate : model_.rates) {
      buckets_.emplace_back(rate);
    }
    auto made = BucketCommunicator::start(model_, buckets_);
    EXPECT_TRUE(made.ok());
    communicator_ = std::move(made).value();
    receives_.resize(model_.exchanges.size(), false);
    sends_ = receives_;
    for (size_t i = 0; i < model_.exchanges.size(); ++i) {
      receives_[i] = !model_.exchanges[i].senders.empty();
      for (const int sender : model_.exchanges[i].senders) {
        sends_[static_cast<size_t>(sender)] = true;
      }
    }
  }

  void begin() {
    begin_ = wall_now();
    left_ = static_cast<int>(std::ranges::count(receives_, true) + std::ranges::count(sends_, true));
    std::ranges::for_each(events_, [](Event& event) { event.received = event.released = -1; });
  }
  void post(int exchange) {
    Event& event = events_[static_cast<size_t>(exchange)];
    event.posts = this;
    communicator_->post(exchange, {&Posts::received, &event, 0}, {&Posts::released, &event, 0});
  }
  void wait() const {
    while (left_ > 0) {
      std::this_thread::yield();
    }
  }
  // Posts all exchanges at once, and returns the time until the last event.
  Seconds post_all() {
    begin();
    for (size_t i = 0; i < events_.size(); ++i) {
      post(static_cast<int>(i));
    }
    wait();
    Seconds last = 0;
    for (const Event& event : events_) {
      last = std::max({last, event.received, event.released});
    }
    return last;
  }
  bool can_be_shorter(Seconds time) {
    for (int i = 0; i < 50; ++i) {
      if (post_all() < time) {
        return true;
      }
    }
    return false;
  }
  Seconds received_at(int exchange) const { return events_[static_cast<size_t>(exchange)].received; }
  Seconds released_at(int exchange) const { return events_[static_cast<size_t>(exchange)].released; }

 private:
  struct Event {
    Posts* posts = nullptr;
    Seconds received = -1;
    Seconds released = -1;
  };
  static void received(void* context, int32_t /*argument*/, Status status, Seconds /*moving*/) {
    auto& event = *static_cast<Event*>(context);
    EXPECT_TRUE(status.ok());
    event.received = wall_now() - event.posts->begin_;
    --event.posts->left_;
  }
  static void released(void* context, int32_t /*argument*/, Status status, Seconds /*moving*/) {
    auto& event = *static_cast<Event*>(context);
    EXPECT_TRUE(status.ok());
    event.released = wall_now() - event.posts->begin_;
    --event.posts->left_;
  }

  WallModel model_;
  TokenBuckets buckets_;
  std::vector<Event> events_;
  std::vector<bool> receives_;
  std::vector<bool> sends_;
  std::atomic<int> left_{0};
  Seconds begin_ = 0;
  std::unique_ptr<BucketCommunicator> communicator_;
};

// Two sends of 20 kB over links of 1 MB/s. Exchange 0 sends to exchange 1, and 2 to 3.
WallModel two_sends(std::array<size_t, 2> first, std::array<size_t, 2> second, std::array<size_t, 2> routes) {
  return {.rates = std::vector<double>(4, 1e6),
          .work = {},
          .exchanges = {{}, {.senders = {0}, .least = 0}, {}, {.senders = {2}, .least = 0}},
          .messages = {{.from = 0, .to = {1}, .bytes = 20e3, .route = routes[0], .buckets = first},
                       {.from = 2, .to = {3}, .bytes = 20e3, .route = routes[1], .buckets = second}},
          .routes = 2,
          .latency = 0};
}

TEST(BucketCommunicator, AMessageTakesItsBytesAndTheLatency) {
  WallModel model = two_sends({0, 1}, {2, 3}, {0, 1});
  model.latency = 5e-3;
  Posts posts(model);
  posts.post_all();
  for (const int receiver : {1, 3}) {
    EXPECT_GE(posts.received_at(receiver), 25e-3 - kRounding);
    EXPECT_GE(posts.released_at(receiver - 1), 20e-3 - kRounding);
  }
  EXPECT_TRUE(posts.can_be_shorter(1.5 * 25e-3)) << "messages on different links do not slow one another";
}

TEST(BucketCommunicator, MessagesShareALinkFairly) {
  Posts posts(two_sends({0, 1}, {2, 1}, {0, 1}));
  EXPECT_GE(posts.post_all(), 40e-3 - kRounding);
  // Both end at about the end, not one after the other.
  bool fair = false;
  for (int i = 0; i < 50 && !fair; ++i) {
    const Seconds all = posts.post_all();
    EXPECT_GE(all, 40e-3 - kRounding);
    fair = all < 50e-3 && std::min(posts.received_at(1), posts.received_at(3)) > 35e-3;
  }
  EXPECT_TRUE(fair);
}

TEST(BucketCommunicator, MessagesOfOneRouteGoOneAfterTheOther) {
  Posts posts(two_sends({0, 1}, {0, 1}, {0, 0}));
  EXPECT_GE(posts.post_all(), 40e-3 - kRounding);
  EXPECT_LT(posts.received_at(1), posts.received_at(3)) << "in the order of their posting";
  bool first_is_alone = false;
  for (int i = 0; i < 50 && !first_is_alone; ++i) {
    posts.post_all();
    first_is_alone = posts.received_at(1) < 30e-3;
  }
  EXPECT_TRUE(first_is_alone);
}

TEST(BucketCommunicator, AnExchangeTakesAtLeastItsTime) {
  // A gather of two members on a node, which also receive their own blocks.
  const WallModel model{.rates = {},
                        .work = {},
                        .exchanges = {{.senders = {0, 1}, .least = 10e-3}, {.senders = {0, 1}, .least = 10e-3}},
                        .messages = {},
                        .routes = 0,
                        .latency = 0};
  Posts posts(model);
  EXPECT_GE(posts.post_all(), 10e-3 - kRounding);
  EXPECT_TRUE(posts.can_be_shorter(1.5 * 10e-3));
}

TEST(BucketCommunicator, AMessageWaitsForItsReceiver) {
  Posts posts(two_sends({0, 1}, {2, 3}, {0, 1}));
  posts.begin();
  for (const int exchange : {0, 2, 3}) {
    posts.post(exchange);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(posts.released_at(0), -1);
  posts.post(1);
  posts.wait();
  EXPECT_GE(posts.received_at(1), 50e-3 - kRounding);
}

TEST(BucketCommunicator, AllMembersOfARankWaitForTheirMessage) {
  // Exchange 0 sends a block to two members of another rank in one message, which goes to the first of them.
  const WallModel model{.rates = {1e6, 1e6},
                        .work = {},
                        .exchanges = {{}, {.senders = {0}, .least = 0}, {.senders = {0}, .least = 0}},
                        .messages = {{.from = 0, .to = {1, 2}, .bytes = 10e3, .route = 0, .buckets = {0, 1}}},
                        .routes = 1,
                        .latency = 0};
  Posts posts(model);
  for (int i = 0; i < 3; ++i) {
    posts.post_all();
    EXPECT_GE(posts.received_at(1), 10e-3 - kRounding);
    EXPECT_GE(posts.received_at(2), 10e-3 - kRounding);
    EXPECT_GE(posts.released_at(0), 10e-3 - kRounding);
  }
}

}  // namespace
}  // namespace xrun::runtime
