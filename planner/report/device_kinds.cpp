#include "planner/report/device_kinds.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <tuple>

namespace xrun::planner {
namespace {

constexpr size_t kFewDevices = 16;  // up to this number of devices, each has a line
constexpr size_t kMostRows = 64;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// Returns the text without its numbers, so that texts can be compared regardless of them. Numbers may have groups of
// digits: "id 10 496..15 615".
std::string shape_of(const std::string& text) {
  std::string shape;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool gap = text[i] == ' ' && i > 0 && i + 1 < text.size() && is_digit(text[i - 1]) && is_digit(text[i + 1]);
    if (!is_digit(text[i]) && !gap) {
      shape += text[i];
    } else if (shape.empty() || shape.back() != '#') {
      shape += '#';
    }
  }
  return shape;
}

}  // namespace

std::string DeviceKind::others() const { return "+ " + std::to_string(count - 1) + " like it"; }

std::vector<DeviceKind> device_kinds(const std::vector<DeviceSummary>& devices) {
  std::vector<DeviceKind> kinds;
  std::map<std::tuple<bool, int, std::string>, size_t> known;
  for (const DeviceSummary& device : devices) {
    const std::tuple key(device.device == kHost, device.threads, shape_of(device.what));
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
