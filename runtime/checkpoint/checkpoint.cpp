#include "runtime/checkpoint/checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "graph/base/durable.h"
#include "graph/base/errors.h"
#include "graph/base/utf8.h"
#include "graph/base/xxh128.h"
#include "runtime/checkpoint/class_names.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/lock.h"
#include "runtime/checkpoint/read_file.h"
#include "runtime/checkpoint/run_rows.h"
#include "runtime/checkpoint/tensor_files.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kMostManifestBytes = 64 * kMiB;  // of half a million files

Error nothing_at(const std::string& path) {
  std::error_code ignored;
  const std::string why = fs::is_directory(path, ignored) ? "there is no step in this directory"
                          : fs::exists(path, ignored)     ? "it is a file"
                                                          : "there is no such directory";
  return content_error("XG0713", {"no checkpoint at {}: {}", path, why},
                       "name a step directory, the directory that holds it, or `latest`");
}

// The step directory that a path means; none where it means none.
Result<std::optional<std::string>> step_directory(const std::string& path) {
  std::error_code ignored;
  std::string given = path;
  while (given.size() > 1 && given.ends_with('/')) {
    given.pop_back();
  }
  XRUN_ASSIGN(const bool whole, is_step(given));
  if (whole) {
    return std::optional(given);
  }
  const fs::path as_path(given);
  const std::string parent = as_path.parent_path().empty() ? "." : as_path.parent_path().string();
  if (as_path.filename() == "best" && !fs::is_directory(given, ignored)) {
    XRUN_ASSIGN(const auto best, best_in(parent));
    return best ? std::optional(parent + "/" + *best) : std::nullopt;
  }
  if (as_path.filename() == "latest" && !fs::is_directory(given, ignored)) {
    given = parent;
  }
  XRUN_ASSIGN(auto newest, newest_in(given));
  return newest ? std::optional(given + "/" + *newest) : std::nullopt;
}

class Store final : public CheckpointStore {
 public:
  Store(CheckpointOptions options, std::optional<DirectoryLock> lock)
      : options_(std::move(options)), lock_(std::move(lock)), rows_(options_.directory, *options_.io) {}

  Result<SavedCheckpoint> save(const TrainState& state, int64_t step, int64_t samples) override {
    std::optional<PendingDirectory> pending;
    const auto make_directory = [&]() -> Result<std::string> {
      XRUN_TRY(check_space(state));
      XRUN_ASSIGN(auto made, PendingDirectory::make(options_.directory, step_name(step), *options_.io));
      return pending.emplace(std::move(made)).path();
    };
    XRUN_ASSIGN(const std::string path, lead(make_directory));
    SavedCheckpoint saved{.path = options_.directory + "/" + step_name(step)};
    XRUN_ASSIGN(const auto files, gather_files(write_state(state, path, options_.range_bytes, *options_.io, rank())));
    const auto complete = [&]() -> Result<std::string> {
      XRUN_TRY(write_manifest(*pending, step, samples, files, saved));
      return std::to_string(saved.bytes);
    };
    XRUN_ASSIGN(const std::string bytes, lead(complete));
    saved.bytes = std::stoll(bytes);
    return saved;
  }

  Status make_rows(TrainState& state) override { return rows_.make(state); }

  Status finish() override { return rows_.close(); }

  Result<std::vector<FreshPart>> start_from(const std::string& path, const std::vector<std::string>& skip,
                                            TrainState& state) override {
    XRUN_ASSIGN(const CheckpointInfo info, open_checkpoint(path));
    XRUN_TRY(verify(info));
    std::vector<FreshPart> fresh;
    XRUN_TRY(read_state(info, state, skip, fresh));
    return fresh;
  }

  Status remember(const std::vector<Record>& records) override {
    records_ = records;
    if (rank() != 0) {
      return {};
    }
    std::vector<BestStep> best;
    for (const Record& record : records_) {
      if (record.keep > 0) {
        best = record.best;
      }
    }
    return best.empty() ? Status() : write_best(options_.directory, best, *options_.io);
  }

