// The limits are found in three steps: read the path of this process's group in each hierarchy from /proc/self/cgroup;
// find the directory where that hierarchy is mounted in /proc/self/mountinfo; read the files of the group and of all
// its parents there, and keep the smallest values. The formats are:
//
// /proc/self/cgroup:      ID:CONTROLLERS:PATH, a line for each hierarchy; version 2 has no controllers in it.
// /proc/self/mountinfo:   ID PARENT MAJOR:MINOR ROOT MOUNT_POINT OPTIONS [TAG...] - TYPE SOURCE SUPER_OPTIONS
// A group's directory is MOUNT_POINT and the part of PATH below ROOT; its parents are the directories up to
// MOUNT_POINT.
#include "runtime/device/control_groups.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <vector>

namespace xrun::runtime {
namespace {

// The names of the files in a group's directory, which differ between versions 1 and 2.
struct Names {
  std::vector<const char*> limits;
  const char* used;
  std::vector<const char*> cached;  // keys in memory.stat that count page cache
};
const Names kVersion1{{"memory.limit_in_bytes"}, "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};
const Names kVersion2{{"memory.max", "memory.high"}, "memory.current", {"inactive_file", "active_file"}};

// Version 1 represents "no limit" by a number that exceeds every machine's memory.
constexpr int64_t kNoLimit = int64_t{1} << 60;

// Reads the number in a file; nullopt if the file contains "max" or cannot be read.
std::optional<int64_t> read_number(const std::string& path) {
  std::ifstream in(path);
  int64_t value = 0;
  return in >> value && value < kNoLimit ? std::optional(value) : std::nullopt;
}

bool lists(const std::string& comma_separated, const std::string& word) {
  std::istringstream in(comma_separated);
  for (std::string one; std::getline(in, one, ',');) {
    if (one == word) {
      return true;
    }
  }
  return false;
}

// Converts a path of mountinfo to its real form: there a blank or backslash is written as three octal digits, "\040".
std::string unescape(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '\\' && i + 3 < text.size();
    out += escape ? static_cast<char>(std::strtol(text.substr(i + 1, 3).c_str(), nullptr, 8)) : text[i];
    i += escape ? 3 : 0;
  }
  return out;
}

// Returns the path of the process's group in the hierarchy of a version; empty if it is in no such hierarchy.
std::string path_in(const std::string& root, bool version2) {
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (version2 ? controllers.empty() : lists(controllers, "memory")) {
      return line.substr(second + 1);
    }
  }
  return "";
}

// Returns `path` relative to `top`, "" for `top` itself. A path outside `top` belongs to a group that this mount does
// not show; the top of the mount is then the nearest visible group above the process.
std::string below(const std::string& path, const std::string& top) {
  const std::string prefix = top == "/" ? "" : top;
  const bool inside = path.starts_with(prefix) && (path.size() == prefix.size() || path[prefix.size()] == '/');
  const std::string rest = inside ? path.substr(prefix.size()) : "";
  return rest == "/" || rest.find("/..") != std::string::npos ? "" : rest;
}

void tighten(std::optional<GroupMemory>& memory, const std::string& directory, const Names& names) {
  for (const char* const name : names.limits) {
    const auto limit = read_number(directory + "/" + name);
    if (!limit) {
      continue;
    }
    // Subtracts the page cache, which `used` includes, since the kernel frees it when memory is needed.
    Bytes used = read_number(directory + "/" + names.used).value_or(0);
    for (const char* const line : names.cached) {
      used -= number_of(directory + "/memory.stat", line);
    }
    const Bytes free = std::clamp(*limit - used, Bytes{0}, *limit);
    memory =
        memory ? GroupMemory{std::min(memory->limit, *limit), std::min(memory->free, free)} : GroupMemory{*limit, free};
  }
}

}  // namespace

std::optional<GroupMemory> group_memory(const std::string& root) {
  std::optional<GroupMemory> memory;
  std::ifstream mounts(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) {
      continue;
    }
    std::istringstream head(line);
    std::istringstream tail(line.substr(dash + 3));
    std::string id, parent, device, top, point, type, source, options;
    head >> id >> parent >> device >> top >> point;
    tail >> type >> source >> options;
    const bool version2 = type == "cgroup2";
    if (!version2 && (type != "cgroup" || !lists(options, "memory"))) {
      continue;
    }
    const std::string mount = root + unescape(point);
    std::string group = below(path_in(root, version2), unescape(top));
    for (;; group.resize(group.find_last_of('/'))) {
      tighten(memory, mount + group, version2 ? kVersion2 : kVersion1);
      if (group.empty()) {
        break;
      }
    }
  }
  return memory;
}

int64_t number_of(const std::string& path, const std::string& key) {
  std::ifstream in(path);
  std::string name;
  int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    if (words >> name >> number && name == key) {
      return number;
    }
  }
  return 0;
}

}  // namespace xrun::runtime
