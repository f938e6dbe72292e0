// The TCP calls for connections between ranks. Tests replace them with calls in which links are cut and messages are
// delayed (tests/support/hosts/simulated_net.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "graph/base/units.h"

namespace xrun {

// The calls. A socket is a descriptor. Every call returns a descriptor or a number of bytes, or minus an errno, unless
// its comment says otherwise. Only `connect` and `wait` wait, and never longer than `patience`.
class Net {
 public:
  virtual ~Net() = default;

  /// Listens on all addresses of this host, on a port that the system chooses.
  virtual int listen(int& port);
  /// Accepts the next incoming connection; -EAGAIN if no connection is waiting.
  virtual int accept(int listener);
  /// Connects to a numeric address; -ETIMEDOUT if there is no answer within `patience`.
  virtual int connect(const std::string& address, int port, Seconds patience);
  /// Sends as many of the bytes as fit in the socket's buffer, and returns their number.
  virtual int64_t send(int socket, std::span<const std::byte> bytes);
  /// Receives the bytes that have arrived. 0: the other side has closed the connection; -EAGAIN: nothing has arrived.
  virtual int64_t receive(int socket, std::span<std::byte> bytes);
  /// Waits until `accept` or `receive` has something to return for one of the sockets, at most `patience`; returns
  /// whether that is so. Negative descriptors are ignored.
  virtual bool wait(std::span<const int> sockets, Seconds patience);
  /// Ends sending: the other side still receives all bytes sent so far, and then the end of the stream.
  virtual void end_sending(int socket);
  virtual void close(int socket);
};

/// The system's calls.
Net& system_net();

}  // namespace xrun
