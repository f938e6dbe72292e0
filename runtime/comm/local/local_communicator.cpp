// Member m can copy ("pull") its blocks when m and all members that it receives from are posted. The thread that posts
// the last of these starts the pull on m's device. The thread that ends the last copy of the pull completes the
// exchange of m. A sender is released once all its receivers have pulled.
// Tests: tests/runtime/executor/executor_test.cpp, tests/runtime/executor/late_devices_test.cpp
#include "runtime/comm/local/local_communicator.h"

#include <algorithm>
#include <map>
#include <utility>

namespace xrun::runtime {

LocalCommunicator::LocalCommunicator(const DeviceSet& devices, std::span<const Exchange> exchanges) {
  std::map<int, std::vector<Exchange>> groups;
  std::map<std::pair<int, int>, size_t> index;  // key: (group, device); value: index of the exchange
  for (size_t i = 0; i < exchanges.size(); ++i) {
    groups[exchanges[i].group].push_back(exchanges[i]);
    index[{exchanges[i].group, exchanges[i].device}] = i;
    members_.push_back(std::make_unique<Member>());
  }
  for (size_t i = 0; i < exchanges.size(); ++i) {
    const Exchange& exchange = exchanges[i];
    Member& member = *members_[i];
    member.device = &devices.device(exchange.device);
    const std::vector<Exchange>& group = groups.at(exchange.group);
    member.copies = copies_to(group, exchange);
    for (const BlockCopy& copy : member.copies) {
      const int device = group[static_cast<size_t>(copy.sender)].device;
      Member* const sender = members_[index.at({exchange.group, device})].get();
      if (std::ranges::find(member.senders, sender) == member.senders.end()) {
        member.senders.push_back(sender);
        ++sender->pulls_needed;
        if (sender != &member) {
          sender->takers.push_back(&member);
          ++member.posts_needed;
        }
      }
    }
    if (!member.copies.empty()) {
      member.takers.push_back(&member);
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
  // After the last start the step may end and destroy the communicator, so the loop does not access it then.
  Member* const* taker = member.takers.data();
  for (Member* const* const end = taker + member.takers.size(); taker != end;) {
    Member& one = **taker++;
    if (one.missing.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      one.missing.store(one.posts_needed, std::memory_order_relaxed);
      one.device->start(DeviceStream::kExchanges, {&LocalCommunicator::pull, &one, 0});
    }
  }
}

void LocalCommunicator::resize(std::span<const Exchange> exchanges) {
  std::map<int, std::vector<Exchange>> groups;
  for (const Exchange& exchange : exchanges) {
    groups[exchange.group].push_back(exchange);
  }
  for (size_t i = 0; i < exchanges.size(); ++i) {
    members_[i]->copies = copies_to(groups.at(exchanges[i].group), exchanges[i]);
  }
}

void LocalCommunicator::pull(void* context, int32_t /*argument*/) {
  Member& member = *static_cast<Member*>(context);
  member.begun = std::chrono::steady_clock::now();
  member.copying.store(std::ssize(member.copies) + 1, std::memory_order_relaxed);
  for (const BlockCopy& copy : member.copies) {
    copy.to.memory->copy_from(*copy.from.memory, copy.from.offset, copy.to.offset, copy.to.bytes,
                              {&LocalCommunicator::copied, &member});
  }
  copied(&member, {});
}

void LocalCommunicator::copied(void* context, Status status) {
  Member& member = *static_cast<Member*>(context);
  if (!status.ok()) {
    const std::lock_guard lock(member.mutex);
    if (member.error.ok()) {
      member.error = std::move(status);
    }
  }
  if (member.copying.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    finish(member);
  }
}

void LocalCommunicator::finish(Member& member) {
  const Seconds moving = std::chrono::duration<double>(std::chrono::steady_clock::now() - member.begun).count();
  for (Member* const sender : member.senders) {
    release(*sender, moving);
  }
  // This call comes last, because it may end the step.
  member.received.done(member.received.context, member.received.argument, std::exchange(member.error, Status()),
                       moving);
}

void LocalCommunicator::release(Member& sender, Seconds moving) {
  if (sender.pulling.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    sender.pulling.store(sender.pulls_needed, std::memory_order_relaxed);
    sender.released.done(sender.released.context, sender.released.argument, {}, moving);
  }
}

}  // namespace xrun::runtime
