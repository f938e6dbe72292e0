#include "runtime/data/sample_time.h"

#include <algorithm>

#include "graph/os/processor_time.h"
#include "runtime/data/order/sample_order.h"

namespace xrun::runtime {
namespace {

constexpr int64_t kFirst = 4;  // samples that are not counted
constexpr int64_t kCounted = 512;
constexpr Seconds kEnough = 0.3;

}  // namespace

Seconds time_of_sample(const SampleRows& rows, const Graph& graph, uint64_t seed) {
  if (rows.samples() == 0) {
    return 0;
  }
  std::vector<std::vector<std::byte>> memory;
  BatchView row;
  for (const NamedValue& input : graph.inputs) {
    memory.emplace_back(static_cast<size_t>(graph.value(input.value).type.bytes(1, 1)));
    row.inputs.push_back(memory.back().data());
  }
  const SampleSequence order(SampleOrder::kShuffled, rows.samples(), seed);
  AugmentScratch scratch;
  int64_t counted = 0;
  Seconds spent = 0;
  for (int64_t i = 0; i < kFirst + kCounted && spent < kEnough; ++i) {
    const SamplePlace place = order.at(i);
    const DrawnSample sample{place.sample,
                             {seed, static_cast<uint64_t>(place.pass), static_cast<uint64_t>(place.sample), true}};
    const Seconds begin = thread_processor_time();
    bool good = rows.fill(sample.number, sample.key, scratch, row, 0).ok();
    // A stage that mixes samples would take another sample as the partner, which costs as much to read.
    good = good && (!rows.mixes() || rows.mix(sample, sample, scratch, row, 0).ok());
    if (good && (i >= kFirst || rows.samples() <= kFirst)) {
      spent += thread_processor_time() - begin;
      ++counted;
    }
  }
  return counted > 0 ? spent / static_cast<double>(counted) : 0;
}

}  // namespace xrun::runtime
