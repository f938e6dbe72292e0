#include "planner/report/device_kinds.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace xrun::planner {
namespace {

constexpr size_t kFewDevices = 16;  // up to this number of devices, each device has a line
constexpr size_t kMostRows = 64;

}  // namespace

std::string DeviceKind::others() const { return "+ " + std::to_string(count - 1) + " like it"; }

std::vector<DeviceKind> device_kinds(const std::vector<DeviceSummary>& devices) {
  std::vector<DeviceKind> kinds;
  std::map<std::tuple<bool, int, int, std::vector<int32_t>>, size_t> known;
  for (const DeviceSummary& device : devices) {
    const std::tuple key(device.device == kHost, device.threads, device.stages, device.heads);
    const auto at = known.emplace(key, kinds.size()).first;
    if (devices.size() <= kFewDevices || at->second == kinds.size()) {
      kinds.push_back({.first = device, .last = device});
      continue;
    }
    DeviceKind& kind = kinds[at->second];
    kind.least = kind.count == 1 ? device.arena : std::min(kind.least, device.arena);
    kind.most = std::max(kind.most, device.arena);
    kind.last = device;
    ++kind.count;
  }
  return kinds;
}

std::vector<NamedRow> folded_rows(const std::vector<NamedRow>& rows) {
  if (rows.size() <= kFewDevices) {
    return rows;
  }
  struct SameText {
    const NamedRow* first;
    const NamedRow* last;
    size_t count = 0;
  };
  std::vector<SameText> kinds;
  std::map<std::string, size_t> known;
  for (const NamedRow& row : rows) {
    const auto at = known.emplace(row.text, kinds.size()).first;
    if (at->second == kinds.size()) {
      kinds.push_back({&row, &row});
    }
    kinds[at->second].last = &row;
    ++kinds[at->second].count;
  }
  std::vector<NamedRow> folded;
  size_t left = rows.size();
  for (const SameText& kind : kinds) {
    if (folded.size() >= kMostRows) {
      folded.push_back({"", std::to_string(left) + " more devices: `xrun show FILE --gantt --format json` has all"});
      break;
    }
    left -= kind.count;
    folded.push_back(*kind.first);
    if (kind.count > 1) {
      folded.push_back({"", std::to_string(kind.count - 1) + " more like it, the last of them " + kind.last->name});
    }
  }
  return folded;
}

}  // namespace xrun::planner
