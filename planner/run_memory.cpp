#include "planner/run_memory.h"

#include <algorithm>

#include "graph/reader_def.h"

namespace xrun::planner {
namespace {

Bytes arenas_of(const Program& program) {
  Bytes sum = 0;
  for (const Arena& arena : program.arenas) {
    sum += arena.bytes;
  }
  return sum;
}

bool is_measured(const TrainSpec& train, const std::string& source) {
  const std::vector<MetricSpec>& metrics = train.measured();
  return std::any_of(metrics.begin(), metrics.end(), [&](const MetricSpec& metric) { return metric.reads(source); });
}

}  // namespace

RunMemory run_memory(const Module& module, const Program& training, const Program& inference) {
  RunMemory memory{.training = arenas_of(training)};
  for (const SourceSpec& source : module.data.sources) {
    const bool measured = is_measured(module.train, source.name);
    if (measured) {
      memory.evaluation = arenas_of(inference);
    }
    if (!measured && source.name != "train") {
      continue;  // the run does not open it
    }
    const ReaderDef* reader = data_registry().find_reader(source.reader.name);
    if (reader != nullptr && reader->held != nullptr) {
      memory.readers += reader->held(source.reader.args);
    } else {
      memory.uncounted.push_back(source.name);
    }
  }
  return memory;
}

}  // namespace xrun::planner
