// The facts of a setting that do not depend on its cuts: the times of its passes, and its heads.
#include <algorithm>

#include "planner/search/heads.h"
#include "planner/search/search.h"

namespace xrun::planner {
namespace {

int64_t blocks_of_micro_batch(const SearchInput& input, const Setting& setting) {
  return input.module.train.batch / setting.micro_batches / input.module.train.norm_rows;
}

// Returns the number of gradient partials to which the row blocks of one micro-batch add.
int64_t meeting_partials(const SearchInput& input, const Setting& setting, int partials) {
  return input.deterministic ? std::max(1, partials / setting.micro_batches) : partials / setting.replicas;
}

bool one_pass(const Module& module, const Setting& setting) {
  if (setting.pipeline == PipelineKind::kOneFOneB) {
    return false;
  }
  return std::none_of(module.schedule.shards.begin(), module.schedule.shards.end(),
                      [](const ShardHint& hint) { return hint.granularity == "micro_batch"; });
}

}  // namespace

PassFactors pass_factors(const SearchInput& input, const Setting& setting) {
  const int64_t blocks = blocks_of_micro_batch(input, setting);
  const int64_t all = input.module.train.batch / input.module.train.norm_rows;
  const int partials = partials_of(setting, input.deterministic, all, input.machine);
  const int workers = input.machine.threads_of(0);
  return {.blocks = blocks,
          .forward = input.cost.forward_pass(1, blocks, workers),
          .backward = input.cost.backward_pass(1, blocks, meeting_partials(input, setting, partials), workers),
          .partials = partials / setting.replicas};
}

int64_t rows_of_head_pass(const SearchInput& input, const Setting& setting) {
  const int64_t batch = input.module.train.batch;
  return one_pass(input.module, setting) ? batch : batch * setting.replicas / setting.micro_batches;
}

Result<std::vector<HeadPlan>> heads_of(const SearchInput& input, const Setting& setting) {
  return plan_heads(input.module, input.chain, input.machine, rows_of_head_pass(input, setting), setting.head_devices);
}

}  // namespace xrun::planner
