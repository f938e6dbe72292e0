// Tests: tests/runtime/comm/ranks/rank_watch_test.cpp, tests/runtime/comm/ranks/relayed_ranks_test.cpp
#include "graph/os/net.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace xrun {
namespace {

constexpr int kWaiting = 128;  // callers that the system queues until they are accepted

void send_at_once(int socket) {
  const int on = 1;
  (void)::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

int milliseconds(Seconds patience) { return static_cast<int>(std::clamp(patience, 0.0, 1e6) * 1e3); }

// Closes the socket after a fault and returns the fault.
int give_up(int socket, int fault) {
  ::close(socket);
  return -fault;
}

}  // namespace

// IPv6 sockets also accept callers of IPv4; some systems have no IPv6.
int Net::listen(int& port) {
  int fault = 0;
  for (const int family : {AF_INET6, AF_INET}) {
    const int socket = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket < 0) {
      fault = -errno;
      continue;
    }
    sockaddr_storage address{};
    address.ss_family = static_cast<sa_family_t>(family);
    socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    const int off = 0;
    if (family == AF_INET6) {
      (void)::setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(socket, any, size) == 0 && ::listen(socket, kWaiting) == 0 && ::getsockname(socket, any, &size) == 0) {
      port = ntohs(family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(any)->sin6_port
                                      : reinterpret_cast<sockaddr_in*>(any)->sin_port);
      return socket;
    }
    fault = give_up(socket, errno);
  }
  return fault;
}

int Net::accept(int listener) {
  const int socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (socket < 0) {
    return -errno;
  }
  send_at_once(socket);
  return socket;
}

int Net::connect(const std::string& address, int port, Seconds patience) {
  addrinfo wanted{};
  wanted.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &wanted, &found) != 0) {
    return -EADDRNOTAVAIL;
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  const int socket = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) {
    return -errno;
  }
  if (::connect(socket, found->ai_addr, found->ai_addrlen) != 0) {
    if (errno != EINPROGRESS) {
      return give_up(socket, errno);
    }
    pollfd one{.fd = socket, .events = POLLOUT, .revents = 0};
    if (::poll(&one, 1, milliseconds(patience)) <= 0) {
      return give_up(socket, ETIMEDOUT);
    }
    int fault = 0;
    socklen_t size = sizeof fault;
    if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &fault, &size) != 0 || fault != 0) {
      return give_up(socket, fault != 0 ? fault : errno);
    }
  }
  send_at_once(socket);
  return socket;
}

int64_t Net::send(int socket, std::span<const std::byte> bytes) {
  const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent < 0 ? -errno : sent;
}

int64_t Net::receive(int socket, std::span<std::byte> bytes) {
  const ssize_t received = ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
  return received < 0 ? -errno : received;
}

bool Net::wait(std::span<const int> sockets, Seconds patience) {
  std::vector<pollfd> polled;
  for (const int socket : sockets) {
    polled.push_back({.fd = socket, .events = POLLIN, .revents = 0});
  }
  return ::poll(polled.data(), polled.size(), milliseconds(patience)) > 0;
}

void Net::end_sending(int socket) { (void)::shutdown(socket, SHUT_WR); }

void Net::close(int socket) { (void)::close(socket); }

Net& system_net() {
  static Net net;
  return net;
}

}  // namespace xrun
