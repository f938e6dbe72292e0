// TCP connections between every two ranks of a run, beside the messages that they send one another.
#pragma once

#include <vector>

#include "runtime/comm/peers.h"
#include "runtime/comm/ranks/tcp.h"

namespace xrun::runtime {

// All ranks call it, and each gets a connection to every other one, by rank; that of its own is not open. Each listens
// on a port for as long as the call takes; a caller that is no rank of this run is turned away. `patience`: for those
// that are to call. Errors: the same on all ranks: those of `peers`; kWorld XG0841, two ranks cannot reach each other.
Result<std::vector<Socket>> meet_ranks(Peers& peers, Seconds patience);

}  // namespace xrun::runtime
