// Handles the messages of exchanges that arrive. Data are copied to their destination once this exchange and all other
// exchanges that receive the same data have been posted; messages that arrive earlier are kept in Member::early.
// Tests: tests/runtime/comm/ranks/rank_communicator_test.cpp
#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "graph/base/check.h"
#include "graph/base/errors.h"
#include "runtime/comm/ranks/block_header.h"
#include "runtime/comm/ranks/rank_communicator.h"

namespace xrun::runtime {
namespace {

using Clock = std::chrono::steady_clock;

Seconds since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

void RankCommunicator::on_message(int /*from*/, Message message) {
  const BlockHeader header = header_of(message);
  if (header.kind == BlockHeader::kBroadcast) {
    if (!error_) {
      broadcasts_.on_message(std::move(message));
    }
    return;
  }
  const bool answer = header.kind == BlockHeader::kTaken;
  const auto at = index_.find({header.group, answer ? header.from : header.to});
  XRUN_CHECK(at != index_.end(), "a block for an exchange that is not here");
  Member& member = *members_[at->second];
  if (error_) {
    return;
  }
  if (answer) {
    taken(member);
    network_.recycle(std::move(message));
    return;
  }
  if (!can_place(member, header.from)) {
    member.early.emplace_back(header.from, std::move(message));
    return;
  }
  place(member, header.from, message);
  network_.recycle(std::move(message));
}

// Copies the content of a message from `device`, which is the next piece of a stream, to its destination.
void RankCommunicator::place(Member& member, int device, const Message& message) {
  Stream& stream = member.exchange.stream_from(device);
  const bool is_first = stream.cursor.passed == 0;
  const auto start = Clock::now();
  if (header_of(message).kind == BlockHeader::kAddresses) {
    if (const Status copied = place_direct(stream, message); !copied.ok()) {
      network_.give_up(copied.error());
      return;
    }
  } else {
    const std::byte* from = message.data() + kHeaders;
    stream.cursor.advance(
        static_cast<Bytes>(message.size() - kHeaders), [&](const Block& block, Bytes offset, Bytes part) {
          block.memory->write(offset, {from, static_cast<size_t>(part)});
          for (size_t i = 0; !stream.copies.empty() && i < stream.copies[stream.cursor.block].size(); ++i) {
            const Block& copy = stream.copies[stream.cursor.block][i];
            copy.memory->write(copy.offset + offset - block.offset, {from, static_cast<size_t>(part)});
          }
          from += part;
        });
  }
  const auto count_time = [&, moving = since(start)](Member& one) {
    one.moving += moving;
    one.all_begun = is_first ? start : one.all_begun;
  };
  count_time(member);
  for (const int sharer : stream.sharers) {
    count_time(*members_[static_cast<size_t>(sharer)]);
  }
  if (stream.cursor.over()) {
    for (const int sharer : stream.sharers) {
      end_stream(*members_[static_cast<size_t>(sharer)]);
    }
    end_stream(member);
  }
}

// Called when all data of one of the member's received streams are in their places.
void RankCommunicator::end_stream(Member& member) {
  if (member.missing > 0 && --member.missing == 0) {
    member.moving = std::max(member.moving, since(member.all_begun));
    open_ -= 1;
    end_receiving(member);
  }
}

// Copies a stream directly from the memory of the rank that sends it, and sends that rank a confirmation.
Status RankCommunicator::place_direct(Stream& stream, const Message& message) {
  const PeerMemory* const memory = world_.memory_of(stream.rank);
  XRUN_CHECK(memory != nullptr, "addresses of a rank whose memory cannot be read");
  std::vector<PeerRange> ranges((message.size() - kHeaders) / sizeof(PeerRange));
  std::memcpy(ranges.data(), message.data() + kHeaders, ranges.size() * sizeof(PeerRange));
  int fault = 0;
  std::vector<std::byte> staging;
  for (PeerRange range : ranges) {
    stream.cursor.advance(range.bytes, [&](const Block& block, Bytes offset, Bytes part) {
      const auto size = static_cast<size_t>(part);
      std::byte* const to = block.memory->host_address(offset);
      if (to == nullptr) {
        staging.resize(size);
      }
      fault = fault != 0 ? fault : memory->read(range.address, {to == nullptr ? staging.data() : to, size});
      if (to == nullptr) {
        block.memory->write(offset, staging);
      }
      range.address += size;
    });
  }
  if (fault != 0) {
    return world_error("XG0834",
                       {"the memory of {} cannot be read: {}", world_.name(stream.rank), std::strerror(fault)},
                       "check whether that process still runs; then start the same command again: it continues from "
                       "the last checkpoint");
  }
  BlockHeader answer = header_of(message);
  answer.kind = BlockHeader::kTaken;
  network_.send(channel_, stream.rank, make_block_message(network_, answer, 0));
  return {};
}

// Whether data from a device can be copied to their destination: this member, and all members that receive the same
// data, have been posted.
bool RankCommunicator::can_place(Member& member, int device) {
  return member.missing > 0 && std::ranges::all_of(member.exchange.stream_from(device).sharers, [&](int sharer) {
           return members_[static_cast<size_t>(sharer)]->missing > 0;
         });
}

void RankCommunicator::place_early(Member& member) {
  std::deque<std::pair<int, Message>> early;
  early.swap(member.early);
  for (auto& [device, message] : early) {
    if (!error_ && !can_place(member, device)) {
      member.early.emplace_back(device, std::move(message));
      continue;
    }
    if (!error_) {
      place(member, device, message);
    }
    network_.recycle(std::move(message));
  }
}

}  // namespace xrun::runtime
