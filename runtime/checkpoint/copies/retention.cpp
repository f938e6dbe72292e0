#include "runtime/checkpoint/copies/retention.h"

#include <algorithm>
#include <set>

#include "runtime/checkpoint/files/class_names.h"
#include "runtime/checkpoint/files/directory.h"
#include "runtime/checkpoint/tensors/checkpoint.h"

namespace xrun::runtime {
namespace {

// Whether the digest is the run's digest, either now or before the run was extended.
bool is_of_run(const Manifest& saved, const std::string& math_digest) {
  return math_digest == saved.math_digest ||
         std::ranges::find(saved.history, math_digest, &HistoryEntry::math_digest) != saved.history.end();
}

bool is_best(const std::vector<Record>& records, int64_t step) {
  return std::ranges::any_of(records, [&](const Record& record) {
    return record.keep > 0 && std::ranges::find(record.best, step, &BestStep::step) != record.best.end();
  });
}

// Removes files of class names to which no step refers. If a manifest cannot be read, it may refer to any of these
// files, so all of them stay.
void remove_unused_names(const std::string& directory, const Manifest& saved, Io& io) {
  std::set<std::string> unused = class_names_in(directory);
  const auto keep = [&](const Manifest& manifest) {
    for (const ManifestClasses& classes : manifest.classes) {
      unused.erase(classes.xxh3);
    }
  };
  keep(saved);
  const auto steps = unused.empty() ? std::vector<int64_t>() : steps_in(directory);
  for (const int64_t step : steps) {
    const auto info = open_checkpoint(directory + "/" + step_name(step));
    if (!info.ok()) {
      return;
    }
    keep(info->manifest);
  }
  for (const std::string& digest : unused) {
    remove_class_names(directory, digest, io);
  }
}

}  // namespace

void remove_old(const std::string& directory, const Manifest& saved, int64_t keep, const std::vector<int64_t>& needed,
                Io& io) {
  const bool newest_alone = !saved.rows.empty();
  const auto is_old = [&](int64_t step) {
    const auto info = open_checkpoint(directory + "/" + step_name(step));
    return info.ok() && is_of_run(saved, info->manifest.math_digest) && (newest_alone || !is_best(saved.records, step));
  };
  prune(directory, saved.step, newest_alone ? 1 : keep, needed, is_old, io);
  remove_unused_names(directory, saved, io);
}

}  // namespace xrun::runtime
