// Tests: tests/runtime/checkpoint/tensors/checkpoint_test.cpp
#include "runtime/checkpoint/tensors/describe.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <vector>

#include "graph/base/units.h"
#include "graph/base/utf8.h"
#include "runtime/checkpoint/tensors/checkpoint.h"
#include "runtime/checkpoint/tensors/class_row_files.h"
#include "runtime/checkpoint/tensors/tensor_files.h"

namespace xrun::runtime {
namespace {

std::string as_json(const CheckpointInfo& info, const std::vector<StoredTensor>& rows) {
  const Manifest& m = info.manifest;
  nlohmann::ordered_json out{{"v", 1},
                             {"path", info.path},
                             {"step", m.step},
                             {"epoch", m.epoch},
                             {"samples", m.samples},
                             {"seed", m.seed},
                             {"math_digest", m.math_digest},
                             {"version", m.version},
                             {"isa", m.isa},
                             {"libraries", m.libraries},
                             {"deterministic", m.deterministic},
                             {"history", nlohmann::ordered_json::array()},
                             {"records", nlohmann::ordered_json::array()},
                             {"bytes", info.bytes},
                             {"classes_named", 0},
                             {"classes", nlohmann::ordered_json::array()},
                             {"tensors", nlohmann::ordered_json::array()}};
  for (const ManifestClasses& classes : m.classes) {
    out["classes"].push_back({{"input", classes.input}, {"named", classes.named}});
    out["classes_named"] = out["classes_named"].get<int64_t>() + classes.named;  // sum over all inputs
  }
  if (m.loss_scale) {
    out["loss_scale"] = {{"scale", m.loss_scale->scale},
                         {"good_steps", m.loss_scale->good_steps},
                         {"skipped_steps", m.loss_scale->skipped_steps}};
  }
  for (const HistoryEntry& entry : m.history) {
    out["history"].push_back({{"until", entry.until}, {"changes", entry.changes}});
  }
  for (const Record& record : m.records) {
    auto best = nlohmann::ordered_json::array();
    for (const BestStep& one : record.best) {
      best.push_back({{"step", one.step}, {"value", one.value}});
    }
    out["records"].push_back({{"metric", record.metric}, {"highest", record.highest}, {"best", std::move(best)}});
  }
  for (const ManifestRows& one : m.rows) {
    out["rows"].push_back({{"head", one.head}, {"path", rows_path(info, one)}});
  }
  for (const StoredTensor& row : rows) {
    out["tensors"].push_back({{"name", row.name}, {"dtype", row.dtype}, {"shape", row.shape}});
  }
  return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string as_text(const CheckpointInfo& info, const std::vector<StoredTensor>& rows) {
  const Manifest& m = info.manifest;
  std::string out = fmt::format("{}   step {}   epoch {:.3f}   {}   {} files\n", printable_line(info.path),
                                format_count(m.step), m.epoch, format_bytes(info.bytes), m.files.size());
  out += fmt::format("  math {:.8}   seed {}   isa {}   xrun {}{}\n\n", printable_line(m.math_digest), m.seed,
                     printable_line(m.isa), printable_line(m.version), m.deterministic ? "   deterministic" : "");
  for (const auto& [name, version] : m.libraries) {
    out.insert(out.size() - 2, fmt::format("   {} {}", printable_line(name), printable_line(version)));
  }
  if (m.loss_scale) {
    out.insert(out.size() - 1,
               fmt::format("  loss scale {:.0f}   {} steps without an overflow since it changed   {} steps skipped\n",
                           m.loss_scale->scale, format_count(m.loss_scale->good_steps),
                           format_count(m.loss_scale->skipped_steps)));
  }
  for (const HistoryEntry& entry : m.history) {
    for (const std::string& change : entry.changes) {
      out.insert(out.size() - 1,
                 fmt::format("  until step {}   {}\n", format_count(entry.until), printable_line(change)));
    }
  }
  for (const Record& record : m.records) {
    std::string best;
    for (const BestStep& one : record.best) {
      best += fmt::format("   {:.2f} % at step {}", 100 * one.value, format_count(one.step));
    }
    out.insert(out.size() - 1,
               fmt::format("  {} {}{}\n", record.highest ? "highest" : "lowest", printable_line(record.metric), best));
  }
  for (const ManifestRows& one : m.rows) {
    out.insert(out.size() - 1, fmt::format("  rows of {} in {}, for as long as no later step is saved\n",
                                           printable_line(one.head), printable_line(rows_path(info, one))));
  }
  for (const ManifestClasses& classes : m.classes) {
    if (classes.named > 0) {
      out.insert(out.size() - 1, fmt::format("  {} classes of {} have names\n", format_count(classes.named),
                                             classes.input.empty() ? "the label" : printable_line(classes.input)));
    }
  }
  size_t width = 0;
  size_t dtype_width = 4;
  for (const StoredTensor& row : rows) {
    width = std::max(width, row.name.size());
    dtype_width = std::max(dtype_width, row.dtype.size());
  }
  for (const StoredTensor& row : rows) {
    out += fmt::format("  {:<{}}   {:<{}} [{}]\n", printable_line(row.name), width, printable_line(row.dtype),
                       dtype_width, fmt::join(row.shape, ", "));
  }
  return out;
}

}  // namespace

Result<std::string> describe_checkpoint(const std::string& path, bool json) {
  XRUN_ASSIGN(const CheckpointInfo info, open_checkpoint(path));
  XRUN_ASSIGN(const auto rows, list_state(info));
  return json ? as_json(info, rows) : as_text(info, rows);
}

}  // namespace xrun::runtime
