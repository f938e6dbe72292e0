// Simulates TCP between the nodes of a network, in simulated time: links are cut and restored, messages are late, and
// nodes die. A test draws all faults before it starts, so that a seed repeats it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/os/clock.h"
#include "graph/os/net.h"

namespace xrun::testing {

class SimulatedClock final : public Clock {
 public:
  Seconds now() const override { return now_; }
  // Moves the clock to `time`. Does nothing if that time has passed.
  void move_to(Seconds time) { now_ = std::max(now_, time); }

 private:
  Seconds now_ = 1000;
};

// A simulated network. The bytes of a connection arrive in order or not at all. Bytes that are sent over a cut link are
// sent again after 0.2, 0.4, 0.8 ... seconds, as TCP does. Threads: one.
class SimulatedNet final : public Net {
 public:
  struct Span {
    Seconds begin = 0;
    Seconds end = 0;
    Seconds delay = 0;  // delay of messages that are sent in this time; not used by a cut
  };

  SimulatedNet(SimulatedClock& clock, uint64_t seed) : clock_(clock), random_(seed) {}

  // Cuts the link between two nodes, or makes it slow, from `begin` to `end`.
  void cut(int a, int b, Seconds begin, Seconds end) { cuts_[link(a, b)].push_back({.begin = begin, .end = end}); }
  void slow(int a, int b, Span span) { delays_[link(a, b)].push_back(span); }

  // Connects two nodes and returns the socket of each.
  std::pair<int, int> join(int a, int b);
  // Ends the process of a node without a message to others; its connections are closed.
  void kill(int node);
  // Returns the next time after `after` at which something arrives at the node, or nullopt if nothing is on its way.
  std::optional<Seconds> next_arrival(int node, Seconds after) const;

  // Returns the longest time that any message took, or will take, to arrive.
  Seconds longest() const { return longest_; }

  // Sets the node that calls `connect`. Nodes that listen are found by their address: `connect` to the address "N"
  // reaches node N.
  void call_from(int node) { caller_ = node; }
  int listen(int& port) override;
  int accept(int listener) override;
  int connect(const std::string& address, int port, Seconds patience) override;
  int64_t send(int socket, std::span<const std::byte> bytes) override;
  int64_t receive(int socket, std::span<std::byte> bytes) override;
  // Waits for the sockets, which moves the clock.
  bool wait(std::span<const int> sockets, Seconds patience) override;
  void end_sending(int socket) override;
  void close(int socket) override;

 private:
  struct Packet {
    Seconds arrival = 0;
    std::vector<std::byte> bytes;  // empty: the end of the connection
  };
  struct End {
    int node = 0;
    int other = 0;  // socket of the other side; a listener has its own number here
    bool open = true;
    bool ended = false;  // whether this side has ended sending
    std::deque<Packet> inbox;
    Seconds last = 0;         // arrival time of the last packet
    std::deque<int> callers;  // sockets of waiting connections; listeners only
  };

  static std::pair<int, int> link(int a, int b) { return {std::min(a, b), std::max(a, b)}; }
  std::optional<Seconds> arrival_over(int a, int b);
  void put(int socket, std::vector<std::byte> bytes);
  std::optional<Seconds> readable_at(int socket) const;

  SimulatedClock& clock_;
  std::mt19937_64 random_;
  std::map<std::pair<int, int>, std::vector<Span>> cuts_;
  std::map<std::pair<int, int>, std::vector<Span>> delays_;
  std::vector<End> ends_;  // indexed by socket
  int caller_ = 0;
  Seconds longest_ = 0;
};

}  // namespace xrun::testing
