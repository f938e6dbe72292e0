// The gradient of a head's feature: dX partials of all shards go to the devices that made the features, and are summed
// there, for one micro-batch of every replica.
#include <algorithm>
#include <set>

#include "planner/emit/emitter.h"

namespace xrun::planner {

// The rows of a replica's micro-batch in the dX partials of a shard.
HeadGradientRows Emitter::dx_rows(size_t head, const HeadShard& shard, int replica, int index) const {
  const HeadPlan& plan = program_.heads[head];
  const int place = plan.rows == program_.batch ? global_micro_batch(replica, index) : replica;
  const int64_t rows = program_.micro_batch_rows();
  return head_gradient_rows(head_shape(program_, graph_, plan, shard, plan.rows), rows * place, rows * (place + 1));
}

// Sends dX partials from every device with shards to every other device that made features, if there is another one.
void Emitter::emit_dx_terms(size_t head, int pass, int index) {
  const HeadPlan& plan = program_.heads[head];
  const int maker = flow_.maker[static_cast<size_t>(plan.feature.index)];
  const auto holders = shard_devices(head);
  std::set<int> devices(holders.begin(), holders.end());
  devices.insert(stage(maker).devices.begin(), stage(maker).devices.end());
  if (devices.size() == 1) {
    return;
  }
  for (const int device : devices) {
    Instruction exchange{
        .kind = Kind::kReduceScatter,
        .device = device,
        .stream = comm_stream(),
        .stage = maker,
        .replica = -1,
        .head = static_cast<int>(head),
        .head_pass = pass,
        .gather = index,
        .group = groups_,
        .bytes = type(plan.feature_grad).bytes(program_.micro_batch_rows(), program_.norm_rows) * program_.replicas,
        .span = graph_.node(plan.node).span};
    for (int replica = 0; replica < program_.replicas; ++replica) {
      if (device_of(maker, replica) != device) {
        add_dx_sent(head, replica, exchange);
      } else {
        exchange.replica = replica;
        add_dx_received(head, replica, exchange);
      }
    }
    add(std::move(exchange));
  }
  ++groups_;
}

void Emitter::add_dx_sent(size_t head, int replica, Instruction& exchange) const {
  const HeadPlan& plan = program_.heads[head];
  const std::vector<ShardPart> parts = shard_parts(program_, graph_, plan);
  for (const HeadShard& shard : plan.shards) {
    if (shard.device != exchange.device || shard.row_begin >= shard.row_end) {
      continue;
    }
    const HeadGradientRows rows = dx_rows(head, shard, replica, exchange.gather);
    for (int64_t subtree = 0; subtree < rows.subtrees; ++subtree) {
      exchange.operands.push_back(
          {.role = Role::kSent,
           .access = Access::kRead,
           .buffer = partials_.at({head, shard.device, exchange.head_pass}),
           .index = device_of(exchange.stage, replica),
           .offset = parts[static_cast<size_t>(shard.shard)].gradient_offset + rows.begin + rows.step * subtree,
           .bytes = rows.bytes});
    }
  }
}

void Emitter::add_dx_received(size_t head, int replica, Instruction& exchange) {
  const HeadPlan& plan = program_.heads[head];
  Buffer terms{.device = exchange.device,
               .purpose = Purpose::kTerms,
               .micro_batch = global_micro_batch(replica, exchange.gather),
               .replica = replica,
               .head = static_cast<int32_t>(head),
               .head_pass = exchange.head_pass,
               .name = graph_.heads[static_cast<size_t>(plan.head)].name + ".dx.terms"};
  std::vector<Operand> received;
  for (const HeadShard& shard : plan.shards) {
    if (shard.device == exchange.device || shard.row_begin >= shard.row_end) {
      continue;
    }
    const HeadGradientRows rows = dx_rows(head, shard, replica, exchange.gather);
    for (int64_t subtree = 0; subtree < rows.subtrees; ++subtree) {
      received.push_back({.role = Role::kReceived,
                          .access = Access::kWrite,
                          .index = shard.device,
                          .offset = terms.bytes,
                          .bytes = rows.bytes});
      terms.bytes += rows.bytes;
    }
  }
  if (received.empty()) {
    return;
  }
  const BufferId id = add_buffer(std::move(terms));
  terms_[{head, exchange.device, global_micro_batch(replica, exchange.gather)}] = id;
  for (Operand& operand : received) {
    operand.buffer = id;
    exchange.operands.push_back(operand);
  }
}

void Emitter::emit_reduce_dx(size_t head, int pass, int index) {
  const HeadPlan& plan = program_.heads[head];
  const int maker = flow_.maker[static_cast<size_t>(plan.feature.index)];
  const std::vector<ShardPart> parts = shard_parts(program_, graph_, plan);
  for (int replica = 0; replica < program_.replicas; ++replica) {
    const int device = device_of(maker, replica);
    const int micro_batch = global_micro_batch(replica, index);
    Instruction reduce{.kind = Kind::kReduceDx,
                       .device = device,
                       .stage = maker,
                       .replica = replica,
                       .head = static_cast<int>(head),
                       .head_pass = pass,
                       .gather = index,
                       .span = graph_.node(plan.node).span};
    reduce.operands.push_back(micro_batch_operand(Role::kFeature, Access::kRead,
                                                  place(plan.feature, device, micro_batch), plan.feature, micro_batch));
    Bytes received = 0;
    for (const HeadShard& shard : plan.shards) {
      if (shard.row_begin >= shard.row_end) {
        continue;
      }
      const HeadGradientRows rows = dx_rows(head, shard, replica, index);
      Operand part{.role = Role::kDx, .access = Access::kRead, .index = shard.shard, .bytes = rows.bytes};
      if (shard.device == device) {
        part.buffer = partials_.at({head, device, pass});
        part.offset = parts[static_cast<size_t>(shard.shard)].gradient_offset + rows.begin;
        part.step = rows.step;
      } else {
        part.buffer = terms_.at({head, device, micro_batch});
        part.offset = received;
        part.step = rows.bytes;
        received += rows.bytes * rows.subtrees;
      }
      reduce.operands.push_back(part);
    }
    const BufferId out = add_activation(plan.feature_grad, device, replica, micro_batch);
    reduce.operands.push_back(
        micro_batch_operand(Role::kFeatureGradient, Access::kWrite, out, plan.feature_grad, micro_batch));
    add(std::move(reduce));
  }
}

}  // namespace xrun::planner
