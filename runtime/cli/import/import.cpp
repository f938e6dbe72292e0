// Steps:
//   1. Open the files of weights, and read the name table of the user, before the model is planned.
//   2. Find a place in the model for each tensor (runtime/interchange/import/). A tensor that does not fit is an error.
//   3. Open a session, give all tensors their initial values, and copy the tensors of the files over them.
//   4. Save the state as a checkpoint of step 0.
#include "runtime/cli/import/import.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <optional>

#include "graph/base/errors.h"
#include "graph/base/nearest.h"
#include "graph/base/stop.h"
#include "runtime/checkpoint/class_rows/class_row_file.h"
#include "runtime/checkpoint/files/own_files.h"
#include "runtime/checkpoint/put_aside.h"
#include "runtime/checkpoint/store.h"
#include "runtime/cli/console/console.h"
#include "runtime/cli/import/import_report.h"
#include "runtime/cli/model/plan_session.h"
#include "runtime/cli/model/trained_model.h"
#include "runtime/cli/progress/progress.h"
#include "runtime/cluster/stop_signals.h"
#include "runtime/data/readers/natural_order.h"
#include "runtime/device/libraries.h"
#include "runtime/formats/files.h"
#include "runtime/interchange/import/copy_tensors.h"
#include "runtime/interchange/names/name_tables.h"

