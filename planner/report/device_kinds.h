// Folds the list of devices in a report: many devices that do equal work take one line, so that a cluster of 512
// devices takes a few lines.
#pragma once

#include <string>
#include <vector>

#include "planner/report/summary.h"

namespace xrun::planner {

// A set of devices with equal numbers of threads and stages and with shards of the same heads.
struct DeviceKind {
  DeviceSummary first;
  DeviceSummary last;
  int count = 1;
  Bytes least = 0;  // smallest arena of the devices other than `first`
  Bytes most = 0;

  std::string others() const;  // "+ 41 like it"
};

// Returns the kinds in the order of their first devices. If there are only a few devices, each is a separate kind.
std::vector<DeviceKind> device_kinds(const std::vector<DeviceSummary>& devices);

// Shortens a text that has one row for each device. Rows with equal text are replaced by the first of them and a row
// that states the number of the other rows.
struct NamedRow {
  std::string name;
  std::string text;
};
std::vector<NamedRow> folded_rows(const std::vector<NamedRow>& rows);

}  // namespace xrun::planner
