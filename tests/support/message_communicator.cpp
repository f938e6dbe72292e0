#include "tests/support/message_communicator.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <sys/socket.h>
#include <unistd.h>

namespace xrun::runtime::testing {
namespace {

// The header of a message.
struct Header {
  enum Kind : int32_t { kBlock, kText, kBroadcast };
  int32_t kind = kBlock;
  int32_t group = 0;  // group of the exchange; for broadcasts, the channel
  int32_t from = 0;   // sending device; for texts and broadcasts, the sending rank
  int32_t to = 0;
  int64_t round = 0;  // for texts, the number of the gather call
};

Message message_of(const Header& header, std::span<const std::byte> body) {
  Message message(sizeof header + body.size());
  std::memcpy(message.data(), &header, sizeof header);
  std::copy(body.begin(), body.end(), message.begin() + sizeof header);
  return message;
}

// One direction of a connection in memory.
struct Pipe {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Message> messages;
  bool closed = false;
};

class QueueChannel final : public Channel {
 public:
  QueueChannel(std::shared_ptr<Pipe> in, std::shared_ptr<Pipe> out) : in_(std::move(in)), out_(std::move(out)) {}
  bool send(const Message& message) override {
    const std::lock_guard lock(out_->mutex);
    if (!out_->closed) {
      out_->messages.push_back(message);
      out_->changed.notify_one();
    }
    return !out_->closed;
  }
  std::optional<Message> receive() override {
    std::unique_lock lock(in_->mutex);
    in_->changed.wait(lock, [&] { return in_->closed || !in_->messages.empty(); });
    if (in_->messages.empty()) {
      return std::nullopt;
    }
    Message message = std::move(in_->messages.front());
    in_->messages.pop_front();
    return message;
  }
  void close() override {
    for (const auto& pipe : {in_, out_}) {
      const std::lock_guard lock(pipe->mutex);
      pipe->closed = true;
      pipe->changed.notify_all();
    }
  }

 private:
  std::shared_ptr<Pipe> in_;
  std::shared_ptr<Pipe> out_;
};

class SocketChannel final : public Channel {
 public:
  explicit SocketChannel(int socket) : socket_(socket) {}
  ~SocketChannel() override { ::close(socket_); }
  bool send(const Message& message) override {
    const auto size = static_cast<int64_t>(message.size());
    return write_all(&size, sizeof size) && write_all(message.data(), message.size());
  }
  std::optional<Message> receive() override {
    int64_t size = 0;
    if (!read_all(&size, sizeof size)) {
      return std::nullopt;
    }
    Message message(static_cast<size_t>(size));
    return read_all(message.data(), message.size()) ? std::optional(std::move(message)) : std::nullopt;
  }
  void close() override { ::shutdown(socket_, SHUT_RDWR); }

 private:
  bool write_all(const void* data, size_t size) const {
    const auto* at = static_cast<const char*>(data);
    while (size > 0) {
      const ssize_t done = ::send(socket_, at, size, MSG_NOSIGNAL);
      if (done < 0 && errno == EINTR) {
        continue;
      }
      if (done <= 0) {
        return false;
      }
      at += done;
      size -= static_cast<size_t>(done);
    }
    return true;
  }
  bool read_all(void* data, size_t size) const {
    auto* at = static_cast<char*>(data);
    while (size > 0) {
      const ssize_t done = ::read(socket_, at, size);
      if (done < 0 && errno == EINTR) {
        continue;
      }
      if (done <= 0) {
        return false;
      }
      at += done;
      size -= static_cast<size_t>(done);
    }
    return true;
  }
  int socket_;
};

}  // namespace

std::pair<std::shared_ptr<Channel>, std::shared_ptr<Channel>> make_queue_channel() {
  const auto a = std::make_shared<Pipe>();
  const auto b = std::make_shared<Pipe>();
  return {std::make_shared<QueueChannel>(a, b), std::make_shared<QueueChannel>(b, a)};
}

std::shared_ptr<Channel> make_socket_channel(int socket) { return std::make_shared<SocketChannel>(socket); }

MessageCommunicator::MessageCommunicator(int rank, std::function<int(int)> rank_of, std::span<const Exchange> exchanges,
                                         std::vector<std::shared_ptr<Channel>> channels)
    : rank_(rank), rank_of_(std::move(rank_of)), channels_(std::move(channels)) {
  for (const Exchange& exchange : exchanges) {
    index_[{exchange.group, exchange.device}] = members_.size();
    members_.push_back({.exchange = exchange, .missing = exchange.receives.size()});
  }
  for (size_t peer = 0; peer < channels_.size(); ++peer) {
    if (channels_[peer] != nullptr) {
      readers_.emplace_back([this, peer] {
        while (auto message = channels_[peer]->receive()) {
          enqueue([this, got = std::move(*message)] { deliver(got); });
        }
        enqueue([this, peer] { lose(static_cast<int>(peer)); });
      });
    }
  }
  worker_ = std::thread([this] { work(); });
}

MessageCommunicator::~MessageCommunicator() {
  enqueue([this] {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  });
  worker_.join();
  for (const auto& channel : channels_) {
    if (channel != nullptr) {
      channel->close();
    }
  }
  for (std::thread& reader : readers_) {
    reader.join();
  }
  for (size_t rank = 0; rank < channels_.size(); ++rank) {
    fail_broadcasts(static_cast<int>(rank), "the run of this rank has ended");
  }
}

void MessageCommunicator::enqueue(std::function<void()> event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
  changed_.notify_all();
}

void MessageCommunicator::work() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    changed_.wait(lock, [&] { return !events_.empty(); });
    const std::function<void()> event = std::move(events_.front());
    events_.pop_front();
    lock.unlock();
    event();
    lock.lock();
  }
}

