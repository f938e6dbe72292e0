// Tests: tests/runtime/comm/ranks/rank_communicator_test.cpp
#include "runtime/comm/ranks/rank_broadcasts.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "graph/base/check.h"
#include "runtime/comm/ranks/block_header.h"

namespace xrun::runtime {

void RankBroadcasts::ask(int channel, int root, std::span<std::byte> bytes, Completion done) {
  const std::lock_guard lock(mutex_);
  asked_.push_back({.channel = channel, .root = root, .bytes = bytes, .done = done});
}

void RankBroadcasts::begin_asked(const std::optional<Error>& error) {
  std::vector<Broadcast> asked;
  {
    const std::lock_guard lock(mutex_);
    asked.swap(asked_);
  }
  for (const Broadcast& one : asked) {
    begin(one, error);
  }
}

void RankBroadcasts::on_message(Message message) {
  const BlockHeader header = header_of(message);
  Arriving& arriving = arriving_[{header.group, header.from}];
  arriving.early.push_back(std::move(message));
  move_arrived(arriving);
}

// Begins a broadcast. An empty one ends at once without messages, since every rank has the size.
void RankBroadcasts::begin(const Broadcast& broadcast, const std::optional<Error>& error) {
  const bool own = broadcast.root == world_.rank();
  if (error || broadcast.bytes.empty() || (own && world_.count() == 1)) {
    broadcast.done.done(broadcast.done.context, broadcast.done.argument, error ? Status(*error) : Status(), 0);
    return;
  }
  if (own) {
    const auto shared = std::make_shared<Broadcast>(broadcast);
    shared->to_send = departing_.size() - 1;
    for (size_t rank = 0; rank < departing_.size(); ++rank) {
      if (static_cast<int>(rank) != broadcast.root) {
        departing_[rank].push_back({.broadcast = shared});
      }
    }
    return;
  }
  Arriving& arriving = arriving_[{broadcast.channel, broadcast.root}];
  arriving.asked.push_back(broadcast);
  open_ += 1;
  move_arrived(arriving);
}

void RankBroadcasts::send_some(int network_channel, int rank) {
  auto& queue = departing_[static_cast<size_t>(rank)];
  Departing& departing = queue.front();
  const std::shared_ptr<Broadcast> broadcast = departing.broadcast;
  const size_t bytes = std::min(broadcast->bytes.size() - departing.at, static_cast<size_t>(kMostBlockBytes));
  const BlockHeader header{.kind = BlockHeader::kBroadcast, .group = broadcast->channel, .from = broadcast->root};
  Message message = make_block_message(world_.network(), header, bytes);
  std::memcpy(message.data() + kHeaders, broadcast->bytes.data() + departing.at, bytes);
  world_.network().send(network_channel, rank, std::move(message));
  departing.at += bytes;
  if (departing.at < broadcast->bytes.size()) {
    return;
  }
  queue.pop_front();
  if (--broadcast->to_send == 0) {
    broadcast->done.done(broadcast->done.context, broadcast->done.argument, {}, 0);
  }
}

// Copies data that have arrived to the memory of the broadcasts for which `ask` was called.
void RankBroadcasts::move_arrived(Arriving& arriving) {
  while (!arriving.asked.empty() && !arriving.early.empty()) {
    Message message = std::move(arriving.early.front());
    arriving.early.pop_front();
    Broadcast& first = arriving.asked.front();
    const size_t bytes = message.size() - kHeaders;
    XRUN_CHECK(bytes <= first.bytes.size() - first.at, "a broadcast has one size on all ranks");
    std::memcpy(first.bytes.data() + first.at, message.data() + kHeaders, bytes);
    first.at += bytes;
    world_.network().recycle(std::move(message));
    if (first.at == first.bytes.size()) {
      const Completion done = first.done;
      arriving.asked.pop_front();
      open_ -= 1;
      done.done(done.context, done.argument, {}, 0);
    }
  }
}

void RankBroadcasts::abandon(const Error& error) {
  std::vector<Completion> failed;
  {
    const std::lock_guard lock(mutex_);
    for (const Broadcast& one : asked_) {
      failed.push_back(one.done);
    }
    asked_.clear();
  }
  std::set<Broadcast*> own;  // broadcasts of this rank; each is sent to several ranks
  for (auto& queue : departing_) {
    for (const Departing& one : queue) {
      if (own.insert(one.broadcast.get()).second) {
        failed.push_back(one.broadcast->done);
      }
    }
  }
  for (auto& [key, arriving] : arriving_) {
    for (const Broadcast& one : arriving.asked) {
      failed.push_back(one.done);
      open_ -= 1;
    }
  }
  for (auto& queue : departing_) {
    queue.clear();
  }
  arriving_.clear();
  for (const Completion& one : failed) {
    one.done(one.context, one.argument, error, 0);
  }
}

}  // namespace xrun::runtime
