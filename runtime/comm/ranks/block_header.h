// The header of a message between the communicators of two ranks.
#pragma once

#include <cstring>

#include "graph/base/check.h"
#include "graph/base/units.h"
#include "runtime/comm/ranks/network.h"

namespace xrun::runtime {

// The largest number of bytes of a block in one message. It is just below the size up to which Open MPI sends a message
// at once (64 KiB with TCP). A longer message is sent only after an answer of the receiver. If the connection is busy
// with long messages in the other direction, that answer is delayed by them, so a slow network would transfer data in
// only one direction at a time.
inline constexpr Bytes kMostBlockBytes = 60 * kKiB;

// The largest number of messages to one rank that are queued or under way: enough for the full rate of a fast network.
inline constexpr size_t kUnderWay = 16;
// The number of bytes by which a stream to another host may be ahead of the other streams of its exchange
// (DividedExchange::is_ahead).
inline constexpr Bytes kMostLead = kUnderWay * kMostBlockBytes;

struct BlockHeader {
  enum Kind : int32_t {
    kBlock,      // bytes of a stream follow
    kBroadcast,  // bytes of a broadcast follow: `group` is its channel, `from` its root
    kAddresses,  // a list of PeerRange follows, which covers the whole stream for a direct copy
    kTaken,      // the receiver has copied the stream directly from memory
  };
  int32_t kind = kBlock;
  int32_t group = 0;
  int32_t from = 0;  // index of the sending device
  int32_t to = 0;    // index of the receiving device
};
// The offset of the content in a message.
inline constexpr size_t kHeaders = kNetworkHeader + sizeof(BlockHeader);

// Makes a message with this header, and with space for `bytes` bytes of content at offset kHeaders.
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