namespace xrun::cli {
namespace {

namespace fs = std::filesystem;
using runtime::NameTable;

// Stands for the math digest of a run in the checkpoint. No run has it, so that none continues from step 0 without the
// states of its optimizer; `init = checkpoint(...)` starts from it.
constexpr const char* kNoRun = "imported";

// Whether an import that was killed may have left the entry of a directory. The next import replaces it.
bool is_left_over(const fs::path& entry) {
  const std::string name = entry.filename();
  return name == "lock" || runtime::pending_of_name(name) || runtime::digest_of_class_names_file(name) ||
         (name.starts_with("rows.") && runtime::ClassRowFile::header_of(entry).ok());
}

// Checks, before anything is computed, that the checkpoint may be written to its place.
Status check_output(const ImportArgs& args) {
  std::error_code ignored;
  if (!fs::exists(args.output, ignored)) {
    return {};
  }
  if (!fs::is_directory(args.output, ignored)) {
    return usage_error("XG0901", {"{} is a file, and a checkpoint is a directory", args.output},
                       "name a directory: -o ckpt/start");
  }
  if (!runtime::is_checkpoint(args.output)) {
    for (const auto& entry : fs::directory_iterator(args.output, ignored)) {
      if (!is_left_over(entry.path())) {
        return usage_error("XG0901", {"{} is a directory with other files", args.output},
                           "name a new directory: -o ckpt/start");
      }
    }
    return {};
  }
  return args.overwrite ? Status()
                        : Status(usage_error("XG0901", {"{} has a checkpoint already", args.output},
                                             {"add --overwrite, which first moves it to {}, or name another directory",
                                              runtime::aside_name(args.output)}));
}

std::vector<std::string_view> known_names() {
  std::vector<std::string_view> names;
  for (const runtime::NameText& one : runtime::name_texts()) {
    names.push_back(one.name);
  }
  return names;
}

// The tables to choose from: the one that `--names` names, or all of the program.
Outcome<std::vector<NameTable>> read_tables(const std::string& named) {
  std::vector<NameTable> tables;
  std::error_code ignored;
  const auto known = known_names();
  if (named.empty() || std::ranges::find(known, named) != known.end()) {
    for (const std::string_view name : known) {
      if (named.empty() || named == name) {
        tables.push_back(runtime::known_table(name));
      }
    }
    return tables;
  }
  if (!fs::exists(named, ignored)) {
    return content_error("XG0941", {"`--names {}` is neither a file nor a name table of xrun", named},
                         {"name a file, or one of {}", fmt::join(known, ", ")});
  }
  XRUN_ASSIGN(const auto bytes, runtime::read_file(named, runtime::kMostTableBytes + 1));
  SourceMap sources;
  Diagnostics diagnostics;
  const int32_t file = sources.add(named, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  auto table = runtime::table_of_user(sources, file, diagnostics);
  if (!table) {
    return Failure(std::move(diagnostics), std::move(sources));
  }
  tables.push_back(std::move(*table));
  return tables;
}

// Checks that no file is named twice: the rows of ranks would be joined twice.
Status check_named_once(const std::vector<std::string>& files) {
  for (size_t i = 1; i < files.size(); ++i) {
    for (size_t earlier = 0; earlier < i; ++earlier) {
      std::error_code ignored;
      if (fs::equivalent(files[earlier], files[i], ignored)) {
        return usage_error("XG0942", {"{} and {} are the same file", files[earlier], files[i]}, "name each file once");
      }
    }
  }
  return {};
}

Status open_files(const ImportArgs& args, Imported& imported) {
  XRUN_TRY(check_named_once(args.files));
  for (const std::string& path : args.files) {
    XRUN_ASSIGN(auto file, runtime::open_weight_file(path, &StopSignals::requested()));
    for (size_t i = 0; i < file->tensors().size(); ++i) {
      const runtime::WeightTensor& tensor = file->tensors()[i];
      imported.tensors.push_back({tensor.name, tensor.dims, imported.files.size(), i});
    }
    imported.files.push_back(std::move(file));
  }
  if (imported.tensors.empty()) {
    return content_error("XG0941", {"{} has no tensors of numbers", fmt::join(args.files, ", ")},
                         "name a file of weights, such as one that `torch.save(model.state_dict(), ...)` wrote");
  }
  return {};
}

// A path that the model does not have.
Error no_path(const char* flag, const std::string& path, const runtime::ModelForm& form) {
  std::vector<std::string> names;
  std::ranges::transform(form.tensors, std::back_inserter(names), &runtime::ModelTensor::name);
  return usage_error("XG0942", {"`{} {}`: the model has no tensor at or below this path", flag, path},
                     nearest_names(path, names, "`xrun show` of the model lists them"));
}

// Finds the places of the tensors.
Status match(const ImportArgs& args, std::vector<NameTable> tables, const Graph& graph, Imported& imported) {
  imported.form = runtime::form_of(graph);
  const runtime::ModelNames names(imported.form);
  for (const std::string& path : args.skip) {
    if (!names.has_path(path)) {
      return no_path("--skip", path, imported.form);
    }
  }
  std::optional<std::string> at;
  if (!args.at.empty()) {
    at = args.at == "." ? "" : args.at;
    if (!at->empty() && !names.has_path(*at)) {
      return no_path("--at", *at, imported.form);
    }
  }
  XRUN_ASSIGN(runtime::Choice choice, runtime::choose_table(tables, imported.tensors, names, at,
                                                            fmt::format("{}", fmt::join(args.files, ", "))));
  imported.table = std::move(tables[choice.table]);
  imported.place = std::move(choice.place);
  imported.matched =
      runtime::match_tensors(imported.table, imported.place, imported.tensors, imported.form, names, args.skip);
  return imported.matched.misfits.empty() ? Status() : Status(misfit_error(imported, args));
}

// Whether two paths differ only in digits.
bool are_numbered(std::string_view a, std::string_view b) {
  const auto letters = [](std::string_view path) {
    std::string rest;
    std::ranges::copy_if(path, std::back_inserter(rest), [](char c) { return c < '0' || c > '9'; });
    return rest;
  };
  return letters(a) == letters(b);
}

// Checks that the files of ranks, whose rows are joined, are in the order of their numbers: a shell puts rank 10 before
// rank 2, and the rows of both have the same shape.
Status check_order(const ImportArgs& args, const Imported& imported) {
  for (const runtime::Fit& fit : imported.matched.fits) {
    for (size_t i = 1; i < fit.from.size(); ++i) {
      const runtime::ForeignTensor& first = imported.tensors[fit.from[i - 1]];
      const runtime::ForeignTensor& second = imported.tensors[fit.from[i]];
      const std::string& before = args.files[first.file];
      const std::string& after = args.files[second.file];
      if (first.name == second.name && are_numbered(before, after) && !runtime::comes_before(before, after)) {
        return usage_error("XG0942",
                           {"{} is named before {}, but the rows of `{}` are joined in the order of the ranks", before,
                            after, first.name},
                           "name the files in the order of their numbers, such as checkpoint_gpu_{0..15}.pt");
      }
    }
  }
  return {};
}

bool has_all(const runtime::TrainState& state, const runtime::ModelForm& form) {
  return std::ranges::all_of(form.tensors,
                             [&](const runtime::ModelTensor& tensor) { return state.find(tensor.name) != nullptr; });
}

// Opens a session with all tensors of the model: that of inference, or if a tensor takes part in training only, that of
// training.
Result<std::unique_ptr<runtime::Session>> open_whole(const PlannedModel& planned, const runtime::ModelForm& form,
                                                     std::unique_ptr<runtime::DeviceSet>& devices) {
  XRUN_ASSIGN(devices, start_devices(planned, planned.plan.inference));
  XRUN_ASSIGN(auto session, runtime::Session::create(planned.prepared.inference, planned.plan.inference, *devices,
                                                     {.isa = planned.prepared.isa}));
  if (has_all(session->state(), form)) {
    return session;
  }
  session = nullptr;
  devices = nullptr;
  XRUN_ASSIGN(devices, start_devices(planned, planned.plan.training));
  return runtime::Session::create(planned.prepared.training, planned.plan.training, *devices,
                                  {.isa = planned.prepared.isa});
}

runtime::CheckpointOptions store_of(const PlannedModel& planned, const ImportArgs& args) {
  const TrainSpec& train = planned.prepared.training.train;
  return {.directory = fs::path(args.output).lexically_normal().string(),
          .resume = "never",
          .overwrite = args.overwrite,
          .math_digest = kNoRun,
          .isa = planned.plan.isa,
          .deterministic = train.deterministic,
          .seed = train.seed,
          .version = XRUN_VERSION,
          .libraries = runtime::library_versions(),
          .model = text_of(planned)};
}

// Copies the tensors into the state of a session, and saves it. Sets `aside` to the new name of an earlier checkpoint.
Status write(const PlannedModel& planned, const ImportArgs& args, Imported& imported, runtime::EventSink& events,
             std::string& aside) {
  events.on(runtime::WorkEvent{.work = runtime::Work::kPrepare, .subject = "memory"});
  std::unique_ptr<runtime::DeviceSet> devices;
  XRUN_ASSIGN(const auto session, open_whole(planned, imported.form, devices));
  runtime::TrainState& state = session->state();
  runtime::CheckpointOptions options = store_of(planned, args);
  options.on_aside = [&](const std::string&, const std::string& name) { aside = name; };
  XRUN_ASSIGN(const auto store, runtime::make_checkpoint_store(std::move(options)));
  XRUN_TRY(store->make_rows(state));
  state.initialise(imported.seed, {}, planned.model.file.run.moved);
  events.on(runtime::WorkEvent{.work = runtime::Work::kLoad, .subject = args.files[0]});
  XRUN_TRY(runtime::copy_tensors(imported.matched.fits, imported.tensors, imported.files, imported.form, state,
                                 &StopSignals::requested()));
  XRUN_TRY(check_stop(&StopSignals::requested()));
  XRUN_ASSIGN(const runtime::SavedCheckpoint saved, store->save(state, 0, 0));
  imported.path = saved.path;
  imported.bytes = saved.bytes;
  return store->finish();
}

// Calls `write`. If it fails, the directory of the checkpoint is removed, unless it existed before. An earlier
// checkpoint that was renamed gets its name back.
Status write_whole(const PlannedModel& planned, const ImportArgs& args, Imported& imported,
                   runtime::EventSink& events) {
  std::error_code fault;
  const bool fresh = !fs::exists(args.output, fault);
  std::string aside;
  const Status written = write(planned, args, imported, events, aside);
  if (written.ok() || (!fresh && aside.empty())) {
    return written;
  }
  const fs::path place = fs::canonical(args.output, fault);  // `args.output` may be a link to a directory
  if (!fault) {
    fs::remove_all(place, fault);
  }
  if (!aside.empty() && !fault) {
    fs::rename(aside, place, fault);
  }
  Error error = written.error();
  if (!aside.empty() && fault) {
    error.notes.push_back(fmt::format("the earlier checkpoint is in {}: {}", aside, fault.message()));
  }
  return error;
}

}  // namespace

Outcome<int> run_import(const GlobalOptions& options, const ImportArgs& args) {
  const Console console(options);
  XRUN_TRY(check_output(args));
  XRUN_ASSIGN(auto tables, read_tables(args.names));
  const StopSignals signals([] {});
  Imported imported;
  XRUN_TRY(open_files(args, imported));
  XRUN_ASSIGN(const PlannedModel planned, plan_from(args.into, options, console, true));
  XRUN_TRY(check_stop(&StopSignals::requested()));
  const Module& module = planned.model.file.module;
  imported.model = module.model;
  imported.seed = module.train.seed;
  XRUN_TRY(match(args, std::move(tables), module.graph, imported));
  XRUN_TRY(check_order(args, imported));
  const auto progress = make_progress(options.progress, console);
  const Status written = write_whole(planned, args, imported, *progress);
  progress->on(runtime::WorkEvent{});
  XRUN_TRY(with_sources(written, planned.model.sources));
  console.out(console.json() ? import_json(imported, args) : import_text(imported, args, console.verbose()));
  return 0;
}

}  // namespace xrun::cli