  Result<std::optional<Resumed>> resume(TrainState& state) override {
    std::string path = options_.resume;
    if (path == "never") {
      return std::optional<Resumed>();
    }
    if (path == "auto") {
      const auto find = [&]() -> Result<std::string> {
        XRUN_ASSIGN(const auto newest, newest_in(options_.directory));
        return newest.value_or("");
      };
      XRUN_ASSIGN(const std::string newest, lead(find));
      if (newest.empty()) {
        return std::optional<Resumed>();
      }
      path = options_.directory + "/" + newest;
    }
    XRUN_ASSIGN(const CheckpointInfo info, open_checkpoint(path));
    XRUN_TRY(check_digest(info));
    XRUN_TRY(check_samples(info));
    if (Status loaded = load(info, state); !loaded.ok()) {
      Error error = std::move(loaded).error();
      const bool may_be_older = error.code == "XG0710" && info.manifest.rows.empty();
      if (const auto older = older_than(info.manifest.step); may_be_older && older) {
        error.help = fmt::format("go on from an older one: --resume {}", *older);
      }
      return error;
    }
    history_ = info.manifest.history;
    records_ = info.manifest.records;
    if (info.manifest.math_digest != options_.math_digest) {
      history_.push_back({info.manifest.step, info.manifest.math_digest, difference_from(info).lines});
    }
    return std::optional<Resumed>(
        {.step = info.manifest.step, .path = info.path, .warnings = warnings_of(info.manifest), .records = records_});
  }

  // A checkpoint of another run is neither gone on from nor written over.
  Status check_digest(const CheckpointInfo& info) const {
    if (info.manifest.math_digest == options_.math_digest) {
      return {};
    }
    const RunDifference difference = difference_from(info);
    if (options_.extend && difference.length_and_rate) {
      return {};
    }
    constexpr std::string_view kElsewhere = "give this run a directory of its own with -C or `checkpoint { dir }`";
    Error error = content_error("XG0701",
                                {"{} is of another model, data or training (math digest {:.8}, this run has {:.8})",
                                 info.path, info.manifest.math_digest, options_.math_digest},
                                difference.length_and_rate
                                    ? fmt::format("go on with the new length and rate: --extend; or {}", kElsewhere)
                                    : std::string(kElsewhere));
    error.notes = difference.lines;
    return error;
  }

 private:
  int rank() const { return options_.peers == nullptr ? 0 : options_.peers->rank(); }

  // Rank 0 does it, and all ranks get what it gives.
  template <typename Work>
  Result<std::string> lead(const Work& work) {
    if (options_.peers == nullptr) {
      return work();
    }
    return options_.peers->broadcast(rank() == 0 ? work() : Result<std::string>(std::string()));
  }

  // The files of all ranks, by rank.
  Result<std::vector<ManifestFile>> gather_files(Result<std::vector<ManifestFile>> mine) {
    if (options_.peers == nullptr) {
      return mine;
    }
    const auto in_words = [&]() -> Result<std::string> {
      XRUN_ASSIGN(const auto own, std::move(mine));
      std::string text;
      for (const ManifestFile& file : own) {
        text += fmt::format("{} {} {}\n", file.bytes, file.xxh3, file.name);
      }
      return text;
    };
    XRUN_ASSIGN(const auto texts, options_.peers->gather(in_words()));
    std::vector<ManifestFile> files;
    for (const std::string& said : texts) {
      std::istringstream in(said);
      ManifestFile file;
      while (in >> file.bytes >> file.xxh3 && in.get() == ' ' && std::getline(in, file.name)) {
        files.push_back(file);
      }
    }
    return files;
  }

