// Checks the blocks of exchanges: the i-th block that member A sends to device B must match the i-th block that member
// B receives from device A. An executor waits until it has received all bytes of a block, so it would wait forever for
// a block that is not sent.
#include <algorithm>
#include <tuple>

#include "planner/verify/verify_parts.h"
#include "planner/verify/verify_program.h"

namespace xrun::planner {
namespace {

struct Block {
  int from = 0;
  int to = 0;
  size_t at = 0;  // index in the operands of the member that has the block
  Bytes bytes = 0;

  auto way() const { return std::tuple(from, to); }
};

// Checks the blocks of the members of one group.
Status check_group(std::span<const Instruction> members) {
  std::vector<Block> sent;
  std::vector<Block> received;
  for (const Instruction& one : members) {
    for (size_t i = 0; i < one.operands.size(); ++i) {
      const Operand& operand = one.operands[i];
      if (operand.role == Role::kSent) {
        sent.push_back({one.device, operand.index, i, operand.bytes});
      } else if (operand.role == Role::kReceived) {
        received.push_back({operand.index, one.device, i, operand.bytes});
      } else {
        return wrong("instruction {} ({}) has an operand {} ({}) that is not a block", one.id.index, name_of(one.kind),
                     i, name_of(operand.role));
      }
    }
  }
  const auto in_order = [](const Block& block) { return std::tuple(block.from, block.to, block.at); };
  std::ranges::sort(sent, {}, in_order);
  std::ranges::sort(received, {}, in_order);
  const size_t both = std::min(sent.size(), received.size());
  size_t same = 0;
  while (same < both && sent[same].way() == received[same].way() && sent[same].bytes == received[same].bytes) {
    ++same;
  }
  if (same == sent.size() && same == received.size()) {
    return {};
  }
  const bool has_sent = same < sent.size() && (same == received.size() || sent[same].way() <= received[same].way());
  const Block& odd = has_sent ? sent[same] : received[same];
  const auto [from, to] = odd.way();
  const auto blocks_of = [&](const std::vector<Block>& list) {
    return std::ranges::count_if(list, [&](const Block& block) { return block.way() == odd.way(); });
  };
  const auto bytes_of = [&](const std::vector<Block>& list) {
    Bytes sum = 0;
    for (const Block& block : list) {
      sum += block.way() == odd.way() ? block.bytes : 0;
    }
    return sum;
  };
  return wrong("in group {} device {} sends {} blocks ({} bytes) to device {}, which receives {} ({} bytes)",
               members.front().group, from, blocks_of(sent), bytes_of(sent), to, blocks_of(received),
               bytes_of(received));
}

}  // namespace

Status verify_blocks(const Program& program) {
  const std::span<const Instruction> all = program.instructions;
  for (size_t begin = 0; begin < all.size();) {
    size_t end = begin + 1;
    while (all[begin].group >= 0 && end < all.size() && all[end].group == all[begin].group) {
      ++end;
    }
    if (all[begin].group >= 0) {
      XRUN_TRY(check_group(all.subspan(begin, end - begin)));
    }
    begin = end;
  }
  return {};
}

}  // namespace xrun::planner