void MessageCommunicator::post(int exchange, Completion received, Completion released) {
  enqueue([=, this] {
    Member& member = members_[static_cast<size_t>(exchange)];
    member.posted = true;
    member.received = received;
    member.released = released;
    send_blocks(member);
    for (const auto& [from, bytes] : std::exchange(member.early, {})) {
      place(member, from, bytes);
    }
    for (const int rank : lost_ranks()) {
      lose(rank);
    }
  });
}

// Sends the blocks of an exchange. They are copied, so their memory is free at once.
void MessageCommunicator::send_blocks(Member& member) {
  const Exchange& exchange = member.exchange;
  for (const Block& block : exchange.sends) {
    std::vector<std::byte> bytes(static_cast<size_t>(block.bytes));
    block.memory->read(block.offset, bytes);
    const Header header{.group = exchange.group, .from = exchange.device, .to = block.peer};
    const Message message = message_of(header, bytes);
    if (rank_of_(block.peer) == rank_) {
      deliver(message);
    } else {
      send(rank_of_(block.peer), message);
    }
  }
  if (!exchange.sends.empty()) {
    member.released.done(member.released.context, member.released.argument, {}, 0);
  }
}

void MessageCommunicator::send(int rank, const Message& message) {
  if (!channels_[static_cast<size_t>(rank)]->send(message)) {
    enqueue([this, rank] { lose(rank); });
  }
}

void MessageCommunicator::deliver(const Message& message) {
  Header header;
  std::memcpy(&header, message.data(), sizeof header);
  const std::span<const std::byte> body = std::span(message).subspan(sizeof header);
  if (header.kind == Header::kText) {
    const std::lock_guard lock(mutex_);
    texts_[header.round][header.from] = {reinterpret_cast<const char*>(body.data()), body.size()};
    changed_.notify_all();
    return;
  }
  if (header.kind == Header::kBroadcast) {
    {
      const std::lock_guard lock(mutex_);
      broadcasts_[{header.group, header.from}].early.emplace_back(body.begin(), body.end());
    }
    move_broadcasts(header.group, header.from);
    return;
  }
  Member& member = members_[index_.at({header.group, header.to})];
  if (member.posted) {
    place(member, header.from, body);
  } else {
    member.early.emplace_back(header.from, Message(body.begin(), body.end()));
  }
}

// Writes the next block of a device to its place. The last block completes the exchange and prepares it for the next
// step.
void MessageCommunicator::place(Member& member, int from, std::span<const std::byte> bytes) {
  const std::vector<Block>& blocks = member.exchange.receives;
  size_t& at = member.next[from];
  while (blocks.at(at).peer != from) {
    ++at;
  }
  const Block& block = blocks[at++];
  block.memory->write(block.offset, bytes);
  if (--member.missing == 0) {
    member.missing = blocks.size();
    member.next.clear();
    member.posted = false;
    member.received.done(member.received.context, member.received.argument, {}, 0);
  }
}

std::set<int> MessageCommunicator::lost_ranks() {
  const std::lock_guard lock(mutex_);
  return lost_;
}

void MessageCommunicator::broadcast(int channel, int root, std::span<std::byte> bytes, Completion done) {
  {
    const std::lock_guard lock(mutex_);
    broadcasts_[{channel, root}].waiting.push_back({bytes, done});
  }
  enqueue([=, this] { move_broadcasts(channel, root); });
}