  // What makes the files of a step a checkpoint, and takes the place of older ones.
  Status write_manifest(PendingDirectory& pending, int64_t step, int64_t samples,
                        const std::vector<ManifestFile>& files, SavedCheckpoint& saved) {
    Manifest manifest{.step = step,
                      .samples = samples,
                      .seed = options_.seed,
                      .math_digest = options_.math_digest,
                      .version = options_.version,
                      .isa = options_.isa,
                      .libraries = options_.libraries,
                      .deterministic = options_.deterministic,
                      .classes_named = static_cast<int64_t>(options_.class_names.size())};
    if (options_.epoch_samples > 0) {
      manifest.epoch = static_cast<double>(samples) / static_cast<double>(options_.epoch_samples);
    }
    manifest.history = history_;
    manifest.records = records_;
    XRUN_ASSIGN(manifest.class_names_xxh3, keep_class_names());
    manifest.files = files;
    const std::string model = print_model_text(options_.model);
    XRUN_TRY(pending.write(std::string(kModelFile), model));
    manifest.files.push_back(
        {std::string(kModelFile), static_cast<Bytes>(model.size()), xxh128(std::as_bytes(std::span(model)))});
    for (const ManifestFile& file : manifest.files) {
      saved.bytes += file.bytes;
    }
    // Class rows in files belong to the newest checkpoint alone: with it the older ones go, whatever is to be kept.
    if (Status done = publish(pending, manifest, saved.bytes); !done.ok()) {
      static_cast<void>(rows_.give_up());  // the first error is the one to tell
      return done;
    }
    rows_.switch_to_prepared();
    const bool newest_alone = !manifest.rows.empty();
    const auto is_old = [&](int64_t other) {
      const auto info = open_checkpoint(options_.directory + "/" + step_name(other));
      return info.ok() && is_own(info->manifest.math_digest) && (newest_alone || !is_best(other));
    };
    prune(options_.directory, step, newest_alone ? 1 : options_.keep, is_old, *options_.io);
    prune_class_names();
    return {};
  }

  Status publish(PendingDirectory& pending, Manifest& manifest, Bytes& bytes) {
    XRUN_ASSIGN(manifest.rows, rows_.prepare(manifest.step));
    manifest.format += manifest.rows.empty() ? 0 : 1;
    const std::string text = print_manifest(manifest);
    bytes += static_cast<Bytes>(text.size());
    XRUN_TRY(pending.write("manifest.json", text));
    return pending.publish();
  }

  Status load(const CheckpointInfo& info, TrainState& state) {
    XRUN_TRY(verify(info));
    XRUN_TRY(rows_.resume(info, state));
    return read_state(info, state, true);
  }

  // The ranks share out the files.
  Status verify(const CheckpointInfo& info) {
    Peers* const peers = options_.peers;
    if (peers == nullptr) {
      return verify_checkpoint(info);
    }
    CheckpointInfo part = info;
    part.manifest.files.clear();
    for (size_t i = static_cast<size_t>(rank()); i < info.manifest.files.size();
         i += static_cast<size_t>(peers->count())) {
      part.manifest.files.push_back(info.manifest.files[i]);
    }
    return peers->agree(verify_checkpoint(part));
  }

  RunDifference difference_from(const CheckpointInfo& info) const {
    return options_.compare ? options_.compare(info) : RunDifference();
  }

  // Of this run, before it was extended, too.
  bool is_own(const std::string& math_digest) const {
    return math_digest == options_.math_digest ||
           std::ranges::find(history_, math_digest, &HistoryEntry::math_digest) != history_.end();
  }

  bool is_best(int64_t step) const {
    return std::ranges::any_of(records_, [&](const Record& record) {
      return record.keep > 0 && std::ranges::find(record.best, step, &BestStep::step) != record.best.end();
    });
  }

  // The batches of a run are of one size.
  Status check_samples(const CheckpointInfo& info) const {
    const Manifest& manifest = info.manifest;
    int64_t samples = 0;
    const bool overflows = __builtin_mul_overflow(manifest.step, options_.batch, &samples);
    if (options_.batch > 0 && (overflows || samples != manifest.samples)) {
      return damaged(info.path + "/manifest.json",
                     fmt::format("has {} samples for {} steps of {}", manifest.samples, manifest.step, options_.batch));
    }
    return {};
  }

  // Writes the names at the first save, and again if somebody has taken them away. Gives their digest.
  Result<std::string> keep_class_names() {
    if (!options_.class_names.empty() && !class_names_in(options_.directory).contains(class_names_)) {
      XRUN_ASSIGN(class_names_, write_class_names(options_.directory, options_.class_names, *options_.io));
    }
    return class_names_;
  }

