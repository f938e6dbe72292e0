// A relay for real TCP connections on this host, which can hold back or delay the bytes.
#pragma once

#include <atomic>
#include <thread>

#include "graph/base/units.h"

namespace xrun::testing {

// Accepts connections on its own port and relays each of them to `port`, until the relay is destroyed. Threads: any.
class TcpRelay {
 public:
  explicit TcpRelay(int port);
  ~TcpRelay();
  TcpRelay(const TcpRelay&) = delete;
  TcpRelay& operator=(const TcpRelay&) = delete;

  int port() const { return port_; }
  // Holds back all bytes while `on` is true. Connections stay open, as if a link was cut.
  void hold(bool on) { held_ = on; }
  void delay(Seconds seconds) { delay_ = seconds; }

 private:
  void run(int listener, int to);

  int port_ = 0;
  std::atomic<bool> held_{false};
  std::atomic<bool> ends_{false};
  std::atomic<Seconds> delay_{0};
  std::thread thread_;
};

}  // namespace xrun::testing
