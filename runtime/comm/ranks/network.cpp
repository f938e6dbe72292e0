// The loop of the network's thread: let the channel ends send their messages, complete sends, receive and deliver
// messages that have arrived, wake the ranks to which messages were sent, and sleep if nothing has happened. The loop
// ends when `stop` was called and all sends are complete; then the thread waits for the other ranks.
// Tests: tests/runtime/comm/ranks/world_test.cpp, tests/runtime/comm/ranks/rank_communicator_test.cpp
#include "runtime/comm/ranks/network.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <sys/prctl.h>
#include <utility>

#include "graph/base/errors.h"

namespace xrun::runtime {
namespace {

using Clock = std::chrono::steady_clock;

// How long the thread sleeps between two polls. MPI reports a message only when it is polled, and polling takes time
// from computation. While a channel end waits for a message, the thread at first sleeps for as long as a message inside
// a host takes, and later for a fixed share of the time waited so far, so that the message is late by at most that
// share. If all other ranks wake this rank after each message, the wake-up ends the sleep, and only transfers under way
// need polling.
struct Sleeps {
  std::chrono::microseconds least;
  std::chrono::microseconds most;
  int share;
  std::chrono::microseconds idle;  // sleep while no channel end waits for a message
};
constexpr Sleeps kPolling{std::chrono::microseconds(15), std::chrono::microseconds(500), 32,
                          std::chrono::microseconds(1000)};
constexpr Sleeps kWoken{std::chrono::microseconds(15), std::chrono::microseconds(5000), 4,
                        std::chrono::microseconds(10'000)};

Error failure(const std::string& words) {
  return world_error("XG0834", {"the exchange between ranks failed: {}", words},
                     "read the messages of the launcher; then start the same command again: it continues from the last "
                     "checkpoint");
}

}  // namespace

Result<std::unique_ptr<Network>> Network::start(std::function<std::unique_ptr<Messenger>(std::string&)> make) {
  std::unique_ptr<Network> network(new Network());
  Network& self = *network;
  try {
    self.thread_ = std::thread([&self, make = std::move(make)] { self.run(make); });
  } catch (const std::exception&) {
    return world_error("XG0803", "the system lets this process start no more threads", "raise its limit (`ulimit -u`)");
  }
  std::unique_lock lock(self.mutex_);
  self.changed_.wait(lock, [&] { return self.started_; });
  if (!self.start_error_.empty()) {
    return failure(self.start_error_);
  }
  return network;
}

void Network::stop() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_up_.send();
    thread_.join();
  }
}

void Network::run(const std::function<std::unique_ptr<Messenger>(std::string&)>& make) {
  ::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);  // otherwise the kernel adds 50 microseconds to each sleep
  std::string error;
  messenger_ = make(error);
  if (messenger_ != nullptr) {
    rank_ = messenger_->rank();
    count_ = messenger_->count();
    receives_.resize(static_cast<size_t>(count_));
    unsent_.resize(static_cast<size_t>(count_));
    to_wake_.resize(static_cast<size_t>(count_), false);
  }
  {
    const std::lock_guard lock(mutex_);
    started_ = true;
    start_error_ = messenger_ != nullptr ? "" : error.empty() ? "no reason was given" : error;
    changed_.notify_all();
    if (messenger_ == nullptr) {
      return;
    }
  }
  for (;;) {
    bool stopping = false;
    std::optional<Error> loss;
    {
      const std::lock_guard lock(mutex_);
      stopping = stopping_;
      loss = std::exchange(loss_, std::nullopt);
    }
    if (loss) {
      fail(*loss);
    }
    // Moves messages after the request to stop was read, so that everything queued before the request is sent.
    const bool moved = move();
    send();
    if (stopping && (failed_ || sends_.empty())) {
      break;
    }
    bool waits = false;
    {
      const std::lock_guard lock(ends_mutex_);
      for (const auto& [channel, end] : ends_) {
        waits = waits || end->waits();
      }
    }
    waits_.store(waits, std::memory_order_relaxed);
    looks_.fetch_add(1, std::memory_order_relaxed);
    waits = waits || !sends_.empty();
    for (const auto& queue : receives_) {
      waits = waits || !queue.empty();
    }
    if (moved) {
      last_moved_ = Clock::now();
    } else {
      pause(waits);
    }
  }
  if (!failed_) {
    messenger_->finish();
  }
  messenger_.reset();
}

void Network::pause(bool waits) {
  const Sleeps& sleeps = all_wake_.load(std::memory_order_relaxed) ? kWoken : kPolling;
  const auto share = std::chrono::duration_cast<std::chrono::microseconds>((Clock::now() - last_moved_) / sleeps.share);
  if (wake_up_.wait(waits ? std::clamp(share, sleeps.least, sleeps.most) : sleeps.idle)) {
    last_moved_ = Clock::now();  // a wait for messages begins here
  }
}

