// Exchanges: how they are posted, sent and ended. rank_arrivals.cpp handles the messages that arrive.
#include "runtime/comm/ranks/rank_communicator.h"

#include <cstring>
#include <utility>

#include "runtime/comm/ranks/block_header.h"

namespace xrun::runtime {
namespace {

// The smallest size of a stream that the receiver copies directly. For shorter streams the message that confirms the
// copy costs more than the direct copy saves.
constexpr Bytes kDirect = 64 * kKiB;

}  // namespace

RankCommunicator::RankCommunicator(World& world, const DeviceSet& devices, std::function<int(int device)> rank_of,
                                   std::span<const Exchange> exchanges)
    : world_(world),
      network_(world.network()),
      rank_of_(std::move(rank_of)),
      host_(world.hosts()[static_cast<size_t>(world.rank())]),
      outgoing_(static_cast<size_t>(world.count())),
      broadcasts_(world) {
  for (const Exchange& exchange : exchanges) {
    index_[{exchange.group, exchange.device}] = members_.size();
    members_.push_back(std::make_unique<Member>());
  }
  local_ = std::make_unique<LocalCommunicator>(devices, divide(exchanges));
  posted_.reserve(members_.size());
  taken_.reserve(members_.size());
  channel_ = network_.open(*this);
}

RankCommunicator::~RankCommunicator() {
  network_.close(channel_);
  broadcasts_.abandon(Error{ErrorKind::kInterrupted, "", "the run ends", ""});
}

std::vector<Exchange> RankCommunicator::divide(std::span<const Exchange> exchanges) {
  const RankPlaces places{world_.rank(), rank_of_, [this](int rank) { return is_remote(rank); }};
  std::vector<DividedExchange> divided = divide_exchanges(exchanges, places);
  std::vector<Exchange> local;
  for (size_t i = 0; i < exchanges.size(); ++i) {
    Member& member = *members_[i];
    member.exchange = std::move(divided[i]);
    for (Stream& stream : member.exchange.sends) {
      stream.direct = is_direct(stream);
    }
    local.push_back(member.exchange.local);
  }
  return local;
}

// No lock is needed: the network's thread reads streams only while their exchange is under way.
void RankCommunicator::resize(std::span<const Exchange> exchanges) { local_->resize(divide(exchanges)); }

void RankCommunicator::post(int exchange, Completion received, Completion released) {
  Member& member = *members_[static_cast<size_t>(exchange)];
  const bool remote_receives = !member.exchange.receives.empty() || !member.exchange.feeders.empty();
  const bool remote_sends = !member.exchange.sends.empty();
  member.received = received;
  member.released = released;
  member.status = {};
  member.moving = member.local_moving = 0;
  member.receiving.store((member.receives_locally() ? 1 : 0) + (remote_receives ? 1 : 0), std::memory_order_relaxed);
  member.releasing.store((member.sends_locally() ? 1 : 0) + (remote_sends ? 1 : 0), std::memory_order_relaxed);
  const bool has_local = member.sends_locally() || member.receives_locally();
  // When the local part and the part with messages have both ended, the step may end and destroy the communicator. The
  // part with messages cannot end before it is queued below, so it is started last.
  if (remote_sends || remote_receives) {
    Network& network = network_;
    if (has_local) {
      // The local part cannot be the last one to end, since no message is handled before the exchange is queued below.
      local_->post(exchange, {&local_received, &member, 0}, {&local_released, &member, 0});
    }
    {
      const std::lock_guard lock(mutex_);
      posted_.push_back(exchange);
    }
    network.wake();
  } else if (has_local) {
    local_->post(exchange, {&local_received, &member, 0}, {&local_released, &member, 0});
  }
}

void RankCommunicator::local_received(void* context, int32_t /*argument*/, Status /*status*/, Seconds moving) {
  Member& member = *static_cast<Member*>(context);
  member.local_moving = moving;
  end_receiving(member);
}

void RankCommunicator::local_released(void* context, int32_t /*argument*/, Status /*status*/, Seconds /*moving*/) {
  end_releasing(*static_cast<Member*>(context));
}

void RankCommunicator::end_receiving(Member& member) {
  if (member.receiving.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    member.received.done(member.received.context, member.received.argument, member.status,
                         member.moving + member.local_moving);
  }
}

void RankCommunicator::end_releasing(Member& member) {
  if (member.releasing.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    member.released.done(member.released.context, member.released.argument, {}, 0);
  }
}

void RankCommunicator::broadcast(int channel, int root, std::span<std::byte> bytes, Completion done) {
  broadcasts_.ask(channel, root, bytes, done);
  network_.wake();
}

void RankCommunicator::work() {
  {
    const std::lock_guard lock(mutex_);
    taken_.swap(posted_);
  }
  for (const int exchange : taken_) {
    begin(*members_[static_cast<size_t>(exchange)]);
  }
  taken_.clear();
  broadcasts_.begin_asked(error_);
  pump();
}

void RankCommunicator::begin(Member& member) {
  member.unread = member.exchange.sends.size();
  member.missing = member.exchange.receives.size() + member.exchange.brought;
  open_ += (member.missing > 0 ? 1 : 0) + (member.unread > 0 ? 1 : 0);
  if (error_) {
    abandon(member, *error_);
    return;
  }
  for (Stream& stream : member.exchange.sends) {
    stream.cursor.rewind();
    outgoing_[static_cast<size_t>(stream.rank)].push_back(&stream);
  }
  for (Stream& stream : member.exchange.receives) {
    stream.cursor.rewind();
  }
  place_early(member);
  for (const int feeder : member.exchange.feeders) {
    place_early(*members_[static_cast<size_t>(feeder)]);
  }
}

// Sends messages to each rank until kUnderWay of them are under way. A step waits for its exchanges but not for
// broadcasts, so broadcasts are sent only when all streams of exchanges have been sent or are ahead.
void RankCommunicator::pump() {
  for (int rank = 0; rank < world_.count(); ++rank) {
    const auto has_room = [&] { return network_.unsent(rank) < kUnderWay; };
    auto& queue = outgoing_[static_cast<size_t>(rank)];
    for (auto next = queue.begin(); next != queue.end() && has_room();) {
      Stream& stream = **next;
      if (members_[static_cast<size_t>(stream.member)]->exchange.is_ahead(stream, kMostLead)) {
        ++next;
      } else if (send_some(stream)) {
        next = queue.erase(next);
      }
    }
    while (broadcasts_.has_for(rank) && has_room()) {
      broadcasts_.send_some(channel_, rank);
    }
  }
}

bool RankCommunicator::is_direct(const Stream& stream) const {
  Bytes bytes = 0;
  for (const Block& block : stream.cursor.blocks) {
    if (block.memory->host_address(block.offset) == nullptr) {
      return false;
    }
    bytes += block.bytes;
  }
  return bytes >= kDirect && world_.is_read_by(stream.rank);
}

void RankCommunicator::send_addresses(Stream& stream) {
  const Member& member = *members_[static_cast<size_t>(stream.member)];
  std::vector<PeerRange> ranges;
  for (const Block& block : stream.cursor.blocks) {
    if (block.bytes > 0) {
      ranges.push_back(
          {.address = reinterpret_cast<uintptr_t>(block.memory->host_address(block.offset)), .bytes = block.bytes});
    }
  }
  const auto bytes = std::as_bytes(std::span(ranges));
  const BlockHeader header{.kind = BlockHeader::kAddresses,
                           .group = member.exchange.local.group,
                           .from = member.exchange.local.device,
                           .to = stream.device};
  Message message = make_block_message(network_, header, bytes.size());
  std::memcpy(message.data() + kHeaders, bytes.data(), bytes.size());
  network_.send(channel_, stream.rank, std::move(message));
}

// Sends one message of a stream. Returns whether it was the last message of the stream.
bool RankCommunicator::send_some(Stream& stream) {
  Member& member = *members_[static_cast<size_t>(stream.member)];
  if (stream.direct) {
    send_addresses(stream);
    return true;
  }
  const Bytes bytes = stream.cursor.left(kMostBlockBytes);
  const BlockHeader header{
      .group = member.exchange.local.group, .from = member.exchange.local.device, .to = stream.device};
  Message message = make_block_message(network_, header, static_cast<size_t>(bytes));
  std::byte* to = message.data() + kHeaders;
  stream.cursor.advance(bytes, [&](const Block& block, Bytes offset, Bytes part) {
    block.memory->read(offset, {to, static_cast<size_t>(part)});
    to += part;
  });
  network_.send(channel_, stream.rank, std::move(message));
  if (is_remote(stream.rank)) {
    world_.count_sent(bytes);
  }
  if (!stream.cursor.over()) {
    return false;
  }
  taken(member);  // the messages contain a copy of the whole stream
  return true;
}

// Called when the blocks of one of the member's sent streams may be overwritten.
void RankCommunicator::taken(Member& member) {
  if (member.unread > 0 && --member.unread == 0) {
    open_ -= 1;
    end_releasing(member);
  }
}

// Ends all exchanges and broadcasts with the error: after it, the other ranks send no more messages and need none.
void RankCommunicator::on_error(const Error& error, bool /*lost*/) {
  if (error_) {
    return;
  }
  error_ = error;
  for (auto& queue : outgoing_) {
    queue.clear();
  }
  for (const auto& member : members_) {
    member->early.clear();
    abandon(*member, error);
  }
  broadcasts_.abandon(error);
}

void RankCommunicator::abandon(Member& member, const Error& error) {
  const bool sends = std::exchange(member.unread, 0) > 0;
  const bool receives = std::exchange(member.missing, 0) > 0;
  if (receives) {
    member.status = error;
    open_ -= 1;
  }
  if (sends) {
    open_ -= 1;
    end_releasing(member);
  }
  if (receives) {
    end_receiving(member);
  }
}

}  // namespace xrun::runtime
