#include "runtime/comm/block_copies.h"

#include <algorithm>
#include <map>

#include "graph/base/check.h"

namespace xrun::runtime {

std::vector<BlockCopy> copies_to(std::span<const Exchange> exchanges, const Exchange& receiver) {
  std::vector<BlockCopy> copies;
  std::map<int, size_t> next;  // key: sending device; value: its next block to match
  for (const Block& to : receiver.receives) {
    const auto sender = std::ranges::find_if(
        exchanges, [&](const Exchange& one) { return one.group == receiver.group && one.device == to.peer; });
    XRUN_CHECK(sender != exchanges.end(), "a block is received from a device that is not a member of its exchange");
    size_t& at = next[to.peer];
    while (at < sender->sends.size() && sender->sends[at].peer != receiver.device) {
      ++at;
    }
    XRUN_CHECK(at < sender->sends.size() && sender->sends[at].bytes == to.bytes,
               "a block is received that was not sent, or in another size");
    copies.push_back({static_cast<int>(sender - exchanges.begin()), sender->sends[at++], to});
  }
  return copies;
}

}  // namespace xrun::runtime
