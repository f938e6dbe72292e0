// A relay between real TCP connections on this host, which can hold back or delay what passes.
#pragma once

#include <atomic>
#include <thread>

#include "graph/base/units.h"

namespace xrun::testing {

// Passes each connection to its port on to `port`, until it is destroyed. Threads: any.
class TcpRelay {
 public:
  explicit TcpRelay(int port);
  ~TcpRelay();
  TcpRelay(const TcpRelay&) = delete;
  TcpRelay& operator=(const TcpRelay&) = delete;

  int port() const { return port_; }
  // While it is held, nothing passes, and no connection is closed: as where a link is cut.
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
