#include "runtime/checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "runtime/checkpoint_directory.h"
#include "runtime/safetensors.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kChunk = 4 * kMiB;
constexpr Bytes kLargestManifest = 4 * kGiB;

Error broken(std::string_view file, std::string_view why) {
  return {.kind = ErrorKind::kContent,
          .code = "XG0710",
          .message = fmt::format("{} {}", file, why),
          .help = "the checkpoint is damaged: use an older one"};
}

Error nothing_at(std::string_view path, int number) {
  const bool missing = number == ENOENT || number == ENOTDIR;
  return {.kind = missing ? ErrorKind::kContent : ErrorKind::kWorld,
          .code = "XG0713",
          .message = fmt::format("no checkpoint at {}: {}", path, std::strerror(number)),
          .help = missing ? "name a step directory, the directory that holds it, or `latest`" : ""};
}

// Calls `use` with the bytes of a file, piece by piece.
template <typename Use>
Status stream_file(const std::string& path, Use use) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return errno == ENOENT ? broken(path, "is missing") : nothing_at(path, errno);
  }
  std::vector<std::byte> buffer(static_cast<size_t>(kChunk));
  Status done;
  while (done.ok()) {
    const ssize_t got = ::read(file, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      done = got < 0 ? Status(nothing_at(path, errno)) : Status();
      break;
    }
    done = use(std::span(buffer).first(static_cast<size_t>(got)));
  }
  ::close(file);
  return done;
}

// The step directory that a path means.
std::optional<std::string> step_directory(const std::string& path) {
  std::error_code ignored;
  std::string given = path;
  while (given.size() > 1 && given.ends_with('/')) {
    given.pop_back();
  }
  if (fs::exists(given + "/manifest.json", ignored)) {
    return given;
  }
  const fs::path as_path(given);
  if (as_path.filename() == "latest" && !fs::is_directory(given, ignored)) {
    const std::string parent = as_path.parent_path().empty() ? "." : as_path.parent_path().string();
    const auto newest = newest_in(parent);
    return newest ? std::optional(parent + "/" + *newest) : std::nullopt;
  }
  const auto newest = newest_in(given);
  return newest ? std::optional(given + "/" + *newest) : std::nullopt;
}

// ---- loading ---------------------------------------------------------------------------------------------------

// Rows of a tensor in one of the files.
struct StoredRows {
  size_t file = 0;
  SafeTensor tensor;
  int64_t row_begin = 0;
  int64_t row_end = 0;
};

struct StoredTensors {
  std::vector<SafetensorsFile> files;
  std::map<std::string, std::vector<StoredRows>> rows;  // by tensor, ascending
};

std::optional<int64_t> whole(const std::map<std::string, std::string>& metadata, const std::string& key) {
  const auto at = metadata.find(key);
  if (at == metadata.end() || at->second.empty() || at->second.size() > 18 ||
      at->second.find_first_not_of("0123456789") != std::string::npos) {
    return std::nullopt;
  }
  return std::stoll(at->second);
}

Result<StoredTensors> open_files(const CheckpointInfo& info) {
  StoredTensors stored;
  for (const ManifestFile& entry : info.manifest.files) {
    const std::string path = info.path + "/" + entry.name;
    XRUN_ASSIGN(SafetensorsFile file, SafetensorsFile::open(path));
    const auto& metadata = file.header().metadata;
    const bool head = metadata.contains("tensor");
    const auto begin = whole(metadata, "row_begin");
    const auto end = whole(metadata, "row_end");
    if (head && (!begin || !end)) {
      return broken(path, "does not say which rows it holds");
    }
    for (const SafeTensor& tensor : file.header().tensors) {
      const int64_t rows = tensor.shape.empty() ? 1 : tensor.shape[0];
      const StoredRows part{stored.files.size(), tensor, head ? *begin : 0, head ? *end : rows};
      if (part.row_end - part.row_begin != rows) {
        return broken(
            path, fmt::format("has {} rows of `{}`, but says {}", rows, tensor.name, part.row_end - part.row_begin));
      }
      stored.rows[tensor.name].push_back(part);
    }
    stored.files.push_back(std::move(file));
  }
  for (auto& [name, parts] : stored.rows) {
    std::ranges::sort(parts, {}, &StoredRows::row_begin);
  }
  return stored;
}

std::string shape_text(const std::vector<int64_t>& dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }

