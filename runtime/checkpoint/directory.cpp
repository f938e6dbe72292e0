#include "runtime/checkpoint/directory.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <iterator>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "graph/base/durable.h"
#include "graph/base/errors.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStep = "step-";
constexpr std::string_view kPending = ".tmp-";

Status written(const std::string& path, int fault) {
  return fault == 0 ? Status() : checkpoint_write_error(path, fault);
}

Status write_file(const std::string& path, const std::string& text) {
  return written(path, write_durably(path, std::as_bytes(std::span(text))));
}

Error cannot_look(const std::string& path, int number) {
  return world_error("XG0713", {"cannot look into {}: {}", path, std::strerror(number)},
                     "give this user the right to read it, or name another checkpoint");
}

// Of a short file; empty where there is no file.
Result<std::string> first_line(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return errno == ENOENT || errno == ENOTDIR ? Result<std::string>(std::string()) : cannot_look(path, errno);
  }
  char text[256];
  const ssize_t got = ::read(file, text, sizeof text);
  const int number = errno;
  ::close(file);
  if (got < 0 && number != EISDIR) {
    return cannot_look(path, number);
  }
  const std::string_view all(text, static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return std::string(all.substr(0, all.find('\n')));
}

std::optional<Owner> owner_of_name(std::string_view name) {
  const size_t at = name.find(kPending);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view tail = name.substr(at + kPending.size());
  return parse_owner(tail.substr(0, tail.find('-')));
}

// Takes the manifest away first, so that a removal that is cut short leaves nothing that looks whole.
void remove_step(const std::string& path) {
  ::unlink((path + "/manifest.json").c_str());
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

}  // namespace

std::string pending_tail() {
  uint64_t bits = 0;
  if (::getrandom(&bits, sizeof bits, 0) != sizeof bits) {
    bits = 0;
  }
  return fmt::format("{}{}-{:016x}", kPending, to_text(this_process()), bits);
}

Error checkpoint_write_error(const std::string& path, int number) {
  const bool full = number == ENOSPC || number == EDQUOT || number == EFBIG;
  return world_error("XG0711", {"cannot write {}: {}", path, std::strerror(number)},
                     full ? "free some space, or choose another directory with -C or `checkpoint { dir }`"
                          : "choose another directory with -C or `checkpoint { dir }`");
}

std::string step_name(int64_t step) { return fmt::format("{}{:06}", kStep, step); }

std::optional<int64_t> step_of_name(const std::string& name) {
  if (!name.starts_with(kStep)) {
    return std::nullopt;
  }
  int64_t step = 0;
  const char* first = name.data() + kStep.size();
  const char* last = name.data() + name.size();
  const auto [end, fault] = std::from_chars(first, last, step);
  return fault == std::errc() && end == last && step >= 0 && step_name(step) == name ? std::optional(step)
                                                                                     : std::nullopt;
}

std::vector<int64_t> steps_in(const std::string& directory) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator at(directory, error); !error && at != fs::directory_iterator(); at.increment(error)) {
    const auto step = step_of_name(at->path().filename().string());
    std::error_code ignored;
    if (step && fs::exists(at->path() / "manifest.json", ignored)) {
      steps.push_back(*step);
    }
  }
  std::ranges::sort(steps);
  return steps;
}

Result<bool> is_step(const std::string& path) {
  struct stat what {};
  if (::stat((path + "/manifest.json").c_str(), &what) == 0) {
    return true;
  }
  return errno == ENOENT || errno == ENOTDIR ? Result<bool>(false) : Result<bool>(cannot_look(path, errno));
}

Result<std::optional<std::string>> newest_in(const std::string& directory) {
  std::vector<std::string> names;
  XRUN_ASSIGN(const std::string name, first_line(directory + "/latest"));
  if (step_of_name(name)) {
    names.push_back(name);
  }
  std::error_code error;
  std::vector<int64_t> steps;
  for (fs::directory_iterator at(directory, error); !error && at != fs::directory_iterator(); at.increment(error)) {
    if (const auto step = step_of_name(at->path().filename().string())) {
      steps.push_back(*step);
    }
  }
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory) {
    return cannot_look(directory, error.value());
  }
  std::ranges::sort(steps, std::greater());
  std::ranges::transform(steps, std::back_inserter(names), step_name);
  for (const std::string& candidate : names) {
    XRUN_ASSIGN(const bool whole, is_step(directory + "/" + candidate));
    if (whole) {
      return std::optional(candidate);
    }
  }
  return std::optional<std::string>();
}