  // Names stay for as long as a manifest refers to them, or may: one that cannot be read.
  void prune_class_names() const {
    std::set<std::string> unused = class_names_in(options_.directory);
    unused.erase(class_names_);
    const auto steps = unused.empty() ? std::vector<int64_t>() : steps_in(options_.directory);
    for (const int64_t step : steps) {
      const auto info = open_checkpoint(options_.directory + "/" + step_name(step));
      if (!info.ok()) {
        return;
      }
      unused.erase(info->manifest.class_names_xxh3);
    }
    for (const std::string& digest : unused) {
      remove_class_names(options_.directory, digest, *options_.io);
    }
  }

  // Fails early when the disk is plainly too full; a quota or a limit shows only while writing.
  Status check_space(const TrainState& state) const {
    Bytes need = kMiB;
    for (const StateTensor& tensor : state.tensors()) {
      need += tensor.kept && !state.lies_in_file(tensor) ? tensor.row_bytes() * tensor.rows() : 0;
    }
    struct statvfs info {};
    if (::statvfs(options_.directory.c_str(), &info) == 0 &&
        static_cast<double>(info.f_bavail) * static_cast<double>(info.f_frsize) < static_cast<double>(need)) {
      Error error = checkpoint_write_error(options_.directory, ENOSPC);
      error.message += fmt::format(" (a checkpoint needs {})", format_bytes(need));
      return error;
    }
    return {};
  }

  std::vector<WarnEvent> warnings_of(const Manifest& manifest) const {
    std::vector<WarnEvent> warnings;
    if (const std::string others = others_of(manifest); !others.empty()) {
      warnings.push_back({"XG0703", fmt::format("{} was written with {}: {}", step_name(manifest.step), others,
                                                options_.deterministic
                                                    ? "from here on the bits are not those of a run with either alone"
                                                    : "results go on within a tolerance")});
    }
    // The digest knows how data are declared, not what lies in their files.
    const auto then = manifest.epoch > 0
                          ? static_cast<int64_t>(std::llround(static_cast<double>(manifest.samples) / manifest.epoch))
                          : 0;
    if (then > 0 && options_.epoch_samples > 0 && then != options_.epoch_samples) {
      warnings.push_back(
          {"XG0704", fmt::format("{} was trained on {} samples, now there are {}: epochs are counted anew",
                                 step_name(manifest.step), format_count(then), format_count(options_.epoch_samples))});
    }
    return warnings;
  }

  // Other kernels go on within the tolerance of the first ones, not with their bits (docs/determinism.md, "What it
  // excludes"). Versions matter to bits only; where a manifest names no version, nothing is known of it.
  std::string others_of(const Manifest& manifest) const {
    std::string others;
    const auto compare = [&](std::string_view what, const std::string& then, const std::string& now) {
      if (!then.empty() && !now.empty() && then != now) {
        others += fmt::format("{}{} {} (now {})", others.empty() ? "" : ", ", what, then, now);
      }
    };
    compare("instruction set", manifest.isa, options_.isa);
    if (options_.deterministic) {
      compare("xrun", manifest.version, options_.version);
      for (const auto& [name, version] : options_.libraries) {
        const auto at = manifest.libraries.find(name);
        compare(name, at == manifest.libraries.end() ? "" : at->second, version);
      }
    }
    return others;
  }

  std::optional<std::string> older_than(int64_t step) const {
    auto steps = steps_in(options_.directory);
    std::erase_if(steps, [&](int64_t other) { return other >= step; });
    return steps.empty() ? std::nullopt : std::optional(options_.directory + "/" + step_name(steps.back()));
  }

  CheckpointOptions options_;
  std::optional<DirectoryLock> lock_;  // rank 0 has it
  RunRows rows_;
  std::vector<HistoryEntry> history_;
  std::vector<Record> records_;
  std::string class_names_;  // digest; empty before the first save, and where the data name no classes
};

}  // namespace

