#include "runtime/comm/ranks/rank_watch.h"

#include <array>
#include <chrono>
#include <cstring>
#include <exception>
#include <fmt/format.h>
#include <mutex>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "graph/base/errors.h"
#include "runtime/comm/ranks/heartbeats.h"

namespace xrun::runtime {
namespace {

Seconds now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Word {
  enum Kind : int32_t { kAlive = 1, kEnds, kDead, kSilent };
  int32_t kind = kAlive;
  int32_t rank = 0;  // of kDead and kSilent: the one that is lost
};

class SocketWatch final : public RankWatch {
 public:
  SocketWatch(int rank, std::vector<Socket> sockets, std::function<void(const LostRank&)> on_lost, WatchOptions options)
      : rank_(rank),
        options_(std::move(options)),
        on_lost_(std::move(on_lost)),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        beats_(static_cast<int>(sockets.size()), rank, options_.limit, now()) {
    for (Socket& socket : sockets) {
      connections_.push_back({.socket = std::move(socket)});
    }
    thread_ = std::thread([this] { run(); });
  }

  ~SocketWatch() override {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
    }
    const uint64_t one = 1;
    (void)!::write(wake_.descriptor(), &one, sizeof one);
    thread_.join();
  }

  std::optional<LostRank> lost() const override {
    const std::lock_guard lock(mutex_);
    return lost_;
  }

 private:
  struct Connection {
    Socket socket;
    bool ends = false;  // as the rank has said
    std::array<std::byte, sizeof(Word)> part{};
    size_t size = 0;  // of the part of a word that is here
  };

  void run() {
    Seconds said = 0;
    Seconds lost_at = 0;
    for (bool told = false; wait();) {
      time_ = now();
      if (const Seconds stood = beats_.tick(time_); stood > options_.limit) {
        stood_ = stood;
        woke_ = time_;
      }
      for (int rank = 0; rank < static_cast<int>(connections_.size()); ++rank) {
        listen_to(rank);
      }
      const auto silent = beats_.silent(time_);
      if (silent) {
        lose({.kind = Word::kSilent, .rank = *silent}, rank_);
      }
      const auto lost = this->lost();
      if (!lost && time_ - said >= options_.period) {
        said = time_;
        say({.kind = Word::kAlive});
      } else if (lost && !told) {
        told = true;
        lost_at = time_;
        if (lost->rank != rank_) {
          say(loss_);
        }
        on_lost_(*lost);
      } else if (lost && options_.on_stuck && time_ - lost_at >= options_.grace) {
        return options_.on_stuck(*lost);
      }
    }
    say({.kind = Word::kEnds});
    for (const Connection& one : connections_) {
      ::shutdown(one.socket.descriptor(), SHUT_WR);  // what was said arrives before the end
    }
  }

  // Until something has come, or the next sign of life is due; false: the watch ends.
  bool wait() {
    std::vector<pollfd> sockets{{.fd = wake_.descriptor(), .events = POLLIN, .revents = 0}};
    for (const Connection& one : connections_) {
      sockets.push_back({.fd = one.socket.descriptor(), .events = POLLIN, .revents = 0});
    }
    (void)::poll(sockets.data(), sockets.size(), static_cast<int>(options_.period * 1e3));
    const std::lock_guard lock(mutex_);
    return !stops_;
  }

  void listen_to(int rank) {
    Connection& one = connections_[static_cast<size_t>(rank)];
    bool ended = false;
    while (one.socket.open() && !ended) {
      const size_t size = read_some(one.socket, std::span(one.part).subspan(one.size), ended);
      one.size += size;
      if (one.size == sizeof(Word)) {
        one.size = 0;
        Word word;
        std::memcpy(&word, one.part.data(), sizeof word);
        hear(rank, word);
      } else if (size == 0) {
        break;
      }
    }
    if (ended) {
      one.socket.close();
      if (!one.ends) {
        lose({.kind = Word::kDead, .rank = rank}, rank_);
      }
    }
  }

  void hear(int rank, const Word& word) {
    beats_.heard(rank, time_);
    if (word.kind == Word::kEnds) {
      connections_[static_cast<size_t>(rank)].ends = true;
      beats_.leave(rank);
    } else if (word.kind != Word::kAlive && word.rank >= 0 && word.rank < static_cast<int>(connections_.size())) {
      lose(word, rank);
    }
  }

  // Others end when they have lost this rank, so that what it finds after it has stood still is its own fault.
  void lose(const Word& loss, int seen_by) {
    beats_.leave(loss.rank);
    const std::lock_guard lock(mutex_);
    if (lost_) {
      return;
    }
    loss_ = loss;
    lost_ = {.rank = loss.rank, .how = "its connection was closed"};
    if (stood_ > 0 && time_ - woke_ < options_.limit) {
      lost_ = {.rank = rank_, .how = fmt::format("it stood still for {:.1f} s, and the others ended", stood_)};
    } else if (loss.rank == rank_) {
      lost_->how = "the others do not hear it";
    } else if (loss.kind == Word::kSilent) {
      lost_->how = fmt::format("it was silent for {:.1f} s", options_.limit);
    }
    lost_->how += seen_by == rank_ || lost_->rank == rank_ ? "" : fmt::format(", as rank {} saw", seen_by);
  }

  void say(const Word& word) {
    for (const Connection& one : connections_) {
      if (one.socket.open()) {
        (void)write_whole(one.socket, std::as_bytes(std::span(&word, 1)));
      }
    }
  }

  const int rank_;
  const WatchOptions options_;
  const std::function<void(const LostRank&)> on_lost_;
  const Socket wake_;

  // Of the thread.
  std::vector<Connection> connections_;  // by rank
  Heartbeats beats_;
  Seconds time_ = 0;
  Seconds stood_ = 0;  // how long this rank stood still, beyond the limit, and when that was over
  Seconds woke_ = 0;
  Word loss_;  // as it is told to the others

  mutable std::mutex mutex_;  // of all below
  std::optional<LostRank> lost_;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<RankWatch>> RankWatch::start(int rank, std::vector<Socket> connections,
                                                    std::function<void(const LostRank&)> on_lost,
                                                    WatchOptions options) {
  try {
    return std::unique_ptr<RankWatch>(
        std::make_unique<SocketWatch>(rank, std::move(connections), std::move(on_lost), std::move(options)));
  } catch (const std::exception&) {
    return world_error("XG0803", "the system lets this process start no more threads", "raise its limit (`ulimit -u`)");
  }
}

}  // namespace xrun::runtime
