#include "runtime/cli/model/measured_sample.h"

#include <algorithm>
#include <fmt/format.h>

#include "runtime/data/sample_time.h"

namespace xrun::cli {
namespace {

std::string to_line(const CallSpec& call) { return fmt::format("{}({})", call.name, to_text(call.args)); }

// The key is one line: names in a file may contain line breaks.
std::string key_of(const Module& module, const SourceSpec& source, int64_t samples) {
  std::string key = fmt::format("sample of {} in {}: {}", samples, source.directory, to_line(source.reader));
  for (const DataBinding& binding : module.data.bindings) {
    key += fmt::format("; {} = {}", binding.target, binding.field);
    for (const CallSpec& stage : binding.stages) {
      key += " -> " + to_line(stage);
    }
  }
  std::ranges::replace(key, '\n', ' ');
  return key;
}

}  // namespace

Seconds measured_sample(const Module& module, ops::KernelTimes& times) {
  const auto source = std::ranges::find(module.data.sources, "train", &SourceSpec::name);
  if (source == module.data.sources.end()) {
    return 0;
  }
  const auto header = runtime::SampleRows::open_header(module.data, "train", module.graph);
  if (!header.ok()) {
    return 0;
  }
  const std::string key = key_of(module, *source, header.value()->samples());
  if (const auto known = times.find(key); known != times.end()) {
    known->second.used = true;
    return known->second.seconds;
  }
  const auto rows = runtime::SampleRows::open(module.data, "train", module.graph);
  const Seconds time = rows.ok() ? runtime::time_of_sample(*rows.value(), module.graph, module.train.seed) : 0;
  if (time > 0) {
    times.emplace(key, ops::KernelTime{.seconds = time, .used = true});
  }
  return time;
}

}  // namespace xrun::cli
