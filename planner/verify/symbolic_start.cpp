// The contents of buffers at the start of the step, and what they must hold at its end.
// Tests: tests/planner/verify/symbolic_run_test.cpp
#include <algorithm>

#include "graph/layouts/verification_spec.h"
#include "planner/verify/symbolic_run.h"

namespace xrun::planner {

// Returns the symbol of a persistent buffer at the start of the step. Replicas have equal weights, and all readers of a
// tied weight have one weight, so their buffers have one symbol.
Content SymbolicRun::kept(const Buffer& buffer) const {
  Content content{.what = What::kKept, .purpose = buffer.purpose, .id = buffer.param.index};
  switch (buffer.purpose) {
    case Purpose::kWeight:
      content.id = weight_of(buffer.param).index;
      break;
    case Purpose::kOptimizer:
      content.id = weight_of(buffer.param).index;
      content.last = buffer.state;
      break;
    case Purpose::kResidual:
      content.first = owners_.sender_of(buffer.replica);
      content.last = buffer.state;
      break;
    case Purpose::kPrepared:
      content.id = buffer.node.index;
      content.last = buffer.node_input;
      break;
    case Purpose::kHeadLists:
    case Purpose::kHeadSnapshot:
    case Purpose::kHeadBuild:
      content.id = buffer.head;
      break;
    case Purpose::kHeadSelection:
    case Purpose::kHeadMass:
      content.id = buffer.head;
      content.first = buffer.shard;
      break;
    case Purpose::kHeadWeight:
    case Purpose::kHeadOptimizer:
    case Purpose::kHeadPrepared:
    case Purpose::kHeadScale:
    case Purpose::kHeadLast:
      content.first = buffer.shard;
      content.last = buffer.state;
      break;
    default:
      break;
  }
  return content;
}

// Whether the step must make new contents of a persistent buffer.
bool SymbolicRun::renews(const Buffer& buffer) const {
  if (!program_.training) {
    return false;
  }
  switch (buffer.purpose) {
    case Purpose::kWeight:
    case Purpose::kOptimizer:
    case Purpose::kPrepared:
      return trained_.contains(weight_of(buffer.param));
    case Purpose::kState:
      return folded_.contains(buffer.param);
    case Purpose::kResidual:
    case Purpose::kHeadSelection:
    case Purpose::kHeadMass:
      return true;
    case Purpose::kHeadWeight:
    case Purpose::kHeadOptimizer:
    case Purpose::kHeadPrepared:
    case Purpose::kHeadScale:
    case Purpose::kHeadLast:
      return updates(program_.heads[static_cast<size_t>(buffer.head)]);
    default:
      return false;
  }
}

void SymbolicRun::start() {
  for (const Buffer& buffer : program_.buffers) {
    if (buffer.purpose == Purpose::kPrepared) {
      prepared_.insert({buffer.node.index, buffer.node_input, buffer.replica});
    }
    if (!buffer.persistent) {
      continue;
    }
    if (buffer.purpose != Purpose::kInput) {
      put(buffer.id, 0, buffer.bytes, kept(buffer), 0);
    } else if (buffer.ring == 0 && std::ranges::none_of(program_.heads, [&](const HeadPlan& head) {
                 return head.feature_grad == buffer.value;  // the head makes this input of the backward graph
               })) {
      put(buffer.id, 0, bytes_of(buffer.value, program_.batch), value_of(buffer.value), 0);
    }
  }
}

Status SymbolicRun::check_end() {
  one_ = nullptr;
  for (const Buffer& buffer : program_.buffers) {
    if (buffer.persistent && buffer.purpose != Purpose::kInput) {
      Content content = kept(buffer);
      content.fresh = renews(buffer);
      if (content.fresh && buffer.purpose == Purpose::kState) {
        content.pass = folded_.at(buffer.param).back().index;
      }
      XRUN_TRY(need(buffer.id, 0, buffer.bytes, content, 0));
    }
    XRUN_TRY(check_result(buffer));
  }
  return check_results();
}

// Checks a buffer that is read after the step: a result, or the softmax of inference.
Status SymbolicRun::check_result(const Buffer& buffer) const {
  const bool softmax = buffer.purpose == Purpose::kHeadSoftmax && !program_.training;
  if (buffer.purpose != Purpose::kResult && !softmax) {
    return {};
  }
  if (softmax) {
    Bytes place = 0;
    const HeadPlan& plan = program_.heads[static_cast<size_t>(buffer.head)];
    for (const Segment& part : segments(plan, buffer.head_pass, kHeadSoftmaxRow)) {
      XRUN_TRY(need(buffer.id, place, part.bytes, {.what = What::kSoftmax, .id = buffer.head}, part.origin));
      place += part.bytes;
    }
    return {};
  }
  if (buffer.head < 0) {
    const int64_t rows = buffer.micro_batch >= 0 ? program_.micro_batch_rows()
                         : buffer.replica < 0    ? program_.batch
                                                 : program_.batch / program_.replicas;
    const int64_t number = buffer.micro_batch >= 0 ? buffer.micro_batch : std::max(buffer.replica, 0);
    return need(buffer.id, 0, bytes_of(buffer.value, rows), value_of(buffer.value),
                bytes_of(buffer.value, rows * number));
  }
  if (buffer.head_pass >= 0) {
    return {};  // copied to the rows of the batch
  }
  const HeadPlan& plan = program_.heads[static_cast<size_t>(buffer.head)];
  if (buffer.value != plan.logits) {
    return need(buffer.id, 0, bytes_of(buffer.value, program_.batch), value_of(buffer.value), 0);
  }
  for (const int part : {0, 1}) {
    const Content best{.what = What::kBest, .id = buffer.value.index, .first = part};
    XRUN_TRY(need(buffer.id, part * (buffer.bytes / 2), best_bytes(plan, program_.batch) / 2, best, 0));
  }
  return {};
}

// Checks that all results that the module asks for have buffers: losses, metrics and, in inference, outputs and the
// softmax of all rows of each head.
Status SymbolicRun::check_results() const {
  std::map<ValueId, std::set<int>> made;                // replicas with a result, or -1 for the results of heads
  std::vector<int64_t> rows(program_.heads.size(), 0);  // rows with a softmax; index: head
  for (const Buffer& buffer : program_.buffers) {
    if (buffer.purpose == Purpose::kHeadSoftmax) {
      const auto head = static_cast<size_t>(buffer.head);
      rows[head] += buffer.head_pass >= 0 ? program_.heads[head].rows : program_.batch;
    }
    if (buffer.purpose == Purpose::kResult && buffer.head_pass < 0 && buffer.micro_batch < 0) {
      made[buffer.value].insert(buffer.head >= 0 ? -1 : buffer.replica);
    }
  }
  for (size_t head = 0; head < rows.size() && !program_.training; ++head) {
    if (rows[head] != program_.batch) {
      return wrong("head {} has the softmax of {} rows of {}", head, rows[head], program_.batch);
    }
  }
  std::set<ValueId> wanted;
  for (const LossTerm& term : graph_.loss) {
    wanted.insert(term.rows);
  }
  for (const MetricSpec& metric : module_.train.metrics) {
    if (!compares_samples(graph_, metric) || !program_.training) {
      wanted.insert(metric.value);
    }
  }
  for (const MetricSpec& metric : module_.train.eval) {
    wanted.insert(program_.training ? ValueId() : metric.value);
  }
  for (const NamedValue& output : graph_.outputs) {
    wanted.insert(program_.training ? ValueId() : output.value);
  }
  for (const auto& [value, places] : made) {
    if (!wanted.contains(value) && !places.contains(-1)) {  // results of heads are checked with their buffers
      return wrong("`{}` has a result, which the module does not ask for", graph_.value(value).name);
    }
  }
  for (const ValueId value : wanted) {
    if (!value.valid() || !graph_.value(value).producer.valid()) {
      continue;
    }
    const std::set<int>& places = made[value];
    if (!places.contains(-1) && std::ssize(places) < program_.replicas) {
      return wrong("`{}` has results of {} replicas of {}", graph_.value(value).name, places.size(), program_.replicas);
    }
  }
  return {};
}

}  // namespace xrun::planner
