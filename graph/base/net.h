// The TCP calls for connections between ranks. Tests replace them with calls in which links are cut and messages are
// delayed (tests/support/simulated_net.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "graph/base/units.h"

namespace xrun {

// Sockets are descriptors. Every call returns a descriptor or a number of bytes, or minus an errno, unless it says
// otherwise. Only `connect` and `wait` wait, and never longer than `patience`.
class Net {
 public:
  virtual ~Net() = default;

  /// Listens on all addresses of this host, on a port that the system chooses.
  virtual int listen(int& port);
  /// The next incoming connection; -EAGAIN if there is no connection.
  virtual int accept(int listener);
  /// Connects to a numeric address; -ETIMEDOUT if nobody has answered in time.
  virtual int connect(const std::string& address, int port, Seconds patience);
  /// Sends as many of the bytes as fit the buffer.
  virtual int64_t send(int socket, std::span<const std::byte> bytes);
  /// Receives the bytes that have arrived. 0: the other side has closed the connection; -EAGAIN: nothing has arrived.
  virtual int64_t receive(int socket, std::span<std::byte> bytes);
  /// Returns whether `accept` or `receive` has something to return for one of the sockets. Negative numbers are
  /// ignored.
  virtual bool wait(std::span<const int> sockets, Seconds patience);
  /// Ends sending: the other side receives the bytes sent so far, and then the end.
  virtual void end_sending(int socket);
  virtual void close(int socket);
};

/// The system's calls.
Net& system_net();

}  // namespace xrun
