// Tests: tests/runtime/cli/commands/command_test.cpp, tests/runtime/cli/commands/nothing_lost_test.cpp
#include "runtime/checkpoint/resume_checks.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/errors.h"
#include "runtime/checkpoint/files/directory.h"
#include "runtime/checkpoint/files/manifest.h"

namespace xrun::runtime {
namespace {

// Lists the differences in kernels and versions between the checkpoint and the run; empty: there is no difference.
// Results of other kernels agree within a tolerance, but not bit for bit (docs/internals/determinism.md, "What it
// excludes"). Versions affect only the last bits, so they are compared only in deterministic runs, and only if they are
// in the manifest.
std::string others_of(const Manifest& manifest, const CheckpointOptions& run) {
  std::string others;
  const auto compare = [&](std::string_view what, const std::string& then, const std::string& now) {
    if (!then.empty() && !now.empty() && then != now) {
      others += fmt::format("{}{} {} (now {})", others.empty() ? "" : ", ", what, then, now);
    }
  };
  compare("kernels for", manifest.isa, run.isa);
  if (run.deterministic) {
    compare("xrun", manifest.version, run.version);
    for (const auto& [name, version] : run.libraries) {
      const auto at = manifest.libraries.find(name);
      compare(name, at == manifest.libraries.end() ? "" : at->second, version);
    }
  }
  return others;
}

// The samples of an epoch when the checkpoint was written; 0: unknown.
int64_t samples_of_epoch(const Manifest& manifest) {
  return manifest.epoch > 0 ? static_cast<int64_t>(std::llround(static_cast<double>(manifest.samples) / manifest.epoch))
                            : 0;
}

}  // namespace

Status check_digest(const CheckpointInfo& info, const CheckpointOptions& run) {
  if (info.manifest.math_digest == run.math_digest) {
    return {};
  }
  const RunDifference difference = run.compare ? run.compare(info) : RunDifference();
  if (run.extend && difference.extends) {
    return {};
  }
  constexpr std::string_view kElsewhere = "give this run a directory of its own with -C or `checkpoint { dir }`";
  Error error = content_error(
      "XG0701",
      {"{} has another model, data or training than this run (math digest {:.8}, this run has {:.8})", info.path,
       info.manifest.math_digest, run.math_digest},
      difference.extends ? fmt::format("continue with the new length, rate and classes: --extend; or {}", kElsewhere)
                         : std::string(kElsewhere));
  error.notes = difference.lines;
  return error;
}

Status check_samples(const CheckpointInfo& info, const CheckpointOptions& run) {
  const Manifest& manifest = info.manifest;
  int64_t samples = 0;
  const bool overflows = __builtin_mul_overflow(manifest.step, run.batch, &samples);
  if (run.samples_after) {
    if (const int64_t then = samples_of_epoch(manifest); then > 0 && then != run.epoch_samples) {
      return Error{
          ErrorKind::kContent, "XG0704",
          fmt::format("{} was trained on {} samples, now there are {}: the batch grows with the epochs, so the "
                      "sizes of its steps were different",
                      step_name(manifest.step), format_count(then), format_count(run.epoch_samples)),
          "continue with the same data, or begin another run from these weights: init = checkpoint(...)"};
    }
    samples = overflows ? 0 : run.samples_after(manifest.step);
  }
  if (run.batch > 0 && (overflows || samples != manifest.samples)) {
    return damaged(info.path + "/manifest.json",
                   fmt::format("has {} samples for {} steps", manifest.samples, manifest.step) +
                       (run.samples_after ? "" : fmt::format(" of {}", run.batch)));
  }
  return {};
}

std::vector<WarnEvent> resume_warnings(const Manifest& manifest, const CheckpointOptions& run) {
  std::vector<WarnEvent> warnings;
  if (const std::string others = others_of(manifest, run); !others.empty()) {
    warnings.push_back(
        {"XG0703",
         fmt::format("{} was written with {}: {}", step_name(manifest.step), others,
                     run.deterministic ? "from here on the bits differ from those of a run with only one of them"
                                       : "results continue within a tolerance")});
  }
  // The math digest covers the declaration of the data but not the contents of its files, so their number is compared.
  const int64_t then = samples_of_epoch(manifest);
  if (then > 0 && run.epoch_samples > 0 && then != run.epoch_samples) {
    warnings.push_back(
        {"XG0704", fmt::format("{} was trained on {} samples, now there are {}: epochs are counted from zero",
                               step_name(manifest.step), format_count(then), format_count(run.epoch_samples))});
  }
  return warnings;
}

void add_sender_warning(const Manifest& manifest, int64_t senders, const TrainState& state,
                        std::vector<WarnEvent>& warnings) {
  const auto residual = std::ranges::find(state.tensors(), StateTensor::Role::kResidual, &StateTensor::role);
  if (residual != state.tensors().end() && senders > 0 && residual->rows() != senders) {
    warnings.push_back(
        {"XG0718",
         fmt::format("{} was trained with {} senders of compressed gradients, which are replicas or nodes, and "
                     "now there are {}: what they had not yet sent is redistributed, and from here on results differ",
                     step_name(manifest.step), senders, residual->rows())});
  }
}

void add_copy_warning(const CheckpointInfo& info, const std::vector<std::string>& names, const CheckpointOptions& run,
                      std::vector<WarnEvent>& warnings) {
  if (names.empty()) {
    return;
  }
  constexpr size_t kMostNames = 8;
  const size_t shown = std::min(names.size(), kMostNames);
  const std::string others = names.size() > shown ? fmt::format(" and {} more", names.size() - shown) : "";
  warnings.push_back(
      {"XG0721",
       fmt::format("files of {} were missing or damaged and were restored from the second copy in {}: {}{}", info.path,
                   run.copy, fmt::join(names.begin(), names.begin() + static_cast<int64_t>(shown), ", "), others)});
}

}  // namespace xrun::runtime
