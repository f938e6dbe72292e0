// Tests: tests/planner/verify/contents_test.cpp
#include "planner/verify/contents.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

#include "graph/graph.h"

namespace xrun::planner {
namespace {

bool continues(const Content& content, Bytes origin, const Content& next, Bytes next_origin) {
  return content == next && origin == next_origin;
}

std::string describe_kept(const Content& content, const Graph& graph) {
  const char* const age = content.fresh ? "new" : "old";
  const auto param = [&] { return graph.param(ParamId(content.id)).name; };
  switch (content.purpose) {
    case Purpose::kPrepared:
      return fmt::format("the {} prepared weight of `{}`", age, graph.node(NodeId(content.id)).path);
    case Purpose::kWeight:
      return fmt::format("the {} weight `{}`", age, param());
    case Purpose::kState:
      return fmt::format("the {} state `{}`", age, param());
    case Purpose::kOptimizer:
    case Purpose::kResidual:
      return fmt::format("the {} state {} of the optimizer for `{}`", age, content.last, param());
    case Purpose::kHeadSelection:
      return fmt::format("the active classes of {} step of shard {}", content.fresh ? "this" : "the last",
                         content.first);
    case Purpose::kHeadMass:
      return fmt::format("the {} softmax mass of shard {}", age, content.first);
    case Purpose::kHeadLists:
      return "the lists of nearest classes";
    default:
      return fmt::format("the {} class rows or states of `{}` of shard {}", age, param(), content.first);
  }
}

}  // namespace

std::string describe(const Content& content, const Program& program, const Graph& graph) {
  const auto value = [&] {
    const Value& one = graph.value(ValueId(content.id));
    return one.producer.valid() && graph.node(one.producer).outputs.size() > 1
               ? fmt::format("result {} of `{}`", one.output, one.name)
               : fmt::format("`{}`", one.name);
  };
  const auto param = [&] { return graph.param(ParamId(content.id)).name; };
  const auto head = [&] {
    return graph.heads[static_cast<size_t>(program.heads[static_cast<size_t>(content.id)].head)].name;
  };
  switch (content.what) {
    case What::kNothing:
      return "nothing of this step";
    case What::kZero:
      return "zeros";
    case What::kValue:
      return fmt::format("the rows of {}", value());
    case What::kBest:
      return fmt::format("the best {} of {}", content.first == 0 ? "classes" : "logits", value());
    case What::kPartial:
      return content.pass < 0 ? fmt::format("the complete partial {} of the gradient of `{}`", content.first, param())
                              : fmt::format("partial {} of the gradient of `{}` up to micro-batch {}", content.first,
                                            param(), content.pass);
    case What::kSum:
      return content.last - content.first == 1
                 ? fmt::format("the gradient of `{}` of replica {}", param(), content.first)
                 : fmt::format("the gradient of `{}` summed over replicas {} to {}", param(), content.first,
                               content.last - 1);
    case What::kTiedSum:
      return fmt::format("the gradient of `{}` summed over all of its readers", param());
    case What::kPairs:
      return fmt::format("the pairs of `{}`", param());
    case What::kNorms:
      return "the sums of squares of the gradients";
    case What::kStatistics:
      return fmt::format("the statistics of all shards of `{}` in pass {}", head(), content.pass);
    case What::kSoftmax:
      return fmt::format("the softmax of `{}`", head());
    case What::kLogits:
      return fmt::format("the kept logits of shard {} of `{}` in pass {}", content.first, head(), content.pass);
    case What::kDx:
      return fmt::format("the dX partials of shard {} of `{}` in pass {}", content.first, head(), content.pass);
    case What::kDxSum:
      return fmt::format("the dX sums of shards {} to {} of `{}` for micro-batch {}", content.first, content.last - 1,
                         head(), content.pass);
    case What::kKept:
      return describe_kept(content, graph);
  }
  return "";
}

// Returns the first piece that ends after `begin`.
Contents::Pieces::const_iterator Contents::first_after(Bytes begin) const {
  auto at = pieces_.upper_bound(begin);
  if (at != pieces_.begin() && std::prev(at)->second.end > begin) {
    --at;
  }
  return at;
}

// Splits the piece, if there is one, that has bytes both before and after `at`.
void Contents::split(Bytes at) {
  const auto after = pieces_.lower_bound(at);
  if (after == pieces_.begin()) {
    return;
  }
  const auto before = std::prev(after);
  if (before->second.end > at) {
    pieces_.emplace_hint(
        after, at, Stored{before->second.end, before->second.content, before->second.origin + at - before->first});
    before->second.end = at;
  }
}

void Contents::set(Bytes begin, Bytes end, const Content& content, Bytes origin) {
  if (begin >= end) {
    return;
  }
  split(begin);
  split(end);
  auto at = pieces_.erase(pieces_.lower_bound(begin), pieces_.lower_bound(end));
  if (content.what == What::kNothing) {
    return;
  }
  if (content.what == What::kZero) {
    origin = begin;  // all zeros are alike, so that adjacent ones are one piece
  }
  Bytes last = end;
  if (at != pieces_.end() && at->first == end &&
      continues(content, origin + end - begin, at->second.content, at->second.origin)) {
    last = at->second.end;
    at = pieces_.erase(at);
  }
  if (at != pieces_.begin()) {
    const auto before = std::prev(at);
    if (before->second.end == begin &&
        continues(before->second.content, before->second.origin + begin - before->first, content, origin)) {
      before->second.end = last;
      return;
    }
  }
  pieces_.emplace_hint(at, begin, Stored{last, content, origin});
}

std::optional<Contents::Piece> Contents::lacks(Bytes begin, Bytes end, const Content& content, Bytes origin) const {
  auto at = first_after(begin);
  while (begin < end) {
    if (at == pieces_.end() || at->first > begin) {
      const Bytes to = at == pieces_.end() ? end : std::min(end, at->first);
      return Piece{begin, to, {}, 0};
    }
    const Bytes here = at->second.origin + begin - at->first;
    const Bytes to = std::min(end, at->second.end);
    if (at->second.content != content || (content.what != What::kZero && here != origin)) {
      return Piece{begin, to, at->second.content, here};
    }
    origin += to - begin;
    begin = to;
    ++at;
  }
  return std::nullopt;
}

}  // namespace xrun::planner
