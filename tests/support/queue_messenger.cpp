#include "tests/support/queue_messenger.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <set>

namespace xrun::runtime::testing {

class QueueMessenger final : public Messenger {
 public:
  QueueMessenger(Switchboard& board, int rank)
      : board_(board), rank_(rank), random_(board.seed_ * 97 + static_cast<uint64_t>(rank)) {}

  int rank() const override { return rank_; }
  int count() const override { return static_cast<int>(board_.inboxes_.size()); }

  int send(int to, const std::byte* data, size_t bytes) override {
    sends_.push_back({next_, to, data, bytes});
    return next_++;
  }

  std::optional<Arrival> arrived() override {
    move();
    const std::lock_guard lock(board_.mutex_);
    auto& inbox = board_.inboxes_[static_cast<size_t>(rank_)];
    if (!board_.error_.empty() || inbox.empty()) {
      return std::nullopt;
    }
    arrived_ = std::move(inbox.front());
    inbox.pop_front();
    return Arrival{.from = arrived_.first, .bytes = arrived_.second.size()};
  }

  int receive(const Arrival& /*arrival*/, std::byte* data) override {
    std::ranges::copy(arrived_.second, data);
    over_.insert(next_);
    return next_++;
  }

  bool done(int number) override {
    if (!error().empty() || random_() % 4 == 0) {
      return false;
    }
    move();
    return over_.erase(number) > 0;
  }

  std::string error() const override {
    const std::lock_guard lock(board_.mutex_);
    return board_.error_;
  }

  void finish() override {
    std::unique_lock lock(board_.mutex_);
    ++board_.finished_;
    board_.changed_.notify_all();
    board_.changed_.wait(lock, [&] { return board_.finished_ == board_.inboxes_.size() || !board_.error_.empty(); });
  }

 private:
  struct Send {
    int number = 0;
    int to = 0;
    const std::byte* data = nullptr;
    size_t bytes = 0;
  };

  // Takes the next message from its sender's memory, or leaves it there for some more calls.
  void move() {
    if (sends_.empty() || random_() % 2 == 0) {
      return;
    }
    const Send one = sends_.front();
    sends_.pop_front();
    const std::lock_guard lock(board_.mutex_);
    board_.inboxes_[static_cast<size_t>(one.to)].emplace_back(rank_,
                                                              std::vector<std::byte>(one.data, one.data + one.bytes));
    over_.insert(one.number);
  }

  Switchboard& board_;
  int rank_;
  std::mt19937_64 random_;
  int next_ = 0;
  std::deque<Send> sends_;
  std::set<int> over_;
  std::pair<int, std::vector<std::byte>> arrived_;
};

std::unique_ptr<Messenger> Switchboard::join(int rank) { return std::make_unique<QueueMessenger>(*this, rank); }

void Switchboard::cut(const std::string& words) {
  const std::lock_guard lock(mutex_);
  error_ = words;
  changed_.notify_all();
}

}  // namespace xrun::runtime::testing
