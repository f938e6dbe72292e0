// Each rank sends its port and its addresses to the other ranks through `peers`, and connects to all lower ranks. Both
// sides of a connection send a Hello with a number that rank 0 has generated for this run.
// Tests: tests/runtime/comm/ranks/rank_watch_test.cpp
#include "runtime/comm/ranks/rank_meeting.h"

#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <fmt/format.h>
#include <mutex>
#include <sstream>
#include <sys/random.h>
#include <thread>
#include <utility>

#include "graph/base/errors.h"

namespace xrun::runtime {
namespace {

constexpr Seconds kAnswer = 2;  // time limit for connecting to one address, and for the answer of the other side
constexpr Seconds kLook = 0.02;

struct Hello {
  std::array<char, 8> magic{'x', 'r', 'u', 'n', 'r', 'a', 'n', 'k'};
  std::array<char, 32> run{};
  int32_t from = 0;
  int32_t to = 0;

  // The Hello expected from the other side.
  Hello answer() const {
    Hello other = *this;
    std::swap(other.from, other.to);
    return other;
  }
  bool operator==(const Hello&) const = default;
};

std::span<std::byte> bytes_of(Hello& hello) { return std::as_writable_bytes(std::span(&hello, 1)); }

std::string draw_run() {
  std::array<unsigned char, sizeof(Hello::run) / 2> numbers{};
  (void)::getrandom(numbers.data(), numbers.size(), 0);
  std::string text;
  for (const unsigned char number : numbers) {
    text += fmt::format("{:02x}", number);
  }
  return text;
}

// The addresses at which a rank listens, as text: "RUN PORT ADDRESS ..."
struct Place {
  std::string run;
  int port = 0;
  std::vector<std::string> addresses;
};

std::string to_text(const Place& place) {
  return fmt::format("{} {} {}", place.run, place.port, fmt::join(place.addresses, " "));
}

Place place_in(const std::string& text) {
  constexpr size_t kMostAddresses = 32;
  Place place;
  std::istringstream in(text);
  in >> place.run >> place.port;
  for (std::string address; place.addresses.size() < kMostAddresses && in >> address;) {
    place.addresses.push_back(address);
  }
  return place;
}

// Connects to a rank, trying its addresses in turn. If all attempts fail, returns a socket that is not open, and sets
// `why` to the reason.
Socket call(Hello mine, const Place& place, std::string& why) {
  why = place.addresses.empty() ? "it has no address" : "";
  for (const std::string& address : place.addresses) {
    std::string error;
    Socket socket = connect_to(address, place.port, kAnswer, error);
    if (socket.open()) {
      Hello answer;
      if (write_whole(socket, bytes_of(mine)) && read_whole(socket, bytes_of(answer), kAnswer) &&
          answer == mine.answer()) {
        return socket;
      }
      error = "no rank of this run answers";
    }
    why += fmt::format("{}{} port {}: {}", why.empty() ? "" : "; ", address, place.port, error);
  }
  return Socket();
}

// Accepts the connections of higher ranks, on a thread of its own.
class Reception {
 public:
  Reception(Socket listener, const Hello& mine, int ranks)
      : listener_(std::move(listener)), mine_(mine), ranks_(static_cast<size_t>(ranks)), thread_([this] { run(); }) {}
  ~Reception() {
    stop();
    thread_.join();
  }

  // Waits until all higher ranks have connected; returns the lowest rank that has not, or nullopt.
  std::optional<int> wait(Seconds patience) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::duration<double>(patience), [&] { return !missing(); });
    return missing();
  }
  // REQUIRES: all have connected.
  Socket take(int rank) {
    const std::lock_guard lock(mutex_);
    return std::move(ranks_[static_cast<size_t>(rank)]);
  }

 private:
  struct Caller {
    Socket socket;
    Hello hello;
    size_t size = 0;  // number of bytes of the Hello that have arrived
  };

  void stop() {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }

  std::optional<int> missing() const {
    for (int rank = mine_.from + 1; rank < static_cast<int>(ranks_.size()); ++rank) {
      if (!ranks_[static_cast<size_t>(rank)].open()) {
        return rank;
      }
    }
    return std::nullopt;
  }

