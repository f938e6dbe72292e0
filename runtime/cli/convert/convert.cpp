// Steps:
//   1. Find the files of the target, of which none may exist, and open the source.
//   2. Read each sample and write it, in a temporary folder next to the target. Broken samples are left out.
//   3. Write the names of the classes, and give all files their names.
#include "runtime/cli/convert/convert.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "graph/os/durable.h"
#include "graph/os/temporary_folder.h"
#include "runtime/cli/console/console.h"
#include "runtime/cli/convert/sample_writer.h"
#include "runtime/cli/progress/progress.h"
#include "runtime/cli/sources/named_source.h"
#include "runtime/cli/sources/run_sources.h"
#include "runtime/cluster/stop_signals.h"
#include "runtime/data/open_reader.h"
#include "runtime/data/order/bad_samples.h"
#include "runtime/data/order/sample_order.h"
#include "runtime/data/source_classes.h"
#include "runtime/formats/output_file.h"
#include "runtime/formats/pictures/decode.h"
#include "runtime/formats/records/class_names.h"

namespace xrun::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kCode = "XG0901";
constexpr size_t kMostFaults = 20;  // broken samples that are named

// An open source, and how its samples are read.
struct Subject {
  std::string call;
  std::unique_ptr<runtime::Reader> reader;
  int picture = -1;  // field with encoded pictures
  int label = -1;    // field with labels; -1: the source has none
  int labels = -1;   // field with all labels of a sample, if they are to be kept
  ConvertedSource facts;
};

// Whether the samples have several labels.
bool has_lists(const runtime::Reader& reader) {
  const int field = reader.find_field("labels");
  return field >= 0 && reader.fields()[static_cast<size_t>(field)].type.dims.back() > 1;
}

Outcome<Subject> open_subject(const ConvertArgs& args, const ConvertTarget& target) {
  XRUN_ASSIGN(const NamedSource source, find_source(args.source));
  if (source.spec.reader.name == "pairs") {
    return usage_error("XG0943", {"{} holds pairs of pictures, which have no classes", args.source},
                       "`verification` and `xrun eval --on` read such a file as it is");
  }
  Subject subject{.call = source.call};
  XRUN_ASSIGN(subject.reader, runtime::open_reader(source.spec, &StopSignals::requested()));
  const runtime::Reader& reader = *subject.reader;
  const auto encoded = std::ranges::find(reader.fields(), true, &Field::encoded);
  if (encoded == reader.fields().end()) {
    return usage_error("XG0943", {"{} has no encoded pictures that could be copied", args.source},
                       "name a source of encoded pictures; `xrun data show` lists its fields");
  }
  subject.picture = static_cast<int>(encoded - reader.fields().begin());
  subject.facts.samples = reader.samples();
  if (reader.has_labels()) {
    subject.label = label_field(reader);
    subject.facts.classes = reader.classes();
    subject.facts.class_names = runtime::class_names_of(reader);
  }
  if (args.all_labels && has_lists(reader)) {
    subject.labels = reader.find_field("labels");
  }
  const auto files = std::ssize(target.names);
  if (files > reader.samples()) {
    return usage_error(
        "XG0943", {"the target has {} files, but {} has {}", files, args.source, counted(reader.samples(), "sample")},
        "name fewer files");
  }
  return subject;
}

Result<std::unique_ptr<SampleWriter>> make_writer(const std::string& folder, const ConvertTarget& target,
                                                  const ConvertedSource& source) {
  switch (target.kind) {
    case ConvertTarget::Kind::kRecords:
      return write_records(folder, target, source);
    case ConvertTarget::Kind::kShards:
      return write_shards(folder, target, source);
    case ConvertTarget::Kind::kFolder:
      break;
  }
  return write_folder(folder, target, source);
}

// The first of a few shares that allows this many broken samples.
double sufficient_share(int64_t broken, int64_t samples) {
  constexpr std::array<double, 4> kShares{0.01, 0.1, 0.5, 1};
  const auto enough = [&](double share) { return static_cast<double>(broken) <= share * static_cast<double>(samples); };
  return *std::ranges::find_if(kShares.begin(), kShares.end() - 1, enough);
}

// Reads samples, and reports how far it is.
class Conversion {
 public:
  Conversion(const Subject& subject, const ConvertTarget& target, const ConvertArgs& args, runtime::EventSink& events)
      : subject_(subject), target_(target), args_(args), events_(events) {}

