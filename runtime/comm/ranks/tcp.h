// TCP sockets whose calls never wait longer than the caller allows.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "graph/base/units.h"
#include "graph/os/clock.h"
#include "graph/os/net.h"

namespace xrun::runtime {

// Owns a descriptor, or nothing.
class Socket {
 public:
  explicit Socket(int descriptor = -1, Net& net = system_net()) : descriptor_(descriptor), net_(&net) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;

  bool open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  Net& net() const { return *net_; }
  void close();

 private:
  int descriptor_;
  Net* net_;
};

// Listens on all addresses of this host, on a port that the system chooses. If the result is not open, `error` is the
// reason.
Socket listen_on_any_port(int& port, std::string& error, Net& net = system_net());
// Accepts the next incoming connection; the result is not open if there is no such connection.
Socket accept_from(const Socket& listener);
// The numeric addresses of this host, loopback last. Link-local addresses are left out.
std::vector<std::string> own_addresses();
// Connects within `patience`. If the result is not open, `error` is the reason: "connection refused".
Socket connect_to(const std::string& address, int port, Seconds patience, std::string& error, Net& net = system_net());

// Writes all bytes without waiting. False: the buffer is too small for all bytes, or the connection has failed.
bool write_whole(const Socket& socket, std::span<const std::byte> bytes);
// Reads the bytes that have arrived and returns their number. `ended`: whether the other side has closed the
// connection, or the connection has failed.
size_t read_some(const Socket& socket, std::span<std::byte> bytes, bool& ended);
// Reads all bytes, waiting for them; false: they did not arrive in time.
bool read_whole(const Socket& socket, std::span<std::byte> bytes, Seconds patience,
                const Clock& clock = system_clock());

}  // namespace xrun::runtime