// Sends this rank's broadcasts, and delivers received ones to the calls that wait for them, both in the order of the
// calls.
void MessageCommunicator::move_broadcasts(int channel, int root) {
  for (;;) {
    std::unique_lock lock(mutex_);
    Broadcasts& all = broadcasts_[{channel, root}];
    if (all.waiting.empty() || (root != rank_ && all.early.empty())) {
      break;
    }
    const Broadcast one = all.waiting.front();
    all.waiting.pop_front();
    Message message;
    if (root != rank_) {
      message = std::move(all.early.front());
      all.early.pop_front();
    }
    lock.unlock();
    if (root != rank_) {
      XRUN_CHECK(message.size() == one.bytes.size(), "a broadcast has one size on all ranks");
      std::ranges::copy(message, one.bytes.begin());
    }
    for (size_t peer = 0; root == rank_ && peer < channels_.size(); ++peer) {
      if (channels_[peer] != nullptr) {
        send(static_cast<int>(peer),
             message_of({.kind = Header::kBroadcast, .group = channel, .from = rank_}, one.bytes));
      }
    }
    one.done.done(one.done.context, one.done.argument, {}, 0);
  }
  if (lost_ranks().contains(root)) {
    fail_broadcasts(root, "rank " + std::to_string(root) + " is gone");
  }
}

void MessageCommunicator::fail_broadcasts(int root, const std::string& why) {
  std::vector<Broadcast> failed;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [key, all] : broadcasts_) {
      if (key.second == root) {
        failed.insert(failed.end(), all.waiting.begin(), all.waiting.end());
        all.waiting.clear();
      }
    }
  }
  for (const Broadcast& one : failed) {
    one.done.done(one.done.context, one.done.argument, Error{ErrorKind::kWorld, "", why}, 0);
  }
}

// Fails every call that waits for a block of a rank that has left.
void MessageCommunicator::lose(int rank) {
  {
    const std::lock_guard lock(mutex_);
    lost_.insert(rank);
    changed_.notify_all();
  }
  fail_broadcasts(rank, "rank " + std::to_string(rank) + " is gone");
  for (Member& member : members_) {
    const bool waits =
        std::ranges::any_of(member.exchange.receives, [&](const Block& block) { return rank_of_(block.peer) == rank; });
    if (member.posted && waits) {
      member.posted = false;
      member.received.done(member.received.context, member.received.argument,
                           Error{ErrorKind::kWorld, "", "rank " + std::to_string(rank) + " is gone"}, 0);
    }
  }
}

std::vector<std::string> MessageCommunicator::gather(const std::string& mine) {
  std::unique_lock lock(mutex_);
  const int64_t round = round_++;
  texts_[round][rank_] = mine;
  lock.unlock();
  const Header header{.kind = Header::kText, .from = rank_, .round = round};
  enqueue([=, this] {
    for (size_t peer = 0; peer < channels_.size(); ++peer) {
      if (channels_[peer] != nullptr) {
        send(static_cast<int>(peer), message_of(header, std::as_bytes(std::span(mine))));
      }
    }
  });
  lock.lock();
  std::vector<std::string> texts(channels_.size());
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    const auto at = static_cast<int>(rank);
    changed_.wait(lock, [&] { return texts_[round].contains(at) || lost_.contains(at); });
    const auto said = texts_[round].find(at);
    texts[rank] = said != texts_[round].end() ? said->second : "error rank " + std::to_string(rank) + " is gone";
  }
  texts_.erase(round);
  return texts;
}

// Sets the exchanges of steps of another size, and waits until the worker has taken them over.
void MessageCommunicator::resize(std::span<const Exchange> exchanges) {
  std::promise<void> done;
  enqueue([&] {
    for (size_t i = 0; i < exchanges.size(); ++i) {
      members_[i].exchange = exchanges[i];
    }
    done.set_value();
  });
  done.get_future().wait();
}

Outcome MessageCommunicator::agree(Outcome mine) {
  const std::string word = std::string(mine.stop ? "stop" : "") + (mine.skipped ? " skipped" : "");
  const std::string text = !mine.status.ok() ? "error " + mine.status.error().message : word;
  Outcome outcome;
  for (const std::string& said : gather(text)) {
    const bool failed = said.starts_with("error ");
    outcome.stop = outcome.stop || (!failed && said.starts_with("stop"));
    outcome.skipped = outcome.skipped || (!failed && said.ends_with("skipped"));
    if (said.starts_with("error ") && outcome.status.ok()) {
      outcome.status = said == text && !mine.status.ok() ? std::move(mine.status)
                                                         : Status(Error{ErrorKind::kWorld, "", said.substr(6)});
    }
  }
  return outcome;
}

}  // namespace xrun::runtime::testing