  void run() {
    for (;;) {
      std::vector<int> sockets{listener_.descriptor()};
      for (const Caller& caller : callers_) {
        sockets.push_back(caller.socket.descriptor());
      }
      (void)listener_.net().wait(sockets, kLook);
      const std::lock_guard lock(mutex_);
      if (stops_ || !missing()) {
        return;
      }
      accept_all();
      for (Caller& caller : callers_) {
        hear(caller);
      }
      std::erase_if(callers_, [](const Caller& caller) { return !caller.socket.open(); });
      changed_.notify_all();
    }
  }

  // A connection that sends nothing must not delay others: beyond a fixed number of them the oldest is closed.
  void accept_all() {
    for (Socket socket = accept_from(listener_); socket.open(); socket = accept_from(listener_)) {
      callers_.push_back({.socket = std::move(socket), .hello = {}});
      if (callers_.size() > 2 * ranks_.size() + 8) {
        callers_.pop_front();
      }
    }
  }

  void hear(Caller& caller) {
    bool ended = false;
    caller.size += read_some(caller.socket, bytes_of(caller.hello).subspan(caller.size), ended);
    if (!ended && caller.size < sizeof(Hello)) {
      return;
    }
    Hello mine = mine_;
    mine.to = caller.hello.from;
    const bool is_rank =
        mine.to > mine.from && mine.to < static_cast<int>(ranks_.size()) && !ended && caller.hello == mine.answer();
    if (is_rank && !ranks_[static_cast<size_t>(mine.to)].open() && write_whole(caller.socket, bytes_of(mine))) {
      ranks_[static_cast<size_t>(mine.to)] = std::move(caller.socket);
    }
    caller.socket.close();
  }

  const Socket listener_;
  const Hello mine_;
  std::deque<Caller> callers_;  // used by the thread only

  std::mutex mutex_;  // guards all members below
  std::condition_variable changed_;
  std::vector<Socket> ranks_;
  bool stops_ = false;
  std::thread thread_;
};

// Connects to all other ranks. Returns an empty text, or the reason why a connection is missing.
std::string connect_all(const Peers& peers, Socket listener, const std::vector<std::string>& places, Seconds patience,
                        std::vector<Socket>& sockets) {
  Hello mine{.from = peers.rank()};
  place_in(places[0]).run.copy(mine.run.data(), mine.run.size());
  Reception reception(std::move(listener), mine, peers.count());
  for (mine.to = 0; mine.to < mine.from; ++mine.to) {
    std::string why;
    Socket socket = call(mine, place_in(places[static_cast<size_t>(mine.to)]), why);
    if (!socket.open()) {
      return fmt::format("it cannot reach {}: {}", peers.name(mine.to), why);
    }
    sockets[static_cast<size_t>(mine.to)] = std::move(socket);
  }
  if (const auto missing = reception.wait(patience)) {
    return fmt::format("{} has not connected to it", peers.name(*missing));
  }
  for (int rank = mine.from + 1; rank < peers.count(); ++rank) {
    sockets[static_cast<size_t>(rank)] = reception.take(rank);
  }
  return "";
}

}  // namespace

Result<std::vector<Socket>> meet_ranks(Peers& peers, Seconds patience) {
  Place mine{.run = draw_run(), .addresses = own_addresses()};
  std::string problem;
  Socket listener = listen_on_any_port(mine.port, problem);
  XRUN_ASSIGN(const auto places, peers.gather(to_text(mine)));
  std::vector<Socket> sockets(static_cast<size_t>(peers.count()));
  if (listener.open()) {
    try {
      problem = connect_all(peers, std::move(listener), places, patience, sockets);
    } catch (const std::exception&) {
      problem = "the system lets it start no more threads";
    }
  }
  XRUN_ASSIGN(const auto problems, peers.gather(problem));
  for (int rank = 0; rank < peers.count(); ++rank) {
    if (const std::string& words = problems[static_cast<size_t>(rank)]; !words.empty()) {
      return world_error("XG0841", {"{} is not connected to all other ranks: {}", peers.name(rank), words},
                         "allow TCP connections on any port between the hosts of a run");
    }
  }
  return sockets;
}

}  // namespace xrun::runtime
