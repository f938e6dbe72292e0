// Matches the sent blocks of an exchange with the received ones, if all its members are in one process.
#pragma once

#include <span>
#include <vector>

#include "runtime/comm/communicator.h"

namespace xrun::runtime {

// A received block and the block that is sent to it.
struct BlockCopy {
  int sender = 0;  // index in `exchanges` of the exchange that sends it
  Block from;
  Block to;
};

// All blocks that `receiver` receives, each with the block that is sent to it by an exchange of the same group.
std::vector<BlockCopy> copies_to(std::span<const Exchange> exchanges, const Exchange& receiver);

}  // namespace xrun::runtime
