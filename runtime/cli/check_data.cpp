#include "runtime/cli/check_data.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/base/utf8.h"
#include "runtime/cli/planned.h"
#include "runtime/data/loader.h"
#include "runtime/data/sample_rows.h"

namespace xrun::cli {
namespace {

// At most this many samples of a source are read, evenly over it.
constexpr int64_t kLooks = 1000;
constexpr std::string_view kTrained = "train";

// `trained`: the classes of the source `train`, once it was opened.
Result<std::string> check_source(const Module& module, const SourceSpec& source, std::vector<std::string>& trained,
                                 bool json) {
  XRUN_ASSIGN(auto rows, runtime::SampleRows::open(module.data, source.name, module.graph));
  if (source.name == kTrained) {
    trained = class_names(rows->reader());
  }
  const auto measured = measured_sources(module);
  if (std::ranges::find(measured, source.name) != measured.end()) {
    XRUN_TRY(check_class_names(*rows, module.data, trained));
  }
  const std::string what = rows->reader().describe();
  const int64_t samples = rows->samples();
  const int64_t stride = std::max<int64_t>(1, samples / kLooks);
  // One row of every input that data fills.
  std::vector<std::vector<std::byte>> memory;
  runtime::BatchView view;
  for (const NamedValue& input : module.graph.inputs) {
    memory.emplace_back(static_cast<size_t>(module.graph.value(input.value).type.bytes(1, 1)));
    view.inputs.push_back(memory.back().data());
  }
  runtime::AugmentScratch scratch;
  int64_t looked = 0;
  for (int64_t sample = 0; sample < samples; sample += stride, ++looked) {
    XRUN_TRY(rows->fill(sample, {}, scratch, view, 0));
  }
  if (json) {
    const nlohmann::ordered_json object{
        {"v", 1}, {"source", source.name}, {"holds", what}, {"samples", samples}, {"decoded", looked}};
    return json_line(object);
  }
  return fmt::format("  ok   {:<10} {}   {} samples decoded\n", source.name, printable_line(what),
                     format_count(looked));
}

}  // namespace

int check_data(const LoadedModel& model, const Console& console) {
  const Module& module = model.file.module;
  int exit = 0;
  // First what others are compared with.
  std::vector<const SourceSpec*> sources;
  for (const SourceSpec& source : module.data.sources) {
    sources.insert(source.name == kTrained ? sources.begin() : sources.end(), &source);
  }
  std::vector<std::string> trained;
  for (const SourceSpec* source : sources) {
    const auto line = check_source(module, *source, trained, console.json());
    if (line.ok()) {
      console.out(*line);
    } else {
      const int code = console.fail(line.error(), model.sources);
      exit = exit == 0 ? code : exit;
    }
  }
  return exit;
}

}  // namespace xrun::cli
