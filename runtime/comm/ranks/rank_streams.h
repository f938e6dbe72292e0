// The blocks of the exchanges of a rank, as streams between its devices and those of other ranks.
//
// A block that a device sends to several devices of a rank on another host goes there once, in the stream to the first
// of them; that rank writes it to the places of all. Ranks of one host copy from each other's memory, so there each
// device has its own.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/ranks/block_cursor.h"

namespace xrun::runtime {

// What one member sends to, or receives from, a device of another rank in an exchange, one block after the other.
struct Stream {
  int member = 0;
  int device = 0;       // the other one
  int rank = 0;         // of it
  bool remote = false;  // that rank is on another host
  bool direct = false;  // of what is sent: the other rank reads it here
  BlockCursor cursor;
  // Of what is received, for each block of `cursor` (empty: of none): the places of other devices of this rank that
  // receive the same one. `sharers`: the members of these devices.
  std::vector<std::vector<Block>> copies;
  std::vector<int> sharers;
};

// One exchange of a device of this rank.
struct DividedExchange {
  Exchange local;                   // with devices of this rank
  std::vector<Stream> sends;        // by device
  std::vector<Stream> receives;     // by device
  std::vector<int> feeders;         // members whose streams bring blocks of this one
  size_t brought = 0;               // such streams
  Stream& stream_from(int device);  // of `receives`
  // Whether one of `sends` has passed more than `lead` bytes more than another remote stream of this exchange that is
  // under way, sent or received. If streams that are ahead wait, all links of an exchange between all hosts stay busy
  // to its end, and no host has to keep much of what it cannot place yet. The stream that has passed least on any rank
  // never waits.
  bool is_ahead(const Stream& stream, Bytes lead) const;
};

struct RankPlaces {
  int rank = 0;                        // the own one
  std::function<int(int)> rank_of;     // of a device
  std::function<bool(int)> is_remote;  // whether a rank is on another host
};

// Divides all exchanges of this rank; members have the numbers of their exchanges.
std::vector<DividedExchange> divide_exchanges(std::span<const Exchange> exchanges, const RankPlaces& places);

}  // namespace xrun::runtime
