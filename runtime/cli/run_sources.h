// The sources of a run or of a command that measures: opened, held to the classes of training, and what they take.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cli/planned.h"
#include "runtime/data/loader.h"
#include "runtime/data/sample_rows.h"
#include "runtime/train/events.h"

namespace xrun::cli {

// What a run holds beside its arenas because of the data that it found.
struct DataMemory {
  runtime::Decoding decoding;  // of a worker; of all sources the most
  Bytes readers = 0;           // of readers that planner::run_memory cannot count

  // A source of the run, opened or its header.
  void add(const runtime::SampleRows& rows, const DataSpec& spec);
};

// Errors: XG0601 where arenas and data together take more than the machine of the plan has.
Status check_memory(const PlannedModel& planned, const DataMemory& data);

// What the ranks of a run compare (runtime/cli/job.h): names, and values that are to be the same on all of them.
using Facts = std::vector<std::pair<std::string, std::string>>;
// Adds how many samples and which classes a source has, and what its samples are.
void add_facts(const runtime::SampleRows& rows, Facts& facts);

using BadSampleTold = std::function<void(const std::string& message)>;

// Empty where the data name no classes.
std::vector<std::string> class_names(const runtime::SampleRows& rows);

// Readers number classes each by itself, so those that have names are held to the names that training had; `trained` is
// empty where there were none. Texts of a table are numbered as they were in training. Errors: XG0402.
Status check_class_names(runtime::SampleRows& rows, const DataSpec& data, const std::vector<std::string>& trained);

// Warnings of sources, as diagnostics.
Diagnostics as_warnings(const std::vector<Error>& warnings);

// What `class_weights` and `order` of `train` take from the classes of the training source: its rows get their weights.
// Gives the class of each sample where the order is balanced, else nothing. Errors: those of class_weights and
// SampleRows::labels_of.
Result<std::vector<int32_t>> use_classes(runtime::SampleRows& rows, const Module& module, StopFlag stop = nullptr);

// Tells what is worth a warning about a source that was opened.
void warn_of(const runtime::SampleRows& rows, runtime::EventSink& events);

// Rows of the sources named, in that order, for evaluation with the inference graph; their classes are checked.
// `on_bad` is told of each broken sample once, however often it is read. Errors: those of SampleRows::open, also
// kInterrupted after `stop` is set.
struct RowOptions {
  StopFlag stop = nullptr;
  BadSampleTold on_bad = nullptr;
  DataMemory* memory = nullptr;  // to which the sources are added
  Facts* facts = nullptr;        // as well
  runtime::RowTasks::Patience patience;
};
Result<std::vector<std::unique_ptr<runtime::RowSource>>> open_row_sources(const PlannedModel& planned,
                                                                          const std::vector<std::string>& names,
                                                                          const std::vector<std::string>& trained,
                                                                          runtime::EventSink& events,
                                                                          const RowOptions& options = {});

// Names each broken sample, which was left out, in a warning; nothing with --format json, where results name them.
void report_broken(const std::vector<runtime::BrokenRow>& broken, const Console& console);

// The sources that evaluation reads: those that `eval` or `metrics` name, in order of declaration.
std::vector<std::string> measured_sources(const Module& module);

}  // namespace xrun::cli