// The stored form of `tensor`, or what is wrong with it. `found` stays null where it is not there.
Status find_rows(const CheckpointInfo& info, const StoredTensors& stored, const StateTensor& tensor,
                 const std::vector<StoredRows>*& found) {
  const auto at = stored.rows.find(tensor.name);
  if (at == stored.rows.end()) {
    return Error{.kind = ErrorKind::kContent,
                 .code = "XG0702",
                 .message = fmt::format("the checkpoint {} has no `{}` {}", info.path, tensor.name,
                                        shape_text(tensor.type.dims)),
                 .help = "take the checkpoint of this model, or the model of this checkpoint"};
  }
  int64_t next = 0;
  for (const StoredRows& part : at->second) {
    std::vector<int64_t> dims = part.tensor.shape;
    if (!dims.empty()) {
      dims[0] = tensor.rows();
    }
    if (dims != tensor.type.dims || part.tensor.dtype != safetensors_name(tensor.type.dtype)) {
      return Error{
          .kind = ErrorKind::kContent,
          .code = "XG0702",
          .message = fmt::format("`{}` is {} in the model, but {} {} in the checkpoint {}", tensor.name,
                                 to_text(tensor.type), part.tensor.dtype, shape_text(part.tensor.shape), info.path),
          .help = "take the checkpoint of this model, or the model of this checkpoint"};
    }
    if (part.row_begin != next) {
      return broken(info.path, fmt::format("has rows of `{}` twice or not at all, at row {}", tensor.name, next));
    }
    next = part.row_end;
  }
  if (next != tensor.rows()) {
    return Error{.kind = ErrorKind::kContent,
                 .code = "XG0702",
                 .message = fmt::format("`{}` has {} rows in the model, but {} in the checkpoint {}", tensor.name,
                                        format_count(tensor.rows()), format_count(next), info.path),
                 .help = "give the head as many classes as the checkpoint has"};
  }
  found = &at->second;
  return {};
}

Status load_info(const CheckpointInfo& info, TrainState& state, bool optimizer) {
  XRUN_TRY(verify_checkpoint(info));
  XRUN_ASSIGN(const StoredTensors stored, open_files(info));
  // Everything is looked up before anything is written.
  std::vector<std::pair<const StateTensor*, const std::vector<StoredRows>*>> wanted;
  for (const StateTensor& tensor : state.tensors()) {
    if (tensor.role != StateTensor::Role::kOptimizer || optimizer) {
      const std::vector<StoredRows>* rows = nullptr;
      XRUN_TRY(find_rows(info, stored, tensor, rows));
      wanted.emplace_back(&tensor, rows);
    }
  }
  std::vector<std::byte> buffer;
  for (const auto& [tensor, parts] : wanted) {
    const Bytes row_bytes = tensor->row_bytes();
    const int64_t step = std::max<int64_t>(1, row_bytes == 0 ? INT64_MAX : kChunk / row_bytes);
    for (const StoredRows& part : *parts) {
      for (int64_t row = part.row_begin; row < part.row_end && row_bytes > 0; row += step) {
        const int64_t end = std::min(part.row_end, row + step);
        buffer.resize(static_cast<size_t>((end - row) * row_bytes));
        XRUN_TRY(stored.files[part.file].read(part.tensor, (row - part.row_begin) * row_bytes, buffer));
        state.write_rows(*tensor, row, end, buffer.data());
      }
    }
  }
  return {};
}

// ---- saving ----------------------------------------------------------------------------------------------------

// One file to be: rows [row_begin, row_end) of some tensors, or all of each.
struct FilePlan {
  std::string name;
  std::vector<const StateTensor*> tensors;
  bool head = false;
  int64_t row_begin = 0;
  int64_t row_end = 0;
};

std::vector<FilePlan> plan_files(const TrainState& state, Bytes range_bytes) {
  FilePlan trunk{.name = "trunk.safetensors"};
  FilePlan optimizer{.name = "trunk.optim.safetensors"};
  std::map<std::string, std::vector<const StateTensor*>> heads;
  for (const StateTensor& tensor : state.tensors()) {
    if (!tensor.head.empty()) {
      heads[tensor.head].push_back(&tensor);
    } else {
      (tensor.role == StateTensor::Role::kOptimizer ? optimizer : trunk).tensors.push_back(&tensor);
    }
  }
  std::vector<FilePlan> files{trunk};
  if (!optimizer.tensors.empty()) {
    files.push_back(optimizer);
  }
  for (const auto& [head, tensors] : heads) {
    Bytes row_bytes = 0;
    for (const StateTensor* tensor : tensors) {
      row_bytes += tensor->row_bytes();
    }
    const int64_t rows = tensors[0]->rows();
    int64_t range = std::max<int64_t>(1, range_bytes / std::max<Bytes>(row_bytes, 1));
    range = range > 64 ? range / 64 * 64 : range;
    for (int64_t row = 0; row < rows; row += range) {
      files.push_back({.name = fmt::format("head.{}.r{:010}.safetensors", head, row),
                       .tensors = tensors,
                       .head = true,
                       .row_begin = row,
                       .row_end = std::min(rows, row + range)});
    }
  }
  return files;
}

