// Connects every two ranks of a run by TCP, in addition to the messages of MPI.
#pragma once

#include <vector>

#include "runtime/comm/peers.h"
#include "runtime/comm/ranks/tcp.h"

namespace xrun::runtime {

// Returns a connection to every other rank; index: rank; the entry of this rank itself is not open. Each rank listens
// on a port during the call, and rejects connections from outside the run. Collective. Errors, equal on all ranks:
// those of `peers`; kWorld XG0841, two ranks cannot reach each other.
//   patience  how long each rank waits for the others to connect
Result<std::vector<Socket>> meet_ranks(Peers& peers, Seconds patience);

}  // namespace xrun::runtime
