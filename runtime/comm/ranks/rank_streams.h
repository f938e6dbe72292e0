// Divides the exchanges of a rank into streams between its devices and devices of other ranks.
//
// If a device sends the same block to several devices of a rank on another host, the block is sent only once, in the
// stream to the first of these devices, and the receiving rank copies it to all of them. Ranks of the same host copy
// from each other's memory, so there the stream of each device contains all of its blocks.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/ranks/block_cursor.h"

namespace xrun::runtime {

// The blocks that one member sends to, or receives from, a device of another rank in an exchange, one after the other.
struct Stream {
  int member = 0;
  int device = 0;       // the device of the other rank
  int rank = 0;         // the rank of that device
  bool remote = false;  // that rank is on another host
  bool direct = false;  // for a sent stream: the other rank copies it from the memory of this rank
  BlockCursor cursor;
  // For a received stream: the destinations on other devices of this rank to which a block must also be copied; index:
  // block of `cursor`; empty: no copies. `sharers`: the members on these other devices.
  std::vector<std::vector<Block>> copies;
  std::vector<int> sharers;
};

// One exchange of a device of this rank.
struct DividedExchange {
  Exchange local;                   // exchange with devices of this rank
  std::vector<Stream> sends;        // one stream for each receiving device
  std::vector<Stream> receives;     // one stream for each sending device
  std::vector<int> feeders;         // other members of this rank that receive blocks for this one in their streams
  size_t brought = 0;               // number of these other members' streams
  Stream& stream_from(int device);  // the stream in `receives` from a device
  // Whether `stream`, one of `sends`, is ahead: it has transferred over `lead` bytes more than another stream of this
  // exchange, sent to or received from another host, that has not ended. Streams that are ahead pause. So all links
  // between hosts stay busy until the exchange ends, and no host has to store much data that arrive early. There is no
  // deadlock: the stream with the fewest bytes on any rank never pauses.
  bool is_ahead(const Stream& stream, Bytes lead) const;
};

struct RankPlaces {
  int rank = 0;                        // number of this rank
  std::function<int(int)> rank_of;     // returns the rank of a device
  std::function<bool(int)> is_remote;  // returns whether a rank is on another host
};

// Divides all exchanges of this rank. The result has an entry for each exchange, in the order of `exchanges`.
std::vector<DividedExchange> divide_exchanges(std::span<const Exchange> exchanges, const RankPlaces& places);

}  // namespace xrun::runtime
