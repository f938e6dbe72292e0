// Which block that is sent is which block that is received, where all members of an exchange are of one process.
#pragma once

#include <span>
#include <vector>

#include "runtime/comm/communicator.h"

namespace xrun::runtime {

// A block that is received, and where it is sent from.
struct BlockCopy {
  int sender = 0;  // exchange
  Block from;
  Block to;
};

// What an exchange receives, each block with its other half among the exchanges of its group.
std::vector<BlockCopy> copies_to(std::span<const Exchange> exchanges, const Exchange& receiver);

}  // namespace xrun::runtime