Result<PendingDirectory> PendingDirectory::make(const std::string& parent, const std::string& name) {
  PendingDirectory made;
  made.parent_ = parent;
  made.name_ = name;
  std::string path = fmt::format("{}/{}{}", parent, name, pending_tail());
  if (::mkdir(path.c_str(), 0755) != 0) {
    return checkpoint_write_error(path, errno);
  }
  made.path_ = std::move(path);
  return made;
}

PendingDirectory::PendingDirectory(PendingDirectory&& other) noexcept
    : parent_(std::move(other.parent_)), name_(std::move(other.name_)), path_(std::exchange(other.path_, "")) {}

PendingDirectory::~PendingDirectory() {
  if (!path_.empty()) {
    remove_step(path_);
  }
}

Status PendingDirectory::write(const std::string& name, const std::string& text) const {
  return write_file(path_ + "/" + name, text);
}

int exchange_in_one_move(const char* a, const char* b) {
  return ::renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) == 0 ? 0 : errno;
}

int change_places(const std::string& fresh, const std::string& old, ExchangeCall in_one_move) {
  const int fault = in_one_move(fresh.c_str(), old.c_str());
  if (fault != EINVAL && fault != ENOSYS && fault != EOPNOTSUPP) {
    return fault;
  }
  // Network file systems know no exchange. The step is away for a moment; `latest` still names a whole one, or none.
  const std::string aside = old + pending_tail();
  if (::rename(old.c_str(), aside.c_str()) != 0) {
    return errno;
  }
  if (::rename(fresh.c_str(), old.c_str()) != 0) {
    const int number = errno;
    ::rename(aside.c_str(), old.c_str());
    return number;
  }
  return ::rename(aside.c_str(), fresh.c_str()) == 0 ? 0 : errno;
}

Status PendingDirectory::publish() {
  XRUN_TRY(written(path_, sync_directory(path_)));
  // All that can fail for want of space comes before the step has its name.
  const std::string pending = fmt::format("{}/latest{}", parent_, pending_tail());
  Status status = write_file(pending, name_ + "\n");
  if (status.ok()) {
    status = rename_both(pending);
  }
  if (!status.ok()) {
    ::unlink(pending.c_str());
  }
  return status;
}

Status PendingDirectory::rename_both(const std::string& latest) {
  const std::string target = parent_ + "/" + name_;
  // A step that is there already changes places with the new one in one move.
  bool replaced = false;
  if (::rename(path_.c_str(), target.c_str()) != 0) {
    if (errno != ENOTEMPTY && errno != EEXIST) {
      return checkpoint_write_error(target, errno);
    }
    XRUN_TRY(written(target, change_places(path_, target)));
    replaced = true;
  }
  XRUN_TRY(written(parent_, sync_directory(parent_)));
  if (replaced) {
    remove_step(path_);
  }
  path_.clear();
  if (::rename(latest.c_str(), (parent_ + "/latest").c_str()) != 0) {
    return checkpoint_write_error(parent_ + "/latest", errno);
  }
  return written(parent_, sync_directory(parent_));
}

void remove_pending(const std::string& directory, const std::function<bool(const Owner&)>& wanted) {
  std::error_code error;
  std::vector<std::string> left;
  for (fs::directory_iterator at(directory, error); !error && at != fs::directory_iterator(); at.increment(error)) {
    const auto owner = owner_of_name(at->path().filename().string());
    if (owner && wanted(*owner)) {
      left.push_back(at->path().string());
    }
  }
  for (const std::string& path : left) {
    remove_step(path);
  }
}

void prune(const std::string& directory, int64_t step, int64_t keep) {
  remove_pending(directory, [here = this_process()](const Owner& owner) { return owner == here || has_ended(owner); });
  // Steps beyond this one belong to a course that was given up; they are the user's to remove.
  auto steps = steps_in(directory);
  std::erase_if(steps, [&](int64_t other) { return other >= step; });
  for (size_t i = 0; i + static_cast<size_t>(std::max<int64_t>(keep, 1)) <= steps.size(); ++i) {
    remove_step(directory + "/" + step_name(steps[i]));
  }
}

}  // namespace xrun::runtime
