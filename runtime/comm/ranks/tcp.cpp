// Tests: tests/runtime/comm/ranks/rank_watch_test.cpp, tests/fault_injection/network_scripts_test.cpp
#include "runtime/comm/ranks/tcp.h"

#include <cerrno>
#include <cstring>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <utility>

namespace xrun::runtime {
namespace {

// Returns a socket that owns the descriptor `returned`; if `returned` is negative, sets `error` to the reason.
Socket socket_of(int returned, Net& net, std::string& error) {
  if (returned < 0) {
    error = std::strerror(-returned);
    return Socket();
  }
  return Socket(returned, net);
}

std::string digits(const sockaddr* address, socklen_t size) {
  char text[NI_MAXHOST] = {};
  return ::getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0 ? text : "";
}

bool holds_on_one_link(const sockaddr* address) {
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

}  // namespace

Socket::Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)), net_(other.net_) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  close();
  descriptor_ = std::exchange(other.descriptor_, -1);
  net_ = other.net_;
  return *this;
}

void Socket::close() {
  if (descriptor_ >= 0) {
    net_->close(std::exchange(descriptor_, -1));
  }
}

Socket listen_on_any_port(int& port, std::string& error, Net& net) { return socket_of(net.listen(port), net, error); }

Socket accept_from(const Socket& listener) {
  std::string error;
  return socket_of(listener.net().accept(listener.descriptor()), listener.net(), error);
}

std::vector<std::string> own_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    return {"127.0.0.1"};
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::vector<std::string> addresses;
  std::vector<std::string> loopback;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0 || holds_on_one_link(one->ifa_addr)) {
      continue;
    }
    const int family = one->ifa_addr->sa_family;
    if (family == AF_INET || family == AF_INET6) {
      auto& to = (one->ifa_flags & IFF_LOOPBACK) != 0 ? loopback : addresses;
      to.push_back(digits(one->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6)));
    }
  }
  addresses.insert(addresses.end(), loopback.begin(), loopback.end());
  return addresses;
}

Socket connect_to(const std::string& address, int port, Seconds patience, std::string& error, Net& net) {
  return socket_of(net.connect(address, port, patience), net, error);
}

bool write_whole(const Socket& socket, std::span<const std::byte> bytes) {
  return socket.net().send(socket.descriptor(), bytes) == std::ssize(bytes);
}

size_t read_some(const Socket& socket, std::span<std::byte> bytes, bool& ended) {
  const int64_t size = socket.net().receive(socket.descriptor(), bytes);
  ended = size == 0 || (size < 0 && size != -EAGAIN && size != -EWOULDBLOCK && size != -EINTR);
  return size > 0 ? static_cast<size_t>(size) : 0;
}

bool read_whole(const Socket& socket, std::span<std::byte> bytes, Seconds patience, const Clock& clock) {
  const Seconds end = clock.now() + patience;
  const int sockets[] = {socket.descriptor()};
  bool ended = false;
  while (!bytes.empty() && !ended) {
    const Seconds left = end - clock.now();
    if (left <= 0 || !socket.net().wait(sockets, left)) {
      return false;
    }
    bytes = bytes.subspan(read_some(socket, bytes, ended));
  }
  return bytes.empty();
}

}  // namespace xrun::runtime
