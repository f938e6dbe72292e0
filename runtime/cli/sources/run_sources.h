// Opens the sources of a run or of an evaluation, compares their classes with those of training, and counts their
// memory.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cli/job/rank_facts.h"
#include "runtime/cli/model/planned.h"
#include "runtime/data/loader.h"
#include "runtime/data/sample_rows.h"
#include "runtime/train/evaluation/inference.h"
#include "runtime/train/events/events.h"

namespace xrun::cli {

// The part of a run's memory that depends on its data, in addition to its arenas.
struct DataMemory {
  runtime::Decoding decoding;  // memory that a worker needs; the maximum over all sources
  Bytes readers = 0;           // memory of readers that planner::run_memory cannot count, and of the sample order
  // Memory in which an evaluation keeps the features that it compares: those of templates, or of `recall_at`. The
  // maximum over all sources.
  Bytes compared = 0;
  bool of_templates = false;  // whether `compared` is that of templates

  // Adds the memory of a source, of which at least the header is open.
  void add(const runtime::SampleRows& rows, const DataSpec& spec);
  // Adds the memory in which its measures keep features that they compare by `threads`. `wanted` is that of
  // measures_of.
  void add_measures(const runtime::SampleRows& rows, const Module& module, int threads,
                    const runtime::WantedMeasures& wanted = {});
};

// Checks that the memory suffices. Errors: XG0601 arenas and data together need more than the plan's machine has.
Status check_memory(const PlannedModel& planned, const DataMemory& data);

// Adds the facts of a source: its number of samples, its classes by input, and digests of its contents and of its
// pairs.
void add_facts(const runtime::SampleRows& rows, Facts& facts);

using BadSampleTold = std::function<void(const std::string& message)>;

// Turns warnings of sources into diagnostics.
Diagnostics as_warnings(const std::vector<Error>& warnings);

// Applies `class_weights` of `train` to the rows of the training source, whose classes are numbered by `classes`.
// Returns the class of each sample if `order` is balanced, else nothing. Errors: those of class_weights and
// SampleRows::labels_of.
Result<std::vector<int32_t>> use_classes(runtime::SampleRows& rows, const Module& module,
                                         const runtime::ClassTables& classes, StopFlag stop = nullptr);

// Passes the warnings of an opened source to `events`.
void warn_of(const runtime::SampleRows& rows, runtime::EventSink& events);

// open_row_sources opens the named sources in the given order for evaluation with the inference graph. Their
// classes are numbered, and their inputs standardized, as in training. It calls `on_bad` once for each broken sample,
// however often the sample is read. Errors: those of SampleRows::open, number_by and scale_by; kInterrupted after
// `stop` is set.
struct TrainedTables {
  const runtime::ClassTables& classes;
  const runtime::InputScales& scales;
};
struct RowOptions {
  StopFlag stop = nullptr;
  BadSampleTold on_bad = nullptr;
  DataMemory* memory = nullptr;  // receives the memory of the sources; null: it is not counted
  Facts* facts = nullptr;        // receives the facts of the sources; null: they are not collected
  runtime::RowTasks::Patience patience;
  runtime::WantedMeasures measures;
};
Result<std::vector<std::unique_ptr<runtime::RowSource>>> open_row_sources(const PlannedModel& planned,
                                                                          const std::vector<std::string>& names,
                                                                          const TrainedTables& trained,
                                                                          runtime::EventSink& events,
                                                                          const RowOptions& options = {});

// Warns of each broken sample that was left out. Prints nothing with --format json, since results name these samples.
void report_broken(const std::vector<runtime::BrokenRow>& broken, const Console& console);

// The sources that evaluation reads. Their order is that in which metrics first read them: metrics of `eval`, or of
// `metrics` if there is no `eval`.
std::vector<std::string> measured_sources(const Module& module);

// The inputs from which the metrics of a source are computed; `wanted` is that of measures_of. The source may lack all
// others, such as labels of other metrics.
std::vector<std::string> inputs_of_measures(const Module& module, const std::string& source,
                                            const runtime::WantedMeasures& wanted = {});

// Checks that an opened source has what its metrics compare. Errors: those of runtime::check_pairs.
Status check_measures(const runtime::SampleRows& rows, const Module& module,
                      const runtime::WantedMeasures& wanted = {});

}  // namespace xrun::cli
