#include "tests/support/hosts/tcp_relay.h"

#include <array>
#include <deque>
#include <list>
#include <vector>

#include "graph/os/clock.h"
#include "graph/os/net.h"

namespace xrun::testing {
namespace {

// One direction of a connection, and the bytes that are still to be sent.
struct Way {
  struct Part {
    Seconds due = 0;
    std::vector<std::byte> bytes;  // empty: the connection has ended
  };

  int from = -1;
  int to = -1;
  bool ended = false;
  std::deque<Part> parts;

  void take(Seconds due) {
    std::array<std::byte, 4096> buffer{};
    while (!ended) {
      const int64_t size = system_net().receive(from, buffer);
      if (size < 0) {
        return;
      }
      ended = size == 0;
      parts.push_back({.due = due, .bytes = {buffer.begin(), buffer.begin() + size}});
    }
  }
  void pass(Seconds now) {
    for (; !parts.empty() && parts.front().due <= now; parts.pop_front()) {
      if (parts.front().bytes.empty()) {
        system_net().end_sending(to);
      } else {
        (void)system_net().send(to, parts.front().bytes);
      }
    }
  }
};

}  // namespace

TcpRelay::TcpRelay(int port) {
  const int listener = system_net().listen(port_);
  thread_ = std::thread([this, listener, port] { run(listener, port); });
}

TcpRelay::~TcpRelay() {
  ends_ = true;
  thread_.join();
}

void TcpRelay::run(int listener, int to) {
  Net& net = system_net();
  std::list<Way> ways;
  while (!ends_) {
    std::vector<int> sockets{listener};
    for (const Way& way : ways) {
      sockets.push_back(way.ended ? -1 : way.from);
    }
    (void)net.wait(sockets, 2e-3);
    if (held_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      continue;
    }
    for (int caller = net.accept(listener); caller >= 0; caller = net.accept(listener)) {
      const int called = net.connect("127.0.0.1", to, 2);
      ways.push_back({.from = caller, .to = called, .parts = {}});
      ways.push_back({.from = called, .to = caller, .parts = {}});
    }
    const Seconds now = system_clock().now();
    for (Way& way : ways) {
      way.take(now + delay_);
      way.pass(now);
    }
  }
  for (const Way& way : ways) {
    net.close(way.from);  // each socket is the source of one direction
  }
  net.close(listener);
}

}  // namespace xrun::testing
