#include "runtime/checkpoint/copies/second_copy.h"

#include <algorithm>
#include <filesystem>
#include <new>
#include <sys/stat.h>
#include <utility>

#include "graph/base/errors.h"
#include "graph/os/durable.h"
#include "runtime/checkpoint/copies/retention.h"
#include "runtime/checkpoint/files/class_names.h"
#include "runtime/checkpoint/files/copy_file.h"
#include "runtime/checkpoint/files/directory.h"
#include "runtime/checkpoint/files/read_file.h"
#include "runtime/checkpoint/tensors/checkpoint.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCode = "XG0720";
constexpr const char* kElsewhere = "name a directory on another disk: `checkpoint { copy }`";

// Whether `path` is `directory` or lies in it, as far as it exists; links are followed.
bool is_inside(const std::string& path, const std::string& directory) {
  std::error_code error;
  const fs::path outer = fs::weakly_canonical(directory, error);
  const fs::path inner = error ? fs::path() : fs::weakly_canonical(path, error);
  if (error) {
    return false;  // the error is reported when the lock is taken
  }
  return std::ranges::mismatch(outer, inner).in1 == outer.end();
}

Error not_writable(Error error, const std::string& path) {
  error.help = error.code == "XG0712"
                   ? "give each run, and each host of a run, a directory of its own: `checkpoint { copy }`"
                   : "give this user the right to write there, or name another directory: `checkpoint { copy }`";
  error.message = "no second copies of checkpoints in " + path + ": " + error.message;
  error.code = error.code == "XG0712" ? error.code : std::string(kCode);
  return error;
}

}  // namespace

Result<std::unique_ptr<SecondCopy>> SecondCopy::open(std::string directory, std::string path, int64_t keep, Io& io) {
  while (path.size() > 1 && path.ends_with('/')) {
    path.pop_back();
  }
  if (is_inside(path, directory)) {
    return content_error(
        kCode, {"{} cannot hold second copies: it is inside the directory of the checkpoints, {}", path, directory},
        kElsewhere);
  }
  auto lock = DirectoryLock::take(path, io);
  if (!lock.ok()) {
    return not_writable(std::move(lock).error(), path);
  }
  std::error_code ignored;
  if (fs::equivalent(path, directory, ignored)) {  // the paths differ, but the directory is mounted at both
    return content_error(kCode, {"{} cannot hold second copies: it is the directory of the checkpoints", path},
                         kElsewhere);
  }
  return std::unique_ptr<SecondCopy>(
      new SecondCopy(std::move(directory), std::move(path), keep, io, std::move(lock).value()));
}

SecondCopy::SecondCopy(std::string directory, std::string path, int64_t keep, Io& io, DirectoryLock lock)
    : directory_(std::move(directory)), path_(std::move(path)), keep_(keep), io_(io), lock_(std::move(lock)) {}

SecondCopy::~SecondCopy() { given_up_ = true; }

void SecondCopy::begin(int64_t step, CopyShare share) {
  work_.reset();
  work_.emplace(1, [this, step, share = std::move(share)](ops::Workers& /*workers*/) {
    try {
      outcome_ = copy(step, share);
    } catch (const std::bad_alloc&) {
      outcome_ = Error{ErrorKind::kWorld, "", "out of memory", "close other programs"};
    }
  });
}

void SecondCopy::wait() {
  if (work_) {
    work_->wait();
  }
}

Result<Bytes> SecondCopy::copy(int64_t step, const CopyShare& share) {
  const std::string from = directory_ + "/" + step_name(step);
  XRUN_ASSIGN(const std::string text, read_text(from + "/manifest.json", kMostManifestBytes));
  XRUN_ASSIGN(const CheckpointInfo info, parse_checkpoint(from, text));
  XRUN_ASSIGN(PendingDirectory pending, PendingDirectory::make(path_, step_name(step), io_));
  auto bytes = static_cast<Bytes>(text.size());
  for (const ManifestFile& file : info.manifest.files) {
    if (share.names.contains(file.name)) {
      XRUN_TRY(copy_file(from + "/" + file.name, file, pending.path() + "/" + file.name, io_, &given_up_));
      bytes += file.bytes;
    }
  }
  for (const ManifestClasses& classes : info.manifest.classes) {
    if (share.class_names && !classes.xxh3.empty()) {
      XRUN_TRY(copy_class_names(classes.xxh3));
    }
  }
  XRUN_TRY(pending.write("manifest.json", text));
  XRUN_TRY(pending.publish());
  remove_old(path_, info.manifest, keep_, {}, io_);
  return bytes;
}

// Copies the file of class names unless it was copied before, since all steps share it.
Status SecondCopy::copy_class_names(const std::string& digest) {
  const std::string name = class_names_file(digest);
  const std::string from = directory_ + "/" + name;
  const std::string to = path_ + "/" + name;
  struct stat info {};
  if (class_names_.contains(digest) && ::lstat(to.c_str(), &info) == 0) {
    return {};
  }
  if (::lstat(from.c_str(), &info) != 0) {
    return damaged(from, "is missing");
  }
  const ManifestFile file{.name = name, .bytes = info.st_size, .xxh3 = digest};
  if (!verify_file(to, file).ok()) {
    const std::string fresh = to + pending_tail();
    XRUN_TRY(copy_file(from, file, fresh, io_, &given_up_));
    int fault = io_.rename(fresh, to);
    fault = fault == 0 ? sync_directory(path_, io_) : fault;
    if (fault != 0) {
      io_.unlink(fresh);
      return checkpoint_write_error(to, fault);
    }
  }
  class_names_.insert(digest);
  return {};
}

}  // namespace xrun::runtime
