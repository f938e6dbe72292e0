// The head of a message between the communicators of two ranks.
#pragma once

#include <cstring>

#include "graph/base/check.h"
#include "graph/base/units.h"
#include "runtime/comm/ranks/network.h"

namespace xrun::runtime {

// Just below the size up to which Open MPI sends a message at once (64 KiB with TCP). For a longer one the receiver has
// to answer first, and on a connection that is busy with long messages in the other direction that answer waits behind
// them, so a slow network would work in one direction at a time.
inline constexpr Bytes kMostBlockBytes = 60 * kKiB;

// Messages to one rank that are queued or under way: as much as a fast network has on its way.
inline constexpr size_t kUnderWay = 16;
// How far a stream between hosts may be ahead of others of its exchange (DividedExchange::is_ahead).
inline constexpr Bytes kMostLead = kUnderWay * kMostBlockBytes;

struct BlockHeader {
  enum Kind : int32_t {
    kBlock,      // bytes of a stream follow
    kBroadcast,  // bytes of a broadcast follow: `group` is its channel, `from` its root
    kAddresses,  // a list of PeerRange follows, in which all of the stream lies
    kTaken,      // the receiver has copied these
  };
  int32_t kind = kBlock;
  int32_t group = 0;
  int32_t from = 0;  // devices
  int32_t to = 0;
};
inline constexpr size_t kHeaders = kNetworkHeader + sizeof(BlockHeader);

// A message with this head and room for `bytes` behind it, at kHeaders.
inline Message make_block_message(Network& network, const BlockHeader& header, size_t bytes) {
  Message message = network.make_message(sizeof(BlockHeader) + bytes);
  std::memcpy(message.data() + kNetworkHeader, &header, sizeof header);
  return message;
}

inline BlockHeader header_of(const Message& message) {
  XRUN_CHECK(message.size() >= kHeaders, "a block without its header");
  BlockHeader header;
  std::memcpy(&header, message.data() + kNetworkHeader, sizeof header);
  return header;
}

}  // namespace xrun::runtime
