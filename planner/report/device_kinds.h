// Devices in the order of their numbers, folded where many do the same work: a cluster of 512 devices takes a few
// lines.
#pragma once

#include <string>
#include <vector>

#include "planner/report/summary.h"

namespace xrun::planner {

// Devices that differ only in the numbers of `what` and in their arenas.
struct DeviceKind {
  DeviceSummary first;
  DeviceSummary last;
  int count = 1;
  Bytes least = 0;  // arena of all but the first one
  Bytes most = 0;

  std::string others() const;  // "+ 41 like it"
};

// In the order of their first devices. Where a page has room for a line each, each device is a kind of its own.
std::vector<DeviceKind> device_kinds(const std::vector<DeviceSummary>& devices);

// Folds rows of text by device: rows with equal text become the first of them, and a row with their number.
struct NamedRow {
  std::string name;
  std::string text;
};
std::vector<NamedRow> folded_rows(const std::vector<NamedRow>& rows);

}  // namespace xrun::planner