// Polls MPI once; returns whether a message has made progress.
bool Network::move() {
  bool moved = false;
  {
    const std::lock_guard lock(ends_mutex_);
    for (const auto& [channel, end] : ends_) {
      end->work();
    }
  }
  if (failed_) {
    return false;
  }
  moved = finish_sends();
  moved = take_arrivals() || moved;
  if (const std::string words = messenger_->error(); !words.empty()) {
    fail(failure(words));
  }
  return moved;
}

bool Network::finish_sends() {
  bool moved = false;
  for (size_t i = 0; i < sends_.size();) {
    if (!messenger_->done(sends_[i].number)) {
      ++i;
      continue;
    }
    --unsent_[static_cast<size_t>(sends_[i].peer)];
    recycle(std::move(sends_[i].message));
    std::swap(sends_[i], sends_.back());
    sends_.pop_back();
    moved = true;
  }
  return moved;
}

// Receives messages, and delivers them in the order in which their sender sent them: a message that is complete waits
// for earlier messages of its sender. Returns whether a message has made progress.
bool Network::take_arrivals() {
  bool moved = false;
  while (const auto arrival = messenger_->arrived()) {
    if (arrival->bytes < kNetworkHeader) {
      fail(failure("a message has no header"));
      return true;
    }
    Transfer transfer{.peer = arrival->from, .message = make_message(arrival->bytes - kNetworkHeader)};
    transfer.number = messenger_->receive(*arrival, transfer.message.data());
    receives_[static_cast<size_t>(arrival->from)].push_back(std::move(transfer));
    moved = true;
  }
  for (auto& queue : receives_) {
    while (!queue.empty() && messenger_->done(queue.front().number)) {
      Transfer transfer = std::move(queue.front());
      queue.pop_front();
      deliver(transfer.peer, std::move(transfer.message));
      moved = true;
    }
  }
  return moved;
}

void Network::deliver(int from, Message message) {
  int64_t channel = 0;
  std::memcpy(&channel, message.data(), sizeof channel);
  const std::lock_guard lock(ends_mutex_);
  const auto end = ends_.find(static_cast<int>(channel));
  if (end != ends_.end()) {
    end->second->on_message(from, std::move(message));
  } else if (channel >= next_channel_) {
    early_[static_cast<int>(channel)].emplace_back(from, std::move(message));
  }
}

int Network::open(ChannelEnd& end) {
  const std::lock_guard lock(ends_mutex_);
  const int channel = next_channel_++;
  ends_[channel] = &end;
  if (const auto early = early_.find(channel); early != early_.end()) {
    for (auto& [from, message] : early->second) {
      end.on_message(from, std::move(message));
    }
    early_.erase(early);
  }
  if (error_) {
    end.on_error(*error_, lost_);
  }
  return channel;
}

void Network::close(int channel) {
  const std::lock_guard lock(ends_mutex_);
  ends_.erase(channel);
}

void Network::wake() { wake_up_.send(); }

void Network::use_wake_ups(std::vector<std::string> names, bool all_wake) {
  const std::lock_guard lock(mutex_);
  wake_ups_ = std::move(names);
  all_wake_.store(all_wake, std::memory_order_relaxed);
}

// Wakes the ranks to which messages were sent since the last call.
void Network::send() {
  const std::lock_guard lock(mutex_);
  for (size_t rank = 0; rank < to_wake_.size(); ++rank) {
    const bool wakes = to_wake_[rank];
    to_wake_[rank] = false;
    if (wakes && rank < wake_ups_.size() && !wake_ups_[rank].empty()) {
      wake_up_.send(wake_ups_[rank]);
    }
  }
}

void Network::send(int channel, int to, Message message) {
  if (failed_) {
    return;
  }
  const int64_t header = channel;
  std::memcpy(message.data(), &header, sizeof header);
  ++unsent_[static_cast<size_t>(to)];
  Transfer transfer{.peer = to, .message = std::move(message)};
  transfer.number = messenger_->send(to, transfer.message.data(), transfer.message.size());
  sends_.push_back(std::move(transfer));
  to_wake_[static_cast<size_t>(to)] = true;
}

Message Network::make_message(size_t body) {
  Message message;
  if (!free_.empty()) {
    message = std::move(free_.back());
    free_.pop_back();
  }
  message.resize(kNetworkHeader + body);
  return message;
}

void Network::lose(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    loss_ = error;
  }
  wake_up_.send();
}

void Network::recycle(Message message) {
  constexpr size_t kKept = 64;
  if (free_.size() < kKept) {
    free_.push_back(std::move(message));
  }
}

void Network::fail(const Error& error) {
  failed_ = true;
  const std::lock_guard lock(ends_mutex_);
  tell(error, true);
}

void Network::tell(const Error& error, bool lost) {
  error_ = error_ ? error_ : error;
  lost_ = lost_ || lost;
  for (const auto& [channel, end] : ends_) {
    end->on_error(error, lost);
  }
}

}  // namespace xrun::runtime
