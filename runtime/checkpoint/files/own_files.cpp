// Tests: tests/runtime/checkpoint/foreign_files_test.cpp, tests/fault_injection/power_cuts_test.cpp
#include "runtime/checkpoint/files/own_files.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "graph/os/durable.h"

namespace xrun::runtime {
namespace {

constexpr std::string_view kStep = "step-";
constexpr std::string_view kPending = ".tmp-";
constexpr std::string_view kFormer = ".was-";  // has the length of kPending
constexpr std::string_view kClasses = "classes-";
constexpr std::string_view kManifest = "manifest.json";
constexpr size_t kDrawnDigits = 16;

bool is_hex(std::string_view text, size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Whether `name` is a numbered file: "head.NAME.r0000000000.safetensors" with the number of its first row,
// "trunk.r0000000001.safetensors" with a rank, or "trunk.residual.3.r0000000001.safetensors" with a sender and a rank.
bool is_numbered_file(std::string_view name) {
  constexpr std::string_view kEnd = ".r0000000000.safetensors";
  const bool head = name.starts_with("head.") && name.size() > 5 + kEnd.size();
  const bool trunk = (name.starts_with("trunk.r") && name.size() == 5 + kEnd.size()) ||
                     (name.starts_with("trunk.optim.r") && name.size() == 11 + kEnd.size());
  constexpr std::string_view kResidual = "trunk.residual.";
  const std::string_view replica = name.starts_with(kResidual) && name.size() > kResidual.size() + kEnd.size()
                                       ? name.substr(kResidual.size(), name.size() - kResidual.size() - kEnd.size())
                                       : std::string_view();
  const bool residual = !replica.empty() && replica.find_first_not_of("0123456789") == std::string_view::npos;
  if (!head && !trunk && !residual) {
    return false;
  }
  const std::string_view end = name.substr(name.size() - kEnd.size());
  return std::ranges::equal(end, kEnd,
                            [](char c, char form) { return form == '0' ? c >= '0' && c <= '9' : c == form; });
}

bool is_file_of_step(std::string_view name) {
  return name == kManifest || name == "model.json" || name == "trunk.safetensors" ||
         name == "trunk.optim.safetensors" || is_numbered_file(name);
}

std::string tail_after(std::string_view mark) {
  uint64_t bits = 0;
  if (::getrandom(&bits, sizeof bits, 0) != sizeof bits) {
    bits = 0;
  }
  return fmt::format("{}{}-{:016x}", mark, to_text(this_process()), bits);
}

// Returns the names in a directory if all of them are ordinary files that a save writes; else nullopt.
std::optional<std::vector<std::string>> own_names_in(int directory) {
  const int copy = ::dup(directory);
  DIR* const entries = copy < 0 ? nullptr : ::fdopendir(copy);
  if (entries == nullptr) {
    if (copy >= 0) {
      ::close(copy);
    }
    return std::nullopt;
  }
  std::vector<std::string> names;
  bool own = true;
  errno = 0;
  for (const dirent* entry = ::readdir(entries); own && entry != nullptr; entry = ::readdir(entries)) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") {
      continue;
    }
    struct stat info {};
    own = is_file_of_step(name) && ::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
          S_ISREG(info.st_mode);
    names.push_back(name);
  }
  own = own && errno == 0;
  ::closedir(entries);
  return own ? std::optional(std::move(names)) : std::nullopt;
}

}  // namespace

std::string step_name(int64_t step) { return fmt::format("{}{:06}", kStep, step); }

std::optional<int64_t> step_of_name(std::string_view name) {
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

bool is_digest(std::string_view text) { return is_hex(text, 32); }

std::string class_names_file(std::string_view digest) { return fmt::format("{}{}.json", kClasses, digest); }

std::optional<std::string> digest_of_class_names_file(std::string_view name) {
  const std::string_view digest = name.starts_with(kClasses) ? name.substr(kClasses.size(), 32) : std::string_view();
  return is_digest(digest) && name == class_names_file(digest) ? std::optional(std::string(digest)) : std::nullopt;
}

std::string pending_tail() { return tail_after(kPending); }

std::string former_tail() { return tail_after(kFormer); }

std::optional<Pending> pending_of_name(std::string_view name) {
  const bool former = name.find(kFormer) != std::string_view::npos;
  const size_t at = name.find(former ? kFormer : kPending);
  const size_t dash = name.rfind('-');
  if (at == std::string_view::npos || dash < at + kPending.size() || !is_hex(name.substr(dash + 1), kDrawnDigits)) {
    return std::nullopt;
  }
  const std::string_view stem = name.substr(0, at);
  const auto owner = parse_owner(name.substr(at + kPending.size(), dash - at - kPending.size()));
  const bool is_file = stem == "latest" || stem == "best" || digest_of_class_names_file(stem);
  const bool known = step_of_name(stem) || (is_file && !former);
  return owner && known ? std::optional(Pending{std::string(stem), *owner, former}) : std::nullopt;
}

void remove_step(const std::string& path, Io& io) {
  const int directory = io.open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (directory < 0) {
    return;
  }
  if (const auto names = own_names_in(directory)) {
    std::string doomed = path;
    bool named = true;
    const size_t slash = path.rfind('/');
    if (step_of_name(path.substr(slash + 1))) {
      doomed += pending_tail();
      named = io.rename(path, doomed) == 0 && sync_directory(path.substr(0, slash), io) == 0;
    }
    for (size_t i = 0; named && i < names->size(); ++i) {
      io.unlink_in(directory, (*names)[i]);
    }
    if (named) {
      io.remove_directory(doomed);
    }
  }
  io.close(directory);
}

void remove_own_file(const std::string& path, Io& io) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
    io.unlink(path);
  }
}

}  // namespace xrun::runtime
