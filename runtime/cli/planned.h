// From FILE or PLAN on the command line to a plan with everything that a session needs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/plan.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/cli/load.h"
#include "runtime/data/loader.h"
#include "runtime/data/sample_rows.h"
#include "runtime/device/device.h"
#include "runtime/executor/executor.h"
#include "runtime/train/events.h"
#include "runtime/train/session.h"

namespace xrun::cli {

struct PlannedModel {
  LoadedModel model;
  PreparedModel prepared;
  planner::Plan plan;
};

// FILE: loads, prepares and plans. PLAN: loads the plan, makes its module again from its sources and refuses it when
// anything has changed (XG06xx). Nothing after an error, which has been printed.
std::optional<PlannedModel> plan_from(const std::string& path, const GlobalOptions& options, const Console& console,
                                      bool needs_training, int& exit);

// The same for files that lie in memory, by path.
std::optional<PlannedModel> plan_texts(const std::string& path, const lang::Texts& texts, const GlobalOptions& options,
                                       const Console& console, int& exit);

// What a run holds beside its arenas because of the data that it found.
struct DataMemory {
  runtime::Decoding decoding;  // of a worker; of all sources the most
  Bytes readers = 0;           // of readers that planner::run_memory cannot count

  // A source of the run, opened or its header.
  void add(const runtime::SampleRows& rows, const DataSpec& spec);
};

// Errors: XG0601 where arenas and data together take more than the machine of the plan has.
Status check_memory(const PlannedModel& planned, const DataMemory& data);

using BadSampleTold = std::function<void(const std::string& message)>;

// Adds to the plan's reasons which row block would use devices that now are idle (planner/planner.h). For commands that
// print the reasons.
Status explain_idle_devices(PlannedModel& planned);

// A plan or a checkpoint may be used in another directory than the one that it was made in, so that it keeps absolute
// paths of its sources.
std::string source_path(const std::string& path);

// The flags that a plan or a checkpoint was made with, below those that are given now, and the model's file. Costs have
// done their work: who runs a plan measures no kernels.
GlobalOptions with_plan_options(GlobalOptions options, const std::vector<std::pair<std::string, std::string>>& pairs,
                                std::string& file);

// The first flag that decides what is computed or how, and so has no effect on what was decided; empty without one.
std::string deciding_flag(const GlobalOptions& options);

bool is_plan_file(const std::string& path);

// Empty where the data name no classes.
std::vector<std::string> class_names(const runtime::SampleRows& rows);

// Readers number classes each by itself, so those that have names are held to the names that training had; `trained` is
// empty where there were none. Texts of a table are numbered as they were in training. Errors: XG0402.
Status check_class_names(runtime::SampleRows& rows, const DataSpec& data, const std::vector<std::string>& trained);

// Warnings of sources, as diagnostics.
Diagnostics as_warnings(const std::vector<Error>& warnings);

// Tells what is worth a warning about a source that was opened.
void warn_of(const runtime::SampleRows& rows, runtime::EventSink& events);

// Rows of the sources named, in that order, for evaluation with the inference graph; their classes are checked.
// `on_bad` is told of each broken sample once, however often it is read. Errors: those of SampleRows::open, also
// kInterrupted after `stop` is set.
struct RowOptions {
  StopFlag stop = nullptr;
  BadSampleTold on_bad = nullptr;
  DataMemory* memory = nullptr;  // to which the sources are added
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

// When each instruction of a step of training is predicted to run, as an executor would time it.
std::vector<runtime::Timing> predicted_timings(const planner::Plan& plan);

Result<std::unique_ptr<runtime::DeviceSet>> start_devices(const planner::Program& program);

// A session of the plan's inference program with the weights of a checkpoint.
Result<std::unique_ptr<runtime::Session>> open_session(const PlannedModel& planned, runtime::DeviceSet& devices,
                                                       const runtime::CheckpointInfo& info, runtime::EventSink& events);

}  // namespace xrun::cli
