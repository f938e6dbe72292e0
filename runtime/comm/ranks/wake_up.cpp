#include "runtime/comm/ranks/wake_up.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <random>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

namespace xrun::runtime {
namespace {

// Makes an abstract socket address: it has no file, and disappears with its socket.
socklen_t address_of(const std::string& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  const size_t size = std::min(name.size(), sizeof(address.sun_path) - 1);
  std::memcpy(address.sun_path + 1, name.data(), size);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
}

}  // namespace

WakeUp::WakeUp() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  std::random_device random;
  const std::string name = fmt::format("xrun-{}-{:08x}{:08x}", ::getpid(), random(), random());
  sockaddr_un address;
  const socklen_t size = address_of(name, address);
  if (socket_ >= 0 && ::bind(socket_, reinterpret_cast<const sockaddr*>(&address), size) == 0) {
    name_ = name;
  }
}

WakeUp::~WakeUp() {
  for (const int file : {event_, socket_}) {
    if (file >= 0) {
      ::close(file);
    }
  }
}

void WakeUp::send() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(event_, &one, sizeof one);  // a full counter also wakes
}

bool WakeUp::send(const std::string& name) const {
  sockaddr_un address;
  const socklen_t size = address_of(name, address);
  return !name.empty() && socket_ >= 0 &&
         (::sendto(socket_, "", 1, MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), size) >= 0 ||
          errno == EAGAIN || errno == ENOBUFS);  // a full queue also wakes the waiter
}

bool WakeUp::wait(std::chrono::microseconds most) const {
  if (event_ < 0) {
    std::this_thread::sleep_for(std::min(most, std::chrono::microseconds(100)));
    return true;
  }
  std::array<pollfd, 2> files{{{.fd = event_, .events = POLLIN, .revents = 0},
                               {.fd = name_.empty() ? -1 : socket_, .events = POLLIN, .revents = 0}}};
  const timespec time{.tv_sec = most.count() / 1'000'000, .tv_nsec = most.count() % 1'000'000 * 1000};
  if (::ppoll(files.data(), files.size(), &time, nullptr) <= 0) {
    return false;
  }
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t read = ::read(event_, &count, sizeof count);
  std::array<char, 8> datagram{};
  while (files[1].fd >= 0 && ::recv(socket_, datagram.data(), datagram.size(), MSG_DONTWAIT) >= 0) {
  }
  return true;
}

}  // namespace xrun::runtime
