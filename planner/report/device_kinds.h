// Devices in the order of their numbers, folded if many do equal work: a cluster of 512 devices takes a few lines.
#pragma once

#include <string>
#include <vector>

#include "planner/report/summary.h"

namespace xrun::planner {

// Devices that differ only in the numbers in `what` and in their arenas.
struct DeviceKind {
  DeviceSummary first;
  DeviceSummary last;
  int count = 1;
  Bytes least = 0;  // smallest arena of all but the first one
  Bytes most = 0;

  std::string others() const;  // "+ 41 like it"
};

// Kinds in the order of their first devices. If there are few devices, each is a kind of its own.
std::vector<DeviceKind> device_kinds(const std::vector<DeviceSummary>& devices);

// Folds rows of text by device: rows with equal text become the first of them, and a row with their number.
struct NamedRow {
  std::string name;
  std::string text;
};
std::vector<NamedRow> folded_rows(const std::vector<NamedRow>& rows);

}  // namespace xrun::planner
