// Matches the sent blocks of an exchange with the received ones, if all its members are in one process.
#pragma once

#include <span>
#include <vector>

#include "runtime/comm/communicator.h"

namespace xrun::runtime {

// A received block, and the sent block that is copied to it.
struct BlockCopy {
  int sender = 0;  // index in `exchanges` of the sending member
  Block from;
  Block to;
};

// Returns all blocks that `receiver` receives, each with the block that a member of the same group sends to it.
std::vector<BlockCopy> copies_to(std::span<const Exchange> exchanges, const Exchange& receiver);

}  // namespace xrun::runtime