namespace {

// The store of a process that may write.
Result<std::unique_ptr<CheckpointStore>> make_leading_store(const CheckpointOptions& options) {
  XRUN_ASSIGN(auto lock, DirectoryLock::take(options.directory, *options.io));
  XRUN_ASSIGN(const auto newest, newest_in(options.directory));
  auto store = std::make_unique<Store>(options, std::move(lock));
  if (newest) {
    // One that cannot be read is for `resume` to tell of.
    const auto info = open_checkpoint(options.directory + "/" + *newest);
    if (info.ok()) {
      XRUN_TRY(store->check_digest(*info));
    }
  }
  return std::unique_ptr<CheckpointStore>(std::move(store));
}

// Whether all ranks see the directory of rank 0, by a file that it makes there under the name of an unfinished one.
Status check_same_directory(const CheckpointOptions& options) {
  Peers& peers = *options.peers;
  const bool leads = peers.rank() == 0;
  const std::string tail = leads ? pending_tail() : "";
  XRUN_ASSIGN(const std::string said, peers.broadcast([&]() -> Result<std::string> {
    const std::string path = fmt::format("{}/latest{}", options.directory, tail);
    const int fault = leads ? write_durably(path, std::span<const std::byte>(), *options.io) : 0;
    if (fault != 0) {
      return checkpoint_write_error(path, fault);
    }
    return fmt::format("latest{}", tail);
  }()));
  const std::string path = fmt::format("{}/{}", options.directory, said);
  Status seen;
  if (::access(path.c_str(), W_OK) != 0) {
    seen = world_error("XG0711",
                       {"{} is not the directory of that name which {} sees: {}", options.directory, peers.name(0),
                        std::strerror(errno)},
                       "name a directory on a file system that all hosts share: -C DIR");
  }
  seen = peers.agree(std::move(seen));
  if (leads) {
    options.io->unlink(path);
  }
  return seen;
}

}  // namespace

Result<std::unique_ptr<CheckpointStore>> make_checkpoint_store(CheckpointOptions options) {
  if (options.peers == nullptr) {
    return make_leading_store(options);
  }
  std::unique_ptr<CheckpointStore> store;
  Status made;
  if (options.peers->rank() == 0) {
    auto leading = make_leading_store(options);
    if (leading.ok()) {
      store = std::move(leading).value();
    } else {
      made = std::move(leading).error();
    }
  } else {
    store = std::make_unique<Store>(options, std::nullopt);
  }
  XRUN_TRY(options.peers->agree(std::move(made)));
  XRUN_TRY(check_same_directory(options));
  return store;
}

bool is_checkpoint(const std::string& path) {
  const auto directory = step_directory(path);
  return !directory.ok() || directory->has_value();  // what cannot be read is told when it is opened
}

Result<CheckpointInfo> open_checkpoint(const std::string& path) {
  XRUN_ASSIGN(const auto directory, step_directory(path));
  if (!directory) {
    return nothing_at(path);
  }
  CheckpointInfo info{.path = *directory};
  const std::string name = info.path + "/manifest.json";
  XRUN_ASSIGN(const std::string text, read_text(name, kMostManifestBytes));
  XRUN_ASSIGN(info.manifest, parse_manifest(text, name));
  const auto step = step_of_name(fs::path(info.path).filename().string());
  if (step && *step != info.manifest.step) {
    return damaged(name, fmt::format("is of step {}, not of the one that its directory names", info.manifest.step));
  }
  info.bytes = static_cast<Bytes>(text.size());
  for (const ManifestFile& file : info.manifest.files) {
    if (file.bytes > std::numeric_limits<Bytes>::max() - info.bytes) {
      return damaged(name, "names more bytes than there can be");
    }
    info.bytes += file.bytes;
  }
  return info;
}

Status verify_checkpoint(const CheckpointInfo& info) {
  for (const ManifestFile& file : info.manifest.files) {
    const std::string path = info.path + "/" + file.name;
    Xxh128 hash;
    XRUN_TRY(stream_file(path, file.bytes, [&](std::span<const std::byte> piece) -> Status {
      hash.add(piece);
      return {};
    }));
    if (hash.hex() != file.xxh3) {
      return damaged(path, "does not have the digest of what was written");
    }
  }
  return {};
}

