#include "runtime/train/session/shared_results.h"

#include <algorithm>
#include <sstream>

#include "graph/base/check.h"
#include "graph/layouts/head_shape.h"

namespace xrun::runtime {

using planner::Buffer;
using planner::Purpose;

void SharedResults::share(std::span<const ValueId> values) {
  for (const ValueId value : values) {
    if (std::ranges::find(values_, value) == values_.end()) {
      values_.push_back(value);
    }
  }
}

Bytes SharedResults::shared_bytes(const Buffer& buffer, bool mass) const {
  if (buffer.device == planner::kHost) {
    return 0;
  }
  switch (buffer.purpose) {
    case Purpose::kResult:
      return buffer.head_pass < 0 && std::ranges::find(values_, buffer.value) != values_.end() ? buffer.bytes : 0;
    case Purpose::kHeadSelection:
      return static_cast<Bytes>(sizeof(HeadCounts));
    case Purpose::kHeadMass:
      return mass ? buffer.bytes : 0;
    default:
      return 0;
  }
}

// Each rank sends one text: the bytes of its shared buffers, in the order of Program::buffers, which is known to all.
Status SharedResults::exchange(bool mass) {
  std::string mine;
  for (const Buffer& buffer : program_.buffers) {
    const auto bytes = static_cast<size_t>(shared_bytes(buffer, mass));
    if (bytes > 0 && memory_.has(buffer.device)) {
      const size_t at = mine.size();
      mine.resize(at + bytes);
      memory_.read(buffer.id, 0, std::as_writable_bytes(std::span(mine)).subspan(at));
    }
  }
  XRUN_ASSIGN(const auto all, peers_.gather(std::move(mine)));
  std::vector<size_t> read(all.size());
  for (const Buffer& buffer : program_.buffers) {
    const auto bytes = static_cast<size_t>(shared_bytes(buffer, mass));
    if (bytes == 0) {
      continue;
    }
    const auto rank = static_cast<size_t>(program_.rank_of(buffer.device));
    const size_t at = read[rank];
    read[rank] += bytes;
    XRUN_CHECK(read[rank] <= all[rank].size(), "a rank has shared less than its results");
    if (!memory_.has(buffer.device)) {
      const auto text = std::as_bytes(std::span(all[rank])).subspan(at, bytes);
      others_[buffer.id.index].assign(text.begin(), text.end());
    }
  }
  return {};
}

const std::vector<std::byte>* SharedResults::find(planner::BufferId buffer) const {
  const auto at = others_.find(buffer.index);
  return at == others_.end() ? nullptr : &at->second;
}

Result<std::string> gather_digest(Peers& peers, const std::vector<RangeDigest>& mine) {
  std::string text;
  for (const RangeDigest& one : mine) {
    text += std::to_string(one.range) + " " + one.digest + " ";
  }
  XRUN_ASSIGN(const auto texts, peers.gather(std::move(text)));
  std::vector<RangeDigest> all;
  for (const std::string& said : texts) {
    std::istringstream in(said);
    for (RangeDigest one; in >> one.range >> one.digest;) {
      all.push_back(one);
    }
  }
  return digest_of(all);
}

}  // namespace xrun::runtime
