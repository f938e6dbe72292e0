#include "runtime/comm/ranks/rank_streams.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "graph/base/check.h"

namespace xrun::runtime {
namespace {

bool same_block(const Block& a, const Block& b) { return a.source >= 0 && a.source == b.source && a.bytes == b.bytes; }

class Divider {
 public:
  Divider(std::span<const Exchange> exchanges, const RankPlaces& places) : exchanges_(exchanges), places_(places) {
    for (size_t i = 0; i < exchanges.size(); ++i) {
      const Exchange& exchange = exchanges[i];
      for (const Block& block : exchange.sends) {
        const auto [first, added] = receivers_.emplace(sent_key(exchange, block), block.peer);
        first->second = std::min(first->second, block.peer);
      }
      for (const Block& block : exchange.receives) {
        const auto [first, added] = bringers_.emplace(received_key(exchange, block), static_cast<int>(i));
        if (exchange.device < exchanges[static_cast<size_t>(first->second)].device) {
          first->second = static_cast<int>(i);
        }
      }
    }
  }

  std::vector<DividedExchange> run() {
    std::vector<DividedExchange> divided(exchanges_.size());
    for (size_t i = 0; i < exchanges_.size(); ++i) {
      divide(static_cast<int>(i), divided[i]);
    }
    for (size_t i = 0; i < exchanges_.size(); ++i) {
      share(static_cast<int>(i), divided);
    }
    return divided;
  }

 private:
  // Identical blocks have equal keys: group, sender, source, bytes, and the receiving rank.
  using Key = std::tuple<int, int, Bytes, Bytes, int>;
  Key sent_key(const Exchange& exchange, const Block& block) const {
    return {exchange.group, exchange.device, block.source, block.bytes, places_.rank_of(block.peer)};
  }
  Key received_key(const Exchange& exchange, const Block& block) const {
    return {exchange.group, block.peer, block.source, block.bytes, places_.rank};
  }
  bool is_shared(const Block& block) const {
    return block.source >= 0 && places_.is_remote(places_.rank_of(block.peer));
  }

  // The device in whose stream a block is sent: the first of the devices that receive it, if it is shared.
  int first_receiver(const Exchange& exchange, const Block& block) const {
    return is_shared(block) ? receivers_.at(sent_key(exchange, block)) : block.peer;
  }

  // Returns the member of this rank whose stream contains a block that `member` receives.
  int bringer(int member, const Block& block) const {
    return is_shared(block) ? bringers_.at(received_key(exchanges_[static_cast<size_t>(member)], block)) : member;
  }

  void add(int member, int rank, const Block& block, std::vector<Stream>& streams) const {
    auto stream = std::ranges::find(streams, block.peer, &Stream::device);
    if (stream == streams.end()) {
      streams.push_back({.member = member, .device = block.peer, .rank = rank, .remote = places_.is_remote(rank)});
      stream = std::prev(streams.end());
    }
    stream->cursor.blocks.push_back(block);
  }

  void divide(int member, DividedExchange& divided) const {
    const Exchange& exchange = exchanges_[static_cast<size_t>(member)];
    divided.local = {.group = exchange.group, .device = exchange.device};
    for (const Block& block : exchange.sends) {
      const int rank = places_.rank_of(block.peer);
      if (rank == places_.rank) {
        divided.local.sends.push_back(block);
      } else if (first_receiver(exchange, block) == block.peer) {
        add(member, rank, block, divided.sends);
      }
    }
    for (const Block& block : exchange.receives) {
      const int rank = places_.rank_of(block.peer);
      if (rank == places_.rank) {
        divided.local.receives.push_back(block);
      } else if (bringer(member, block) == member) {
        add(member, rank, block, divided.receives);
      }
    }
  }

  // Blocks that `member` receives in the streams of other members: adds their copies to these streams.
  void share(int member, std::vector<DividedExchange>& divided) const {
    for (const Block& block : exchanges_[static_cast<size_t>(member)].receives) {
      const int from = places_.rank_of(block.peer) == places_.rank ? member : bringer(member, block);
      if (from == member) {
        continue;
      }
      Stream& stream = divided[static_cast<size_t>(from)].stream_from(block.peer);
      const auto at =
          std::ranges::find_if(stream.cursor.blocks, [&](const Block& one) { return same_block(one, block); });
      XRUN_CHECK(at != stream.cursor.blocks.end(), "a shared block is not in the stream that brings it");
      stream.copies.resize(stream.cursor.blocks.size());
      stream.copies[static_cast<size_t>(at - stream.cursor.blocks.begin())].push_back(block);
      if (std::ranges::find(stream.sharers, member) == stream.sharers.end()) {
        DividedExchange& own = divided[static_cast<size_t>(member)];
        stream.sharers.push_back(member);
        ++own.brought;
        if (std::ranges::find(own.feeders, from) == own.feeders.end()) {
          own.feeders.push_back(from);
        }
      }
    }
  }

  std::span<const Exchange> exchanges_;
  const RankPlaces& places_;
  std::map<Key, int> receivers_;  // the first of the devices to which a block is sent
  std::map<Key, int> bringers_;   // the member on the first of the devices that receive a block
};

}  // namespace

Stream& DividedExchange::stream_from(int device) {
  const auto stream = std::ranges::find(receives, device, &Stream::device);
  XRUN_CHECK(stream != receives.end(), "a message from a device that sends nothing in its exchange");
  return *stream;
}

bool DividedExchange::is_ahead(const Stream& stream, Bytes lead) const {
  const auto holds_back = [behind = stream.cursor.passed - lead](const Stream& other) {
    return other.remote && other.cursor.passed < behind && !other.cursor.over();
  };
  return stream.remote && (std::ranges::any_of(sends, holds_back) || std::ranges::any_of(receives, holds_back));
}

std::vector<DividedExchange> divide_exchanges(std::span<const Exchange> exchanges, const RankPlaces& places) {
  return Divider(exchanges, places).run();
}

}  // namespace xrun::runtime