  // Writes all samples. Errors: those of the reader and of the writer, except broken samples; XG0408; kInterrupted.
  Status run(SampleWriter& writer) {
    const int64_t samples = subject_.facts.samples;
    const auto order = args_.seed < 0 ? SampleOrder::kSequential : SampleOrder::kShuffled;
    const runtime::SampleSequence sequence(order, samples, static_cast<uint64_t>(std::max<int64_t>(args_.seed, 0)));
    runtime::BadSamples bad(samples, args_.max_bad, [](const std::string&) {});
    for (int64_t i = 0; i < samples; ++i) {
      XRUN_TRY(check_stop(&StopSignals::requested()));
      tell(i);
      const int64_t sample = sequence.at(i).sample;
      const Status read = read_sample(sample);
      if (!read.ok()) {
        XRUN_TRY(add_fault(read.error(), sample, bad));
        continue;
      }
      XRUN_TRY(writer.add(i * std::ssize(target_.names) / samples, read_));
      ++written_;
    }
    XRUN_TRY(writer.finish());
    told_ = {};
    tell(samples);
    return {};
  }

  int64_t written() const { return written_; }
  int64_t broken() const { return subject_.facts.samples - written_; }
  const std::vector<Error>& faults() const { return faults_; }  // the first broken samples

 private:
  void tell(int64_t done) {
    const auto now = Clock::now();
    if (now - told_ >= std::chrono::milliseconds(100)) {
      told_ = now;
      events_.on(runtime::WorkEvent{runtime::Work::kConvert, args_.source, done, subject_.facts.samples});
    }
  }

  Status read_sample(int64_t sample) {
    const runtime::Reader& reader = *subject_.reader;
    name_ = reader.sample_name(sample);
    read_ = {.name = name_};
    if (subject_.label >= 0) {
      XRUN_ASSIGN(read_.label, read_label(reader, sample, subject_.label, label_));
    }
    if (subject_.labels >= 0) {
      XRUN_TRY(reader.read(sample, subject_.labels, labels_));
      read_.labels = {reinterpret_cast<const float*>(labels_.bytes.data()), labels_.bytes.size() / sizeof(float)};
    }
    XRUN_TRY(reader.read(sample, subject_.picture, picture_));
    XRUN_ASSIGN([[maybe_unused]] const auto header, runtime::read_picture_header(picture_.bytes));
    read_.picture = picture_.bytes;
    read_.extension = runtime::picture_extension(picture_.bytes);
    return {};
  }

  // Counts a broken sample; other errors end the conversion.
  Status add_fault(const Error& error, int64_t sample, runtime::BadSamples& bad) {
    Error fault = error;
    fault.message = fmt::format("{}: {}", name_, error.message);
    if (!runtime::is_broken_sample(error)) {
      return fault;
    }
    if (Status added = bad.add(sample, fault.message); !added.ok()) {
      Error many = std::move(added).error();
      many.help = fmt::format("correct or remove these files, or allow a larger share of them: --max-bad {}",
                              sufficient_share(bad.count(), subject_.facts.samples));
      return many;
    }
    if (faults_.size() < kMostFaults) {
      fault.help = "the sample is left out";
      faults_.push_back(std::move(fault));
    }
    return {};
  }

  const Subject& subject_;
  const ConvertTarget& target_;
  const ConvertArgs& args_;
  runtime::EventSink& events_;
  Clock::time_point told_{};
  std::string name_;
  runtime::FieldValue picture_, label_, labels_;
  ConvertedSample read_;
  int64_t written_ = 0;
  std::vector<Error> faults_;
};

Status write_names(const std::string& folder, const ConvertTarget& target, const ConvertedSource& source) {
  XRUN_ASSIGN(const auto file, runtime::OutputFile::create(folder + "/" + target.class_names));
  for (size_t i = 0; i < source.class_names.size(); ++i) {
    XRUN_TRY(file->write(runtime::class_name_line(static_cast<int64_t>(i), source.class_names[i])));
  }
  return file->finish();
}

// Gives the files in the part `all` of a folder their places. If the target's folder does not exist, the whole part
// becomes that folder.
Status release(const TemporaryFolder& folder, const ConvertTarget& target, const std::vector<std::string>& names,
               bool is_new_folder) {
  XRUN_TRY(check_target(target));
  sync_directory(folder.path() + "/all");
  if (is_new_folder) {
    XRUN_TRY(folder.release("all", target.directory, kCode));
  }
  for (size_t i = 0; !is_new_folder && i < names.size(); ++i) {
    XRUN_TRY(folder.release("all/" + names[i], target.path_of(names[i]), kCode));
  }
  sync_directory(is_new_folder              ? fs::absolute(target.directory).parent_path().string()
                 : target.directory.empty() ? "."
                                            : target.directory);
  return {};
}

struct Converted {
  int64_t samples = 0;
  int64_t broken = 0;
  Bytes bytes = 0;
  std::vector<Error> warnings;
};

