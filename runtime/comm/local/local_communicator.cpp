#include "runtime/comm/local/local_communicator.h"

#include <array>
#include <cstring>

#include "graph/base/check.h"
#include "planner/program.h"
#include "runtime/fold.h"

namespace xrun::runtime {

Status sum_f32(void* /*context*/, const Exchange& exchange, Published parts) {
  const auto members = static_cast<int64_t>(parts.size());
  XRUN_CHECK(members <= planner::kMostReplicas, "an all-reduce over more members than a fold takes");
  for (size_t piece = 0; piece < exchange.send.size(); ++piece) {
    const auto count = static_cast<int64_t>(exchange.send[piece].size() / sizeof(float));
    const int64_t begin = count * exchange.member / members;
    const int64_t end = count * (exchange.member + 1) / members;
    std::array<float*, planner::kMostReplicas> terms;
    for (int64_t m = 0; m < members; ++m) {
      terms[static_cast<size_t>(m)] = reinterpret_cast<float*>(parts[static_cast<size_t>(m)][piece].data()) + begin;
    }
    fold_tree(std::span(terms.data(), static_cast<size_t>(members)), end - begin);
    for (int64_t m = 1; m < members; ++m) {
      std::memcpy(terms[static_cast<size_t>(m)], terms[0], static_cast<size_t>(end - begin) * sizeof(float));
    }
  }
  return {};
}

LocalCommunicator::LocalCommunicator(const DeviceSet& devices, std::span<const int> members) : devices_(devices) {
  for (const int count : members) {
    auto group = std::make_unique<Group>();
    group->missing = count;
    group->pulling = count;
    group->members.resize(static_cast<size_t>(count));
    group->published.resize(static_cast<size_t>(count));
    groups_.push_back(std::move(group));
  }
}

void LocalCommunicator::post(const Exchange& exchange, Completion completion) {
  Group& group = *groups_[static_cast<size_t>(exchange.group)];
  const auto at = static_cast<size_t>(exchange.member);
  group.published[at] = exchange.send;
  group.members[at] = {exchange, completion, Status(), this, exchange.group};
  if (group.missing.fetch_sub(1, std::memory_order_acq_rel) != 1) {
    return;
  }
  // The last one: everybody may pull now. Members that take nothing have no need of their device, which may be busy.
  // Its own pull is done here; it comes last, since the group may be reused for the next step as soon as all have
  // pulled.
  for (Member& member : group.members) {
    if (member.exchange.member == exchange.member) {
      continue;
    }
    if (member.exchange.combine == nullptr) {
      pull(group, member);
    } else {
      devices_.device(member.exchange.device).submit({&LocalCommunicator::pull_task, &member, 0});
    }
  }
  pull(group, group.members[at]);
}

void LocalCommunicator::pull_task(void* context, int32_t /*argument*/) {
  Member& member = *static_cast<Member*>(context);
  member.owner->pull(*member.owner->groups_[static_cast<size_t>(member.group)], member);
}

void LocalCommunicator::pull(Group& group, Member& member) {
  if (member.exchange.combine != nullptr) {
    member.status = member.exchange.combine(member.exchange.context, member.exchange, group.published);
  }
  if (group.pulling.fetch_sub(1, std::memory_order_acq_rel) != 1) {
    return;
  }
  const auto count = static_cast<int>(group.members.size());
  group.missing.store(count, std::memory_order_relaxed);
  group.pulling.store(count, std::memory_order_release);
  for (Member& done : group.members) {
    done.completion.done(done.completion.context, done.completion.argument, std::move(done.status));
  }
}

}  // namespace xrun::runtime