Result<std::vector<std::string>> read_class_names(const CheckpointInfo& info) {
  const Manifest& manifest = info.manifest;
  if (manifest.class_names_xxh3.empty()) {
    return manifest.class_names;
  }
  return read_class_names(info.path + "/..", manifest.class_names_xxh3);
}

Status load_checkpoint(const CheckpointInfo& info, TrainState& state, bool optimizer) {
  XRUN_TRY(verify_checkpoint(info));
  XRUN_TRY(map_rows_of(info, state));
  return read_state(info, state, optimizer);
}

Result<std::string> describe_checkpoint(const std::string& path, bool json) {
  XRUN_ASSIGN(const CheckpointInfo info, open_checkpoint(path));
  XRUN_ASSIGN(const auto rows, list_state(info));
  const Manifest& m = info.manifest;
  if (json) {
    nlohmann::ordered_json out{{"v", 1},
                               {"path", info.path},
                               {"step", m.step},
                               {"epoch", m.epoch},
                               {"samples", m.samples},
                               {"seed", m.seed},
                               {"math_digest", m.math_digest},
                               {"version", m.version},
                               {"isa", m.isa},
                               {"libraries", m.libraries},
                               {"deterministic", m.deterministic},
                               {"history", nlohmann::ordered_json::array()},
                               {"records", nlohmann::ordered_json::array()},
                               {"bytes", info.bytes},
                               {"classes_named", m.classes_named},
                               {"tensors", nlohmann::ordered_json::array()}};
    for (const HistoryEntry& entry : m.history) {
      out["history"].push_back({{"until", entry.until}, {"changes", entry.changes}});
    }
    for (const Record& record : m.records) {
      auto best = nlohmann::ordered_json::array();
      for (const BestStep& one : record.best) {
        best.push_back({{"step", one.step}, {"value", one.value}});
      }
      out["records"].push_back({{"metric", record.metric}, {"highest", record.highest}, {"best", std::move(best)}});
    }
    for (const ManifestRows& one : m.rows) {
      out["rows"].push_back({{"head", one.head}, {"path", rows_path(info, one)}});
    }
    for (const StoredTensor& row : rows) {
      out["tensors"].push_back({{"name", row.name}, {"dtype", row.dtype}, {"shape", row.shape}});
    }
    return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  }
  std::string out = fmt::format("{}   step {}   epoch {:.3f}   {}   {} files\n", printable_line(info.path),
                                format_count(m.step), m.epoch, format_bytes(info.bytes), m.files.size());
  out += fmt::format("  math {:.8}   seed {}   isa {}   xrun {}{}\n\n", printable_line(m.math_digest), m.seed,
                     printable_line(m.isa), printable_line(m.version), m.deterministic ? "   deterministic" : "");
  for (const auto& [name, version] : m.libraries) {
    out.insert(out.size() - 2, fmt::format("   {} {}", printable_line(name), printable_line(version)));
  }
  for (const HistoryEntry& entry : m.history) {
    for (const std::string& change : entry.changes) {
      out.insert(out.size() - 1,
                 fmt::format("  until step {}   {}\n", format_count(entry.until), printable_line(change)));
    }
  }
  for (const Record& record : m.records) {
    std::string best;
    for (const BestStep& one : record.best) {
      best += fmt::format("   {:.2f} % at step {}", 100 * one.value, format_count(one.step));
    }
    out.insert(out.size() - 1,
               fmt::format("  {} {}{}\n", record.highest ? "highest" : "lowest", printable_line(record.metric), best));
  }
  for (const ManifestRows& one : m.rows) {
    out.insert(out.size() - 1, fmt::format("  rows of {} in {}, for as long as no later step is saved\n",
                                           printable_line(one.head), printable_line(rows_path(info, one))));
  }
  size_t width = 0;
  size_t dtype_width = 4;
  for (const StoredTensor& row : rows) {
    width = std::max(width, row.name.size());
    dtype_width = std::max(dtype_width, row.dtype.size());
  }
  for (const StoredTensor& row : rows) {
    out += fmt::format("  {:<{}}   {:<{}} [{}]\n", printable_line(row.name), width, printable_line(row.dtype),
                       dtype_width, fmt::join(row.shape, ", "));
  }
  return out;
}

}  // namespace xrun::runtime
