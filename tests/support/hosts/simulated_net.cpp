#include "tests/support/hosts/simulated_net.h"

#include <algorithm>
#include <cerrno>

namespace xrun::testing {
namespace {

constexpr Seconds kNever = 1e12;

bool covers(const SimulatedNet::Span& span, Seconds time) { return span.begin <= time && time < span.end; }

}  // namespace

std::pair<int, int> SimulatedNet::join(int a, int b) {
  const int socket = static_cast<int>(ends_.size());
  ends_.push_back({.node = a, .other = socket + 1});
  ends_.push_back({.node = b, .other = socket});
  return {socket, socket + 1};
}

void SimulatedNet::kill(int node) {
  for (int socket = 0; socket < static_cast<int>(ends_.size()); ++socket) {
    if (ends_[static_cast<size_t>(socket)].node == node) {
      close(socket);
    }
  }
}

// Returns the time at which a packet that is sent now arrives: at the first attempt for which the link works.
std::optional<Seconds> SimulatedNet::arrival_over(int a, int b) {
  const auto cuts = cuts_.find(link(a, b));
  Seconds sent = clock_.now();
  for (Seconds again = 0.2; cuts != cuts_.end(); again *= 2) {
    const auto cut = std::ranges::find_if(cuts->second, [&](const Span& span) { return covers(span, sent); });
    if (cut == cuts->second.end()) {
      break;
    }
    if (cut->end >= kNever) {
      return std::nullopt;
    }
    sent += again;
  }
  Seconds delay = std::uniform_real_distribution<double>(1e-4, 3e-3)(random_);
  if (const auto delays = delays_.find(link(a, b)); delays != delays_.end()) {
    for (const Span& span : delays->second) {
      delay += covers(span, sent) ? span.delay : 0;
    }
  }
  return sent + delay;
}

// A message that can never arrive blocks everything that is sent after it.
void SimulatedNet::put(int socket, std::vector<std::byte> bytes) {
  const End& from = ends_[static_cast<size_t>(socket)];
  End& to = ends_[static_cast<size_t>(from.other)];
  to.last = std::max(to.last, arrival_over(from.node, to.node).value_or(kNever));
  if (to.last < kNever) {
    longest_ = std::max(longest_, to.last - clock_.now());
  }
  to.inbox.push_back({.arrival = to.last, .bytes = std::move(bytes)});
}

std::optional<Seconds> SimulatedNet::readable_at(int socket) const {
  const End& end = ends_[static_cast<size_t>(socket)];
  if (!end.callers.empty()) {
    return clock_.now();
  }
  return end.open && !end.inbox.empty() && end.inbox.front().arrival < kNever ? std::optional(end.inbox.front().arrival)
                                                                              : std::nullopt;
}

std::optional<Seconds> SimulatedNet::next_arrival(int node, Seconds after) const {
  std::optional<Seconds> next;
  for (int socket = 0; socket < static_cast<int>(ends_.size()); ++socket) {
    const auto at = readable_at(socket);
    if (ends_[static_cast<size_t>(socket)].node == node && at && *at > after && (!next || *at < *next)) {
      next = at;
    }
  }
  return next;
}

int SimulatedNet::listen(int& port) {
  port = static_cast<int>(ends_.size());
  ends_.push_back({.node = caller_, .other = port});
  return port;
}

int SimulatedNet::accept(int listener) {
  End& end = ends_[static_cast<size_t>(listener)];
  if (end.callers.empty()) {
    return -EAGAIN;
  }
  const int socket = end.callers.front();
  end.callers.pop_front();
  return socket;
}

// The kernel of the other node accepts a connection even if its process is busy, so only the link takes time.
int SimulatedNet::connect(const std::string& address, int port, Seconds patience) {
  const int node = std::stoi(address);
  const auto there = arrival_over(caller_, node);
  if (!there || *there - clock_.now() > patience) {
    clock_.move_to(clock_.now() + patience);
    return -ETIMEDOUT;
  }
  clock_.move_to(*there);
  const bool listens = port >= 0 && port < static_cast<int>(ends_.size()) &&
                       ends_[static_cast<size_t>(port)].other == port && ends_[static_cast<size_t>(port)].open &&
                       ends_[static_cast<size_t>(port)].node == node;
  if (!listens) {
    return -ECONNREFUSED;
  }
  const auto [mine, theirs] = join(caller_, node);
  ends_[static_cast<size_t>(port)].callers.push_back(theirs);
  return mine;
}

int64_t SimulatedNet::send(int socket, std::span<const std::byte> bytes) {
  const End& end = ends_[static_cast<size_t>(socket)];
  if (!end.open || end.ended) {
    return -EPIPE;
  }
  put(socket, {bytes.begin(), bytes.end()});
  return std::ssize(bytes);
}

int64_t SimulatedNet::receive(int socket, std::span<std::byte> bytes) {
  End& end = ends_[static_cast<size_t>(socket)];
  if (!end.open) {
    return -EBADF;
  }
  if (end.inbox.empty() || end.inbox.front().arrival > clock_.now()) {
    return -EAGAIN;
  }
  Packet& packet = end.inbox.front();
  if (packet.bytes.empty()) {
    return 0;
  }
  const auto size = static_cast<std::ptrdiff_t>(std::min(packet.bytes.size(), bytes.size()));
  std::copy_n(packet.bytes.begin(), size, bytes.begin());
  packet.bytes.erase(packet.bytes.begin(), packet.bytes.begin() + size);
  if (packet.bytes.empty()) {
    end.inbox.pop_front();
  }
  return size;
}

bool SimulatedNet::wait(std::span<const int> sockets, Seconds patience) {
  const Seconds end = clock_.now() + std::max(0.0, patience);
  std::optional<Seconds> first;
  for (const int socket : sockets) {
    const auto at = socket >= 0 ? readable_at(socket) : std::nullopt;
    first = at && (!first || *at < *first) ? at : first;
  }
  clock_.move_to(first ? std::min(*first, end) : end);
  return first && *first <= end;
}

void SimulatedNet::end_sending(int socket) {
  End& end = ends_[static_cast<size_t>(socket)];
  if (end.open && !end.ended) {
    end.ended = true;
    put(socket, {});
  }
}

void SimulatedNet::close(int socket) {
  end_sending(socket);
  ends_[static_cast<size_t>(socket)].open = false;
}

}  // namespace xrun::testing
