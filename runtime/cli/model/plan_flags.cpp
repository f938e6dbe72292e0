// Tests: tests/runtime/cli/commands/command_test.cpp
#include "runtime/cli/model/plan_flags.h"

#include <charconv>
#include <filesystem>
#include <new>
#include <unistd.h>
#include <utility>

#include "graph/base/errors.h"
#include "graph/os/regular_file.h"
#include "runtime/cli/console/device_flag.h"
#include "runtime/device/cuda/machine/chosen_gpus.h"

namespace xrun::cli {
namespace {

// The directory at which relative paths start. It is read once, so that a path always has the same absolute form.
struct WorkingDirectory {
  std::error_code error;
  std::filesystem::path path = std::filesystem::current_path(error);
};
const WorkingDirectory& working_directory() {
  static const WorkingDirectory once;
  return once;
}

// The absolute form of FILE or of FILE:NAME.
std::string absolute(const std::string& path) { return path.empty() ? "" : (working_directory().path / path).string(); }

}  // namespace

Status check_working_directory(const std::string& path) {
  const std::error_code& error = working_directory().error;
  if (!error) {
    return {};
  }
  if (error == std::errc::not_enough_memory) {
    throw std::bad_alloc();
  }
  return world_error("XG0207", {"cannot read `{}`: the working directory is unknown: {}", path, error.message()},
                     "run xrun in a directory that exists");
}

std::string shown_path(const std::string& path) {
  const std::string below = std::filesystem::path(path).lexically_relative(working_directory().path).string();
  return below.empty() || below.starts_with("..") ? path : below;
}

FlagPairs plan_options(const std::string& path, const GlobalOptions& options) {
  FlagPairs pairs{{"file", absolute(path)}};
  const auto add = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) {
      pairs.emplace_back(name, value);
    }
  };
  add("run", options.run);
  add("cluster", absolute(options.cluster));
  add("schedule", absolute(options.schedule));
  add("devices", options.gpus          ? cuda::print_numbers(*options.gpus)
                 : options.devices > 0 ? std::to_string(options.devices)
                                       : "");
  add("gpu", options.card ? print_gpu(*options.card) : "");
  add("threads", options.threads > 0 ? std::to_string(options.threads) : "");
  add("deterministic", options.deterministic ? "true" : "");
  add("cost", options.cost == "measured" ? options.cost : "");
  add("layer-times", absolute(options.layer_times));
  add("search-time", options.search_time);
  std::string directory;  // that of the sets before
  for (const SetValue& set : options.sets) {
    const std::string own = set.directory.empty() ? working_directory().path.string() : set.directory;
    if (set.value.find_first_of("\"(") != std::string::npos && std::exchange(directory, own) != own) {
      pairs.emplace_back("directory", own);
    }
    pairs.emplace_back("set " + set.path, set.value);
  }
  return pairs;
}

std::string source_path(const std::string& path) {
  return path.starts_with("std/") ? path : (working_directory().path / path).lexically_normal().string();
}

GlobalOptions with_plan_options(GlobalOptions options, const FlagPairs& pairs, std::string& file) {
  const auto given = std::exchange(options.sets, {});
  std::string directory;  // that of the flags --set; plans of earlier versions lack it and mean that of the file
  const auto number = [](const std::string& text) {
    int value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  };
  for (const auto& [name, value] : pairs) {
    if (name == "file") {
      file = value;
      directory = std::filesystem::path(value).parent_path().string();
    } else if (name == "directory") {
      directory = value;
    } else if (name == "run") {
      options.run = options.run.empty() ? value : options.run;
    } else if (name == "cluster") {
      options.cluster = options.cluster.empty() ? value : options.cluster;
    } else if (name == "schedule") {
      options.schedule = options.schedule.empty() ? value : options.schedule;
    } else if (name == "devices") {
      if (auto flag = parse_device_flag(value); flag.ok()) {
        options.devices = flag->count;
        options.gpus = std::move(flag->gpus);
      }
    } else if (name == "gpu") {
      options.card = parse_gpu(value);
    } else if (name == "threads") {
      options.threads = number(value);
    } else if (name == "deterministic") {
      options.deterministic = true;
    } else if (name.rfind("set ", 0) == 0) {
      options.sets.push_back({name.substr(4), value, directory});
    }
  }
  options.sets.insert(options.sets.end(), given.begin(), given.end());
  return options;
}

std::string deciding_flag(const GlobalOptions& options) {
  return !options.sets.empty()                 ? "--set"
         : options.devices > 0 || options.gpus ? "--devices"
         : options.threads > 0                 ? "--threads"
         : options.deterministic               ? "--deterministic"
         : !options.run.empty()                ? "--run"
         : !options.cluster.empty()            ? "--cluster"
         : !options.schedule.empty()           ? "--schedule"
         : options.cost != "analytic"          ? "--cost"
         : !options.search_time.empty()        ? "--search-time"
                                               : "";
}

bool is_plan_file(const std::string& path) {
  if (std::filesystem::path(path).extension() == ".xplan") {
    return true;
  }
  const int file = open_regular(path);
  if (file < 0) {
    return false;
  }
  char head[8] = {};
  const ssize_t got = ::read(file, head, sizeof head);
  ::close(file);
  return got == sizeof head && std::string_view(head + 4, 4) == "XPLN";
}

}  // namespace xrun::cli
