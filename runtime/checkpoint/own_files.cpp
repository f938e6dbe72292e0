#include "runtime/checkpoint/own_files.h"

#include <algorithm>
#include <charconv>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace xrun::runtime {
namespace {

constexpr std::string_view kStep = "step-";
constexpr std::string_view kPending = ".tmp-";
constexpr std::string_view kClasses = "classes-";
constexpr std::string_view kManifest = "manifest.json";
constexpr size_t kDrawnDigits = 16;

bool is_hex(std::string_view text, size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// "head.NAME.r0000000000.safetensors"
bool is_head_file(std::string_view name) {
  constexpr std::string_view kBegin = "head.";
  constexpr std::string_view kEnd = ".r0000000000.safetensors";
  if (!name.starts_with(kBegin) || name.size() <= kBegin.size() + kEnd.size()) {
    return false;
  }
  const std::string_view end = name.substr(name.size() - kEnd.size());
  return std::ranges::equal(end, kEnd,
                            [](char c, char form) { return form == '0' ? c >= '0' && c <= '9' : c == form; });
}

bool is_file_of_step(std::string_view name) {
  return name == kManifest || name == "model.json" || name == "trunk.safetensors" ||
         name == "trunk.optim.safetensors" || is_head_file(name);
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

std::string pending_tail() {
  uint64_t bits = 0;
  if (::getrandom(&bits, sizeof bits, 0) != sizeof bits) {
    bits = 0;
  }
  return fmt::format("{}{}-{:016x}", kPending, to_text(this_process()), bits);
}

std::optional<Pending> pending_of_name(std::string_view name) {
  const size_t at = name.find(kPending);
  const size_t dash = name.rfind('-');
  if (at == std::string_view::npos || dash < at + kPending.size() || !is_hex(name.substr(dash + 1), kDrawnDigits)) {
    return std::nullopt;
  }
  const std::string_view stem = name.substr(0, at);
  const auto owner = parse_owner(name.substr(at + kPending.size(), dash - at - kPending.size()));
  const bool known = step_of_name(stem) || stem == "latest" || stem == "best" || digest_of_class_names_file(stem);
  return owner && known ? std::optional(Pending{std::string(stem), *owner}) : std::nullopt;
}

void remove_step(const std::string& path) {
  const int directory = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR* const entries = directory < 0 ? nullptr : ::fdopendir(directory);
  if (entries == nullptr) {
    if (directory >= 0) {
      ::close(directory);
    }
    return;
  }
  std::vector<std::string> names;
  bool own = true;
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
  if (own) {
    std::ranges::stable_partition(names, [](const std::string& name) { return name == kManifest; });
    for (const std::string& name : names) {
      ::unlinkat(directory, name.c_str(), 0);
    }
    ::rmdir(path.c_str());
  }
  ::closedir(entries);
}

void remove_own_file(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
    ::unlink(path.c_str());
  }
}

}  // namespace xrun::runtime
