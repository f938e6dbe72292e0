#include "runtime/comm/ranks/tcp.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace xrun::runtime {
namespace {

constexpr int kWaiting = 128;  // callers that the system keeps until they are accepted

std::string words_of(int fault) { return std::strerror(fault); }

void send_at_once(int descriptor) {
  const int on = 1;
  (void)::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// Whether the socket is ready for `events` in time.
bool wait_for(int descriptor, short events, Seconds patience) {
  pollfd one{.fd = descriptor, .events = events, .revents = 0};
  return ::poll(&one, 1, static_cast<int>(std::max(0.0, patience) * 1e3)) > 0;
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

Socket& Socket::operator=(Socket&& other) noexcept {
  close();
  descriptor_ = std::exchange(other.descriptor_, -1);
  return *this;
}

void Socket::close() {
  if (descriptor_ >= 0) {
    ::close(std::exchange(descriptor_, -1));
  }
}

// IPv6 takes callers of IPv4, too; some systems have none.
Socket listen_on_any_port(int& port, std::string& error) {
  for (const int family : {AF_INET6, AF_INET}) {
    Socket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.open()) {
      error = words_of(errno);
      continue;
    }
    sockaddr_storage address{};
    address.ss_family = static_cast<sa_family_t>(family);
    socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    const int off = 0;
    if (family == AF_INET6) {
      (void)::setsockopt(socket.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(socket.descriptor(), any, size) == 0 && ::listen(socket.descriptor(), kWaiting) == 0 &&
        ::getsockname(socket.descriptor(), any, &size) == 0) {
      port = ntohs(family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(any)->sin6_port
                                      : reinterpret_cast<sockaddr_in*>(any)->sin_port);
      return socket;
    }
    error = words_of(errno);
  }
  return Socket();
}

Socket accept_from(const Socket& listener) {
  Socket socket(::accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.open()) {
    send_at_once(socket.descriptor());
  }
  return socket;
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

Socket connect_to(const std::string& address, int port, Seconds patience, std::string& error) {
  addrinfo wanted{};
  wanted.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &wanted, &found) != 0) {
    error = "no address";
    return Socket();
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  Socket socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int fault = 0;
  if (!socket.open() || ::connect(socket.descriptor(), found->ai_addr, found->ai_addrlen) != 0) {
    fault = errno;
  }
  if (fault == EINPROGRESS) {
    socklen_t size = sizeof fault;
    if (!wait_for(socket.descriptor(), POLLOUT, patience)) {
      fault = ETIMEDOUT;
    } else if (::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &fault, &size) != 0) {
      fault = errno;
    }
  }
  if (fault != 0) {
    error = words_of(fault);
    return Socket();
  }
  send_at_once(socket.descriptor());
  return socket;
}

bool write_whole(const Socket& socket, std::span<const std::byte> bytes) {
  return ::send(socket.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
}

size_t read_some(const Socket& socket, std::span<std::byte> bytes, bool& ended) {
  const ssize_t size = ::recv(socket.descriptor(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (size > 0) {
    return static_cast<size_t>(size);
  }
  ended = size == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
  return 0;
}

bool read_whole(const Socket& socket, std::span<std::byte> bytes, Seconds patience) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(patience);
  bool ended = false;
  while (!bytes.empty() && !ended) {
    const Seconds left = std::chrono::duration<double>(end - Clock::now()).count();
    if (left <= 0 || !wait_for(socket.descriptor(), POLLIN, left)) {
      return false;
    }
    bytes = bytes.subspan(read_some(socket, bytes, ended));
  }
  return bytes.empty();
}

}  // namespace xrun::runtime
