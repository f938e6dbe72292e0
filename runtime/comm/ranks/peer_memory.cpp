#include "runtime/comm/ranks/peer_memory.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <random>
#include <sstream>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

namespace xrun::runtime {
namespace {

using Mark = std::array<uint64_t, 4>;

// A random value in this process. Another process reads it, to check that it really reads the memory of this process.
const Mark& own_mark() {
  static const Mark mark = [] {
    std::random_device random;
    Mark drawn;
    for (uint64_t& word : drawn) {
      word = (static_cast<uint64_t>(random()) << 32) | random();
    }
    return drawn;
  }();
  return mark;
}

std::string hex(const Mark& mark) {
  return fmt::format("{:016x}{:016x}{:016x}{:016x}", mark[0], mark[1], mark[2], mark[3]);
}

// Identifies the kernel and the PID namespace. Process ids are valid only between processes for which the result is
// equal.
std::string own_namespace() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat info {};
  return ::stat("/proc/self/ns/pid", &info) == 0 ? fmt::format("{}.{}.{}", boot, info.st_dev, info.st_ino) : "";
}

}  // namespace

std::string PeerMemory::own_place() {
  const Mark& mark = own_mark();
  return fmt::format("{} {} {} {}", own_namespace(), ::getpid(), reinterpret_cast<uintptr_t>(&mark), hex(mark));
}

std::optional<PeerMemory> PeerMemory::open(const std::string& place) {
  std::istringstream in(place);
  std::string name;
  pid_t process = 0;
  uint64_t address = 0;
  std::string want;
  if (!(in >> name >> process >> address >> want) || name != own_namespace() || process <= 0) {
    return std::nullopt;
  }
  const PeerMemory memory(process);
  Mark mark{};
  if (memory.read(address, std::as_writable_bytes(std::span(mark))) != 0 || hex(mark) != want) {
    return std::nullopt;
  }
  return memory;
}

int PeerMemory::read(uint64_t address, std::span<std::byte> out) const {
  while (!out.empty()) {
    const iovec to{.iov_base = out.data(), .iov_len = out.size()};
    const iovec from{.iov_base = reinterpret_cast<void*>(address), .iov_len = out.size()};
    const ssize_t copied = ::process_vm_readv(process_, &to, 1, &from, 1, 0);
    if (copied <= 0) {
      return copied == 0 ? EFAULT : errno;
    }
    out = out.subspan(static_cast<size_t>(copied));
    address += static_cast<uint64_t>(copied);
  }
  return 0;
}

}  // namespace xrun::runtime