Result<ManifestFile> write_file(const TrainState& state, const FilePlan& plan, const std::string& directory) {
  std::vector<SafeTensor> tensors;
  std::map<std::string, std::string> metadata{{"format", "xrun 1"}};
  for (const StateTensor* tensor : plan.tensors) {
    SafeTensor one{
        .name = tensor->name, .dtype = std::string(safetensors_name(tensor->type.dtype)), .shape = tensor->type.dims};
    if (plan.head) {
      one.shape[0] = plan.row_end - plan.row_begin;
    }
    tensors.push_back(std::move(one));
  }
  if (plan.head) {
    metadata["tensor"] = plan.tensors[0]->name;
    metadata["row_begin"] = std::to_string(plan.row_begin);
    metadata["row_end"] = std::to_string(plan.row_end);
    metadata["rows"] = std::to_string(plan.tensors[0]->rows());
  }
  lay_out(tensors);
  XRUN_ASSIGN(auto writer, SafetensorsWriter::create(directory + "/" + plan.name, tensors, metadata));
  std::vector<std::byte> buffer;
  for (const SafeTensor& one : tensors) {
    const StateTensor& tensor = *state.find(one.name);
    const Bytes row_bytes = tensor.row_bytes();
    const int64_t end = plan.head ? plan.row_end : tensor.rows();
    const int64_t step = std::max<int64_t>(1, kChunk / std::max<Bytes>(row_bytes, 1));
    for (int64_t row = plan.row_begin; row < end && row_bytes > 0; row += step) {
      const int64_t last = std::min(end, row + step);
      buffer.resize(static_cast<size_t>((last - row) * row_bytes));
      state.read_rows(tensor, row, last, buffer.data());
      XRUN_TRY(writer.write(buffer));
    }
  }
  XRUN_TRY(writer.finish());
  return ManifestFile{plan.name, writer.bytes(), writer.digest()};
}

class Store final : public CheckpointStore {
 public:
  Store(CheckpointOptions options, DirectoryLock lock) : options_(std::move(options)), lock_(std::move(lock)) {}

  Result<SavedCheckpoint> save(const TrainState& state, int64_t step, int64_t samples) override {
    XRUN_TRY(check_space(state));
    XRUN_ASSIGN(auto pending, PendingDirectory::make(options_.directory, step_name(step)));
    Manifest manifest{.step = step,
                      .samples = samples,
                      .seed = options_.seed,
                      .math_digest = options_.math_digest,
                      .version = options_.version,
                      .isa = options_.isa,
                      .libraries = options_.libraries,
                      .deterministic = options_.deterministic,
                      .class_names = options_.class_names};
    if (options_.epoch_samples > 0) {
      manifest.epoch = static_cast<double>(samples) / static_cast<double>(options_.epoch_samples);
    }
    SavedCheckpoint saved{.path = options_.directory + "/" + step_name(step)};
    for (const FilePlan& plan : plan_files(state, options_.range_bytes)) {
      XRUN_ASSIGN(ManifestFile file, write_file(state, plan, pending.path()));
      saved.bytes += file.bytes;
      manifest.files.push_back(std::move(file));
    }
    const std::string text = print_manifest(manifest);
    saved.bytes += static_cast<Bytes>(text.size());
    XRUN_TRY(pending.write("manifest.json", text));
    XRUN_TRY(pending.publish());
    prune(options_.directory, step, options_.keep);
    return saved;
  }

  Result<std::optional<Resumed>> resume(TrainState& state) override {
    std::string path = options_.resume;
    if (path == "never") {
      return std::optional<Resumed>();
    }
    if (path == "auto") {
      const auto newest = newest_in(options_.directory);
      if (!newest) {
        return std::optional<Resumed>();
      }
      path = options_.directory + "/" + *newest;
    }
    XRUN_ASSIGN(const CheckpointInfo info, open_checkpoint(path));
    XRUN_TRY(check_digest(info));
    if (Status loaded = load_info(info, state, true); !loaded.ok()) {
      Error error = std::move(loaded).error();
      if (const auto older = older_than(info.manifest.step); error.code == "XG0710" && older) {
        error.help = fmt::format("go on from an older one: --resume {}", *older);
      }
      return error;
    }
    return std::optional<Resumed>({.step = info.manifest.step, .path = info.path});
  }

  // A checkpoint of another run is neither gone on from nor written over.
  Status check_digest(const CheckpointInfo& info) const {
    if (info.manifest.math_digest != options_.math_digest) {
      return Error{
          .kind = ErrorKind::kContent,
          .code = "XG0701",
          .message = fmt::format("{} is of another model, data or training (math digest {:.8}, this run has {:.8})",
                                 info.path, info.manifest.math_digest, options_.math_digest),
          .help = "give this run a directory of its own with -C or `checkpoint { dir }`"};
    }
    return {};
  }

