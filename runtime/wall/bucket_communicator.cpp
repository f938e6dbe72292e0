#include "runtime/wall/bucket_communicator.h"

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "graph/base/errors.h"
#include "runtime/wall/sleep.h"

namespace xrun::runtime {
namespace {

// A message takes its tokens in parts that a link gives in this time. Wake-ups are late by about 0.1 ms.
constexpr Seconds kPart = 1e-3;

}  // namespace

BucketCommunicator::BucketCommunicator(const WallModel& model, TokenBuckets& buckets)
    : model_(model),
      buckets_(buckets),
      members_(model.exchanges.size()),
      messages_(model.messages.size()),
      routes_(model.routes) {
  std::set<std::pair<int, int>> remote;  // sending and receiving member
  for (size_t m = 0; m < model.messages.size(); ++m) {
    const WallMessage& message = model.messages[m];
    for (const int end : {message.from, message.to.front()}) {
      members_[static_cast<size_t>(end)].messages.push_back(static_cast<int>(m));
      messages_[m].posts.add();
    }
    members_[static_cast<size_t>(message.from)].departures.add();
    for (const int to : message.to) {
      members_[static_cast<size_t>(to)].arrivals.add();
      remote.emplace(message.from, to);
    }
  }
  for (size_t i = 0; i < members_.size(); ++i) {
    const auto self = static_cast<int>(i);
    Member& member = members_[i];
    for (const int sender : model.exchanges[i].senders) {
      Member& other = members_[static_cast<size_t>(sender)];
      if (!remote.contains({sender, self})) {
        member.senders.push_back(sender);
        other.departures.add();
      }
      if (sender != self) {
        other.takers.push_back(self);
        member.posts.add();
      }
    }
    if (!model.exchanges[i].senders.empty()) {
      member.takers.push_back(self);
      member.posts.add();
      member.arrivals.add();
    }
  }
}

Result<std::unique_ptr<BucketCommunicator>> BucketCommunicator::start(const WallModel& model, TokenBuckets& buckets) {
  std::unique_ptr<BucketCommunicator> made(new BucketCommunicator(model, buckets));
  try {
    made->thread_ = std::thread([self = made.get()] { self->run(); });
  } catch (const std::system_error&) {
    return world_error("XG0803", "the system lets no thread start that times exchanges",
                       "raise its limit (`ulimit -u`, `ulimit -v`, pids.max of the control group)");
  }
  return made;
}

BucketCommunicator::~BucketCommunicator() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
}

void BucketCommunicator::post(int exchange, Completion received, Completion released) {
  // The notification is inside the lock: after it the step may end, and the communicator be destroyed.
  const std::lock_guard lock(mutex_);
  posted_.push_back({exchange, wall_now(), received, released});
  changed_.notify_one();
}

void BucketCommunicator::run() {
  wake_up_promptly();
  for (;;) {
    const std::vector<Posted> posted = take_posted();
    if (posted.empty() && events_.empty()) {
      return;  // the communicator stops
    }
    std::ranges::for_each(posted, [this](const Posted& one) { begin(one); });
    while (!events_.empty() && events_.top().at <= wall_now()) {
      const Event event = events_.top();
      events_.pop();
      handle(event);
    }
  }
}

// Waits for posted exchanges until the next event is due, and returns them. Without events, an empty result means that
// the communicator stops.
std::vector<BucketCommunicator::Posted> BucketCommunicator::take_posted() {
  std::unique_lock lock(mutex_);
  const auto has_news = [this] { return stops_ || !posted_.empty(); };
  if (events_.empty()) {
    changed_.wait(lock, has_news);
  } else {
    changed_.wait_until(lock, time_point_of(events_.top().at), has_news);
  }
  return std::exchange(posted_, {});
}

void BucketCommunicator::begin(const Posted& posted) {
  Member& member = members_[static_cast<size_t>(posted.member)];
  member.received = posted.received;
  member.released = posted.released;
  for (const int taker : member.takers) {
    Member& one = members_[static_cast<size_t>(taker)];
    if (one.posts.counts_down()) {
      one.begun = posted.at;
      events_.push({posted.at + model_.exchanges[static_cast<size_t>(taker)].least, What::kLeastTime, taker});
    }
  }
  for (const int message : member.messages) {
    if (messages_[static_cast<size_t>(message)].posts.counts_down()) {
      queue(message, posted.at);
    }
  }
}

void BucketCommunicator::queue(int message, Seconds at) {
  const WallMessage& one = model_.messages[static_cast<size_t>(message)];
  messages_[static_cast<size_t>(message)].left = one.bytes;
  std::deque<int>& route = routes_[one.route];
  route.push_back(message);
  if (route.size() == 1) {
    take_part(message, at);
  }
}

// Takes the tokens for the next part of a message from both of its links. `at`: the time at which it had the tokens of
// the part before.
void BucketCommunicator::take_part(int message, Seconds at) {
  const WallMessage& one = model_.messages[static_cast<size_t>(message)];
  double& left = messages_[static_cast<size_t>(message)].left;
  const double bytes = std::min(left, kPart * model_.rates[one.buckets[0]]);
  left -= bytes;
  Seconds due = at;
  for (const size_t bucket : one.buckets) {
    due = std::max(due, buckets_[bucket].take(bytes, at));
  }
  events_.push({due, What::kPart, message});
}

void BucketCommunicator::handle(const Event& event) {
  switch (event.what) {
    case What::kLeastTime:
      return arrive(event.index);
    case What::kPart:
      return end_part(event.index, event.at);
    case What::kArrival:
      for (const int to : model_.messages[static_cast<size_t>(event.index)].to) {
        arrive(to);
      }
  }
}

void BucketCommunicator::end_part(int message, Seconds at) {
  if (messages_[static_cast<size_t>(message)].left > 0) {
    return take_part(message, at);
  }
  const WallMessage& one = model_.messages[static_cast<size_t>(message)];
  events_.push({at + model_.latency, What::kArrival, message});
  std::deque<int>& route = routes_[one.route];
  route.pop_front();
  if (!route.empty()) {
    take_part(route.front(), at);
  }
  depart(one.from);
}

void BucketCommunicator::arrive(int index) {
  Member& member = members_[static_cast<size_t>(index)];
  if (!member.arrivals.counts_down()) {
    return;
  }
  std::ranges::for_each(member.senders, [this](int sender) { depart(sender); });
  member.received.done(member.received.context, member.received.argument, {}, wall_now() - member.begun);
}

void BucketCommunicator::depart(int index) {
  Member& member = members_[static_cast<size_t>(index)];
  if (member.departures.counts_down()) {
    member.released.done(member.released.context, member.released.argument, {}, 0);
  }
}

}  // namespace xrun::runtime
