// A pull of member m may start when m and all that it receives from are posted. Whoever posts the last of them starts
// it on m's device; at its end m has received, and a sender from which all have pulled is released.
#include "runtime/comm/local/local_communicator.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>

#include "graph/base/check.h"

namespace xrun::runtime {

std::vector<BlockCopy> copies_to(std::span<const Exchange> exchanges, const Exchange& receiver) {
  std::vector<BlockCopy> copies;
  std::map<int, size_t> next;  // by sending device: its block to look at next
  for (const Block& to : receiver.receives) {
    const auto sender = std::ranges::find_if(
        exchanges, [&](const Exchange& one) { return one.group == receiver.group && one.device == to.peer; });
    XRUN_CHECK(sender != exchanges.end(), "a block is received from a device that is no member of its exchange");
    size_t& at = next[to.peer];
    while (at < sender->sends.size() && sender->sends[at].peer != receiver.device) {
      ++at;
    }
    XRUN_CHECK(at < sender->sends.size() && sender->sends[at].bytes == to.bytes,
               "a block is received that was not sent, or in another size");
    copies.push_back({static_cast<int>(sender - exchanges.begin()), sender->sends[at++], to});
  }
  return copies;
}

LocalCommunicator::LocalCommunicator(const DeviceSet& devices, std::span<const Exchange> exchanges) {
  std::map<int, std::vector<Exchange>> groups;
  std::map<std::pair<int, int>, int> index;  // (group, device)
  for (size_t i = 0; i < exchanges.size(); ++i) {
    groups[exchanges[i].group].push_back(exchanges[i]);
    index[{exchanges[i].group, exchanges[i].device}] = static_cast<int>(i);
    members_.push_back(std::make_unique<Member>());
  }
  for (size_t i = 0; i < exchanges.size(); ++i) {
    const Exchange& exchange = exchanges[i];
    Member& member = *members_[i];
    member.owner = this;
    member.device = &devices.device(exchange.device);
    const std::vector<Exchange>& group = groups.at(exchange.group);
    member.copies = copies_to(group, exchange);
    for (BlockCopy& copy : member.copies) {
      copy.sender = index.at({exchange.group, group[static_cast<size_t>(copy.sender)].device});
      if (std::ranges::find(member.senders, copy.sender) == member.senders.end()) {
        member.senders.push_back(copy.sender);
        Member& sender = *members_[static_cast<size_t>(copy.sender)];
        ++sender.pulls_needed;
        if (copy.sender != static_cast<int>(i)) {
          sender.takers.push_back(static_cast<int>(i));
          ++member.posts_needed;
        }
      }
    }
    if (!member.copies.empty()) {
      member.takers.push_back(static_cast<int>(i));
      ++member.posts_needed;
    }
  }
  for (const auto& member : members_) {
    member->missing = member->posts_needed;
    member->pulling = member->pulls_needed;
  }
}

void LocalCommunicator::post(int exchange, Completion received, Completion released) {
  Member& member = *members_[static_cast<size_t>(exchange)];
  member.received = received;
  member.released = released;
  // Behind the last start the step may end, and all of this with it.
  const int* taker = member.takers.data();
  for (const int* const end = taker + member.takers.size(); taker != end;) {
    Member& one = *members_[static_cast<size_t>(*taker++)];
    if (one.missing.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      one.missing.store(one.posts_needed, std::memory_order_relaxed);
      one.device->start(DeviceStream::kExchanges, {&LocalCommunicator::pull_task, &one, 0});
    }
  }
}

void LocalCommunicator::pull_task(void* context, int32_t /*exchange*/) {
  Member& member = *static_cast<Member*>(context);
  member.owner->pull(member);
}

void LocalCommunicator::pull(Member& member) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  for (const BlockCopy& copy : member.copies) {
    copy.to.memory->copy_from(*copy.from.memory, copy.from.offset, copy.to.offset, copy.to.bytes);
  }
  const Seconds moving = std::chrono::duration<double>(Clock::now() - start).count();
  for (const int sender : member.senders) {
    release(*members_[static_cast<size_t>(sender)], moving);
  }
  // Last: it may end the step.
  member.received.done(member.received.context, member.received.argument, {}, moving);
}

void LocalCommunicator::release(Member& sender, Seconds moving) {
  if (sender.pulling.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    sender.pulling.store(sender.pulls_needed, std::memory_order_relaxed);
    sender.released.done(sender.released.context, sender.released.argument, {}, moving);
  }
}

}  // namespace xrun::runtime