 private:
  // Fails early when the disk is plainly too full; a quota or a limit shows only while writing.
  Status check_space(const TrainState& state) const {
    Bytes need = kMiB;
    for (const StateTensor& tensor : state.tensors()) {
      need += tensor.row_bytes() * tensor.rows();
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

  std::optional<std::string> older_than(int64_t step) const {
    auto steps = steps_in(options_.directory);
    std::erase_if(steps, [&](int64_t other) { return other >= step; });
    return steps.empty() ? std::nullopt : std::optional(options_.directory + "/" + step_name(steps.back()));
  }

  CheckpointOptions options_;
  DirectoryLock lock_;
};

}  // namespace

Result<std::unique_ptr<CheckpointStore>> make_checkpoint_store(CheckpointOptions options) {
  XRUN_ASSIGN(auto lock, DirectoryLock::take(options.directory));
  const auto newest = newest_in(options.directory);
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

bool is_checkpoint(const std::string& path) { return step_directory(path).has_value(); }

Result<CheckpointInfo> open_checkpoint(const std::string& path) {
  const auto directory = step_directory(path);
  if (!directory) {
    return nothing_at(path, ENOENT);
  }
  CheckpointInfo info{.path = *directory};
  const std::string name = info.path + "/manifest.json";
  std::string text;
  XRUN_TRY(stream_file(name, [&](std::span<const std::byte> bytes) -> Status {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return static_cast<Bytes>(text.size()) > kLargestManifest ? Status(broken(name, "is too large")) : Status();
  }));
  XRUN_ASSIGN(info.manifest, parse_manifest(text, name));
  info.bytes = static_cast<Bytes>(text.size());
  for (const ManifestFile& file : info.manifest.files) {
    info.bytes += file.bytes;
  }
  return info;
}

Status verify_checkpoint(const CheckpointInfo& info) {
  for (const ManifestFile& file : info.manifest.files) {
    const std::string path = info.path + "/" + file.name;
    Xxh128 hash;
    Bytes bytes = 0;
    XRUN_TRY(stream_file(path, [&](std::span<const std::byte> piece) -> Status {
      hash.add(piece);
      bytes += static_cast<Bytes>(piece.size());
      return {};
    }));
    if (bytes != file.bytes) {
      return broken(path, fmt::format("has {} bytes, not {}", bytes, file.bytes));
    }
    if (hash.hex() != file.xxh3) {
      return broken(path, "does not have the digest of what was written");
    }
  }
  return {};
}

Status load_checkpoint(const std::string& path, TrainState& state, bool optimizer) {
  XRUN_ASSIGN(const CheckpointInfo info, open_checkpoint(path));
  return load_info(info, state, optimizer);
}

Result<std::string> describe_checkpoint(const std::string& path, bool json) {
  XRUN_ASSIGN(const CheckpointInfo info, open_checkpoint(path));
  XRUN_ASSIGN(const StoredTensors stored, open_files(info));
  const Manifest& m = info.manifest;
  struct Row {
    std::string name;
    std::vector<int64_t> shape;
    std::string dtype;
  };
  std::vector<Row> rows;
  for (const auto& [name, parts] : stored.rows) {
    Row row{name, parts[0].tensor.shape, parts[0].tensor.dtype};
    if (!row.shape.empty()) {
      row.shape[0] = parts.back().row_end;
    }
    rows.push_back(std::move(row));
  }
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
                               {"deterministic", m.deterministic},
                               {"bytes", info.bytes},
                               {"classes_named", m.class_names.size()},
                               {"tensors", nlohmann::ordered_json::array()}};
    for (const Row& row : rows) {
      out["tensors"].push_back({{"name", row.name}, {"dtype", row.dtype}, {"shape", row.shape}});
    }
    return out.dump() + "\n";
  }
  std::string out = fmt::format("{}   step {}   epoch {:.3f}   {}   {} files\n", info.path, format_count(m.step),
                                m.epoch, format_bytes(info.bytes), m.files.size());
  out += fmt::format("  math {:.8}   seed {}   isa {}   xrun {}{}\n\n", m.math_digest, m.seed, m.isa, m.version,
                     m.deterministic ? "   deterministic" : "");
  size_t width = 0;
  for (const Row& row : rows) {
    width = std::max(width, row.name.size());
  }
  for (const Row& row : rows) {
    out += fmt::format("  {:<{}}   {:<4} {}\n", row.name, width, row.dtype, shape_text(row.shape));
  }
  return out;
}

}  // namespace xrun::runtime
