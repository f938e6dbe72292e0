// The blocks of the exchanges of a rank, as streams between its devices and those of other ranks.
//
// A block that a device sends to several devices of a rank on another host is sent there once, in the stream to the
// first of them; that rank copies it to the places of all. Ranks of one host copy from each other's memory, so there
// each device has its own stream.
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
  bool direct = false;  // for a sent stream: the other rank copies it from this rank's memory
  BlockCursor cursor;
  // For a received stream, for each block of `cursor`: the places of other devices of this rank that receive the same
  // block; empty: no copies. `sharers`: the members of these devices.
  std::vector<std::vector<Block>> copies;
  std::vector<int> sharers;
};

// One exchange of a device of this rank.
struct DividedExchange {
  Exchange local;                   // exchange with devices of this rank
  std::vector<Stream> sends;        // one for each device
  std::vector<Stream> receives;     // one for each device
  std::vector<int> feeders;         // members whose streams contain blocks of this one
  size_t brought = 0;               // number of such streams
  Stream& stream_from(int device);  // searches `receives`
  // Whether one of `sends` has transferred over `lead` bytes more than another remote stream of this exchange that is
  // under way, sent or received. If streams that are ahead wait, all links between all hosts stay busy until the
  // exchange ends, and no host has to keep much data that it cannot place yet. The stream with the fewest bytes on any
  // rank never waits.
  bool is_ahead(const Stream& stream, Bytes lead) const;
};

struct RankPlaces {
  int rank = 0;                        // the own rank
  std::function<int(int)> rank_of;     // the rank of a device
  std::function<bool(int)> is_remote;  // whether a rank is on another host
};

// Divides all exchanges of this rank; members have the numbers of their exchanges.
std::vector<DividedExchange> divide_exchanges(std::span<const Exchange> exchanges, const RankPlaces& places);

}  // namespace xrun::runtime
