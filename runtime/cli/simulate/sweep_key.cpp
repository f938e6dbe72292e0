// Tests: tests/cases/simulate_test.cpp
#include "runtime/cli/simulate/sweep_key.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

#include "graph/base/errors.h"
#include "graph/base/nearest.h"
#include "lang/explain.h"
#include "ops/op.h"

namespace xrun::cli {
namespace {

constexpr std::string_view kDeclarations[] = {"cluster.", "schedule.", "train."};
constexpr std::string_view kHeadStep = ".HEAD";

bool is_swept(std::string_view path) {
  return std::ranges::any_of(kDeclarations, [&](std::string_view begin) { return path.starts_with(begin); });
}

// The paths of the settings that have a value; a step in capitals stands for a name that the user chooses.
std::vector<std::string> setting_paths() {
  std::vector<std::string> paths;
  for (const lang::Topic& topic : lang::all_topics(ops::registry())) {
    if (topic.kind == "setting" && topic.is_available && is_swept(topic.name)) {
      paths.push_back(topic.name);
    }
  }
  const auto is_group = [all = paths](const std::string& path) {
    return std::ranges::any_of(all, [&](const std::string& other) { return other.starts_with(path + "."); });
  };
  std::erase_if(paths, is_group);
  return paths;
}

bool has_free_step(const std::string& path) {
  for (size_t at = 0; at != std::string::npos; at = path.find('.', at + 1)) {
    const char first = path[at == 0 ? 0 : at + 1];
    if (first >= 'A' && first <= 'Z') {
      return true;
    }
  }
  return false;
}

// Whether the steps of a path are those of a setting, in which a step in capitals stands for any name.
bool matches(const std::string& path, const std::string& setting) {
  size_t a = 0;
  size_t b = 0;
  while (a < path.size() && b < setting.size()) {
    const size_t end_a = std::min(path.find('.', a), path.size());
    const size_t end_b = std::min(setting.find('.', b), setting.size());
    const bool is_free = setting[b] >= 'A' && setting[b] <= 'Z';
    if (end_a == a || (!is_free && path.compare(a, end_a - a, setting, b, end_b - b) != 0)) {
      return false;
    }
    a = end_a + 1;
    b = end_b + 1;
  }
  return a > path.size() && b > setting.size();
}

bool ends_in(const std::string& path, const std::string& steps) { return path.ends_with("." + steps); }

}  // namespace

std::vector<std::string> sweep_keys(const lang::SourceFile& main, const Module& module) {
  std::set<std::string> options;
  for (const auto& [name, decl] : main.names) {
    if (decl->kind == lang::DeclKind::kOption) {
      options.emplace(name);
    }
  }
  for (const auto& [name, ref] : main.used) {
    if (ref && ref.decl->kind == lang::DeclKind::kOption) {
      options.emplace(name);
    }
  }
  std::vector<std::string> keys(options.begin(), options.end());
  keys.emplace_back(kDevicesKey);
  for (const std::string& path : setting_paths()) {
    const size_t head = path.find(kHeadStep);
    if (head == std::string::npos && !has_free_step(path)) {
      keys.push_back(path);
    }
    for (const Head& one : head == std::string::npos ? std::vector<Head>() : module.graph.heads) {
      keys.push_back(path.substr(0, head + 1) + one.name + path.substr(head + kHeadStep.size()));
    }
  }
  return keys;
}

Result<std::string> find_key(const std::string& text, const std::vector<std::string>& keys, const std::string& flag) {
  if (std::ranges::find(keys, text) != keys.end()) {
    return text;
  }
  std::vector<std::string> found;
  std::ranges::copy_if(keys, std::back_inserter(found), [&](const std::string& key) { return ends_in(key, text); });
  if (found.size() == 1) {
    return found[0];
  }
  if (found.size() > 1) {
    return usage_error("XG0639", {"`{} {}` may mean several keys", flag, text},
                       {"write one of them: {}", fmt::join(found, ", ")});
  }
  for (const std::string& setting : setting_paths()) {
    if (has_free_step(setting) && matches(text, setting)) {
      return text;
    }
  }
  std::vector<std::string> names = keys;
  if (text.find('.') == std::string::npos) {
    for (std::string& name : names) {
      name = name.substr(name.rfind('.') + 1);
    }
    std::ranges::sort(names);
    names.erase(std::ranges::unique(names).begin(), names.end());
  }
  return usage_error(
      "XG0639",
      {"`{} {}` is neither an option of the file nor a setting of `cluster`, `schedule` or `train`", flag, text},
      nearest_names(text, names, "`xrun explain --list` has all settings, `xrun explain cluster` those of a cluster"));
}

bool keeps_model(const std::string& key) {
  return key == kDevicesKey || key.starts_with("cluster.") || key.starts_with("schedule.");
}

}  // namespace xrun::cli
