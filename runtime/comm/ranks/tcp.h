// TCP sockets of which no call waits for longer than it is told.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "graph/base/units.h"

namespace xrun::runtime {

// Owns a descriptor, or none.
class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  Socket& operator=(Socket&& other) noexcept;

  bool open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  void close();

 private:
  int descriptor_;
};

// Listens on all addresses of this host, on a port that the system chooses. Not open: `error` says why.
Socket listen_on_any_port(int& port, std::string& error);
// The next caller; not open where there is none.
Socket accept_from(const Socket& listener);
// The addresses of this host in digits, those of its own loopback last. Addresses that hold on one link alone are left
// out.
std::vector<std::string> own_addresses();
// Not open: `error` says why, "connection refused".
Socket connect_to(const std::string& address, int port, Seconds patience, std::string& error);

// Writes all of it at once; false: there is no room, or nobody reads.
bool write_whole(const Socket& socket, std::span<const std::byte> bytes);
// Reads what is here; 0: nothing. `ended`: the other side has closed the connection, or it broke.
size_t read_some(const Socket& socket, std::span<std::byte> bytes, bool& ended);
// Waits for all of it; false: it did not come in time.
bool read_whole(const Socket& socket, std::span<std::byte> bytes, Seconds patience);

}  // namespace xrun::runtime