Result<Converted> convert(const Subject& subject, const ConvertTarget& target, const ConvertArgs& args,
                          runtime::EventSink& events) {
  XRUN_ASSIGN(const bool writes_names, needs_class_names(target, subject.facts.class_names));
  std::error_code ignored;
  const bool is_new_folder = !target.directory.empty() && !fs::exists(target.directory, ignored);
  const std::string place = is_new_folder ? target.directory : target.path_of(target.names[0]);
  XRUN_ASSIGN(const auto folder, TemporaryFolder::next_to(place, kCode));
  const std::string all = folder->path() + "/all";
  if (!fs::create_directory(all, ignored)) {
    return world_error(kCode, {"cannot create {}: {}", all, ignored.message()}, "name a place that can be written");
  }
  XRUN_ASSIGN(const auto writer, make_writer(all, target, subject.facts));
  Conversion conversion(subject, target, args, events);
  XRUN_TRY(conversion.run(*writer));
  if (conversion.written() == 0) {
    return content_error("XG0406", {"all samples of {} are broken", args.source}, "see the faults of `xrun data show`");
  }
  std::vector<std::string> names = writer->files();
  if (writes_names) {
    XRUN_TRY(write_names(all, target, subject.facts));
    names.insert(names.begin(), target.class_names);
  }
  XRUN_TRY(release(*folder, target, names, is_new_folder));
  Converted done{conversion.written(), conversion.broken(), writer->bytes(), conversion.faults()};
  if (auto warning = writer->warning()) {
    done.warnings.push_back(std::move(*warning));
  }
  return done;
}

std::string as_text(const Converted& done, const Subject& subject, const ConvertTarget& target,
                    const ConvertArgs& args) {
  const std::string files = target.names.size() == 1 ? "" : counted(std::ssize(target.names), "file") + ", ";
  std::string text = fmt::format("  wrote {}   {}{}{}, {}\n", args.target, files, counted(done.samples, "sample"),
                                 subject.label < 0 ? " without labels"
                                                   : ", " + counted(subject.facts.classes, "class") +
                                                         (subject.facts.class_names.empty() ? "" : " with names"),
                                 format_bytes(done.bytes));
  return text + (done.broken == 0 ? "" : fmt::format("  {} left out\n", counted(done.broken, "broken sample")));
}

std::string as_json(const Converted& done, const Subject& subject, const ConvertTarget& target,
                    const ConvertArgs& args) {
  nlohmann::ordered_json json{{"v", 1},
                              {"source", args.source},
                              {"reader", subject.call},
                              {"target", args.target},
                              {"files", target.names.size()},
                              {"samples", done.samples},
                              {"classes", subject.facts.classes},
                              {"named", !subject.facts.class_names.empty()},
                              {"broken", done.broken},
                              {"bytes", done.bytes}};
  return json_line(json);
}

}  // namespace

std::string sample_key(int64_t number) { return fmt::format("{:09}", number); }

Outcome<int> run_data_convert(const GlobalOptions& options, const ConvertArgs& args) {
  const Console console(options);
  XRUN_ASSIGN(const ConvertTarget target, parse_target(args.target));
  if (args.all_labels && target.kind != ConvertTarget::Kind::kRecords) {
    return usage_error("XG0943", "`--all-labels` is for records: a shard or a folder has one label for each sample",
                       "name FILE.rec, or leave it out");
  }
  XRUN_TRY(check_target(target));
  Phase phase(console);
  const StopSignals signals([] {});
  const auto progress = make_progress(options.progress, console);
  progress->on(runtime::WorkEvent{runtime::Work::kOpen, args.source});
  Outcome<Subject> subject = open_subject(args, target);
  if (!subject.ok()) {
    progress->on(runtime::WorkEvent{});
    return std::move(subject).error();
  }
  phase.done("opened", subject->reader->describe());
  auto done = convert(*subject, target, args, *progress);
  progress->on(runtime::WorkEvent{});
  if (!done.ok()) {
    return std::move(done).error();
  }
  if (!args.all_labels && has_lists(*subject->reader)) {
    done->warnings.push_back(content_error("XG0944", "the samples have several labels, of which only the first is kept",
                                           "for a target of records, --all-labels keeps all of them"));
  }
  console.report(as_warnings(done->warnings), {});
  console.out(console.json() ? as_json(*done, *subject, target, args) : as_text(*done, *subject, target, args));
  return 0;
}

void add_convert_flags(CLI::App& command, ConvertArgs& args) {
  command.add_option("source", args.source, "a file, a directory, a pattern of tar shards, or the call of a reader")
      ->required()
      ->type_name("SOURCE");
  command
      .add_option("target", args.target,
                  "FILE.rec, FILE.tar, several by a range such as 'train-{000..063}.tar', or a folder that ends with /")
      ->required()
      ->type_name("TARGET");
  command.add_option("--seed", args.seed, "shuffle the samples with this seed (default: they keep their order)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 62));
  command.add_option("--max-bad", args.max_bad, "the share of samples that may be broken and are left out (0.001)")
      ->type_name("SHARE")
      ->check(CLI::Range(0.0, 1.0).description(""));
  command.add_flag("--all-labels", args.all_labels,
                   "for a target of records: keep all labels of samples that have several");
}

}  // namespace xrun::cli
