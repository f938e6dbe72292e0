// All ranks verify files, and report the damaged ones. On each host the rank that reads the copies then copies the
// damaged files that it has into an unfinished directory, verifies them, and renames them into the step. The manifest
// is restored last, when all files are intact, so a directory without a manifest stays incomplete until then.
// Tests: tests/runtime/checkpoint/copies/second_copy_test.cpp
#include "runtime/checkpoint/copies/restore.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <set>
#include <sstream>
#include <sys/stat.h>

#include "graph/base/check.h"
#include "graph/base/xxh128.h"
#include "graph/os/durable.h"
#include "runtime/checkpoint/files/copy_file.h"
#include "runtime/checkpoint/files/directory.h"
#include "runtime/checkpoint/files/read_file.h"
#include "runtime/checkpoint/files/shared_directory.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifestName = "manifest.json";

size_t rank_of(const CopyPlaces& places) {
  return places.peers == nullptr ? 0 : static_cast<size_t>(places.peers->rank());
}

Status agree(const CopyPlaces& places, Status mine) {
  return places.peers == nullptr ? std::move(mine) : places.peers->agree(std::move(mine));
}

Error also_not_copied(Error error, const CopyPlaces& places) {
  error.notes.push_back(fmt::format("no complete second copy was found in {}{}", places.copies,
                                    places.peers == nullptr ? "" : " on the hosts of the run"));
  return error;
}

// Returns the steps in a directory of copies, ascending, without steps after the one in its file `latest`: those belong
// to an abandoned continuation of the run.
std::set<int64_t> steps_of_copies(const std::string& copies) {
  std::set<int64_t> steps;
  const auto newest = newest_in(copies);
  const auto last = newest.ok() && *newest ? step_of_name(**newest) : std::nullopt;
  for (const int64_t step : last ? steps_in(copies) : std::vector<int64_t>()) {
    if (step <= *last) {
      steps.insert(step);
    }
  }
  return steps;
}

std::set<int64_t> numbers_in(const std::string& text) {
  std::set<int64_t> numbers;
  std::istringstream in(text);
  for (int64_t number = 0; in >> number;) {
    numbers.insert(number);
  }
  return numbers;
}

template <typename Numbers>
std::string text_of(const Numbers& numbers) {
  std::string text;
  for (const auto number : numbers) {
    text += fmt::format("{} ", number);
  }
  return text;
}

// Returns the newest step that all hosts with copies have; if there is no such step, the newest step of any host.
// Nullopt: there are no copies.
std::optional<int64_t> newest_copied(const std::vector<std::string>& texts) {
  std::map<int64_t, int> hosts_with;  // key: step
  int hosts = 0;
  for (const std::string& text : texts) {
    const std::set<int64_t> steps = numbers_in(text);
    hosts += steps.empty() ? 0 : 1;
    for (const int64_t step : steps) {
      ++hosts_with[step];
    }
  }
  for (auto at = hosts_with.rbegin(); at != hosts_with.rend(); ++at) {
    if (at->second == hosts) {
      return at->first;
    }
  }
  return hosts_with.empty() ? std::nullopt : std::optional(hosts_with.rbegin()->first);
}

// The text of the manifest of a copy; empty if it is missing or damaged.
std::string manifest_of_copy(const CopyPlaces& places, const std::string& name) {
  const std::string path = places.copies + "/" + name;
  const auto text = places.reads ? read_text(path + "/" + kManifestName, kMostManifestBytes) : Result<std::string>("");
  return text.ok() && parse_checkpoint(path, *text).ok() ? *text : "";
}

// Creates the directory of the step if it is missing. A link is not followed.
Status make_step(const std::string& path, Io& io) {
  struct stat what {};
  const int fault = io.make_directory(path);
  if (fault == EEXIST && ::lstat(path.c_str(), &what) == 0 && !S_ISDIR(what.st_mode)) {
    return checkpoint_write_error(path, ENOTDIR);
  }
  if (fault != 0 && fault != EEXIST) {
    return checkpoint_write_error(path, fault);
  }
  const int unsynced = sync_directory(parent_of(path), io);
  return unsynced == 0 ? Status() : checkpoint_write_error(path, unsynced);
}

Status move_into(const std::string& step, const std::string& name, const PendingDirectory& from, Io& io) {
  const std::string to = step + "/" + name;
  int fault = io.rename(from.path() + "/" + name, to);
  fault = fault == 0 ? sync_directory(step, io) : fault;
  return fault == 0 ? Status() : checkpoint_write_error(to, fault);
}

// Restores those of the files `bad` of which this host has a copy. Returns their indices in the manifest.
Result<std::vector<size_t>> restore_own_files(const CopyPlaces& places, const CheckpointInfo& info,
                                              const std::set<int64_t>& bad) {
  std::vector<size_t> done;
  const std::string name = step_name(info.manifest.step);
  XRUN_TRY(make_step(info.path, *places.io));
  XRUN_ASSIGN(const PendingDirectory pending, PendingDirectory::make(places.directory, name, *places.io));
  for (const int64_t at : bad) {
    const ManifestFile& file = info.manifest.files[static_cast<size_t>(at)];
    const std::string from = fmt::format("{}/{}/{}", places.copies, name, file.name);
    Status copied = copy_file(from, file, pending.path() + "/" + file.name, *places.io);
    if (!copied.ok() && copied.error().code == "XG0711") {
      return std::move(copied).error();
    }
    if (copied.ok()) {
      XRUN_TRY(move_into(info.path, file.name, pending, *places.io));
      done.push_back(static_cast<size_t>(at));
    }
  }
  return done;
}

Status put_manifest_back(const CopyPlaces& places, const FoundStep& step) {
  XRUN_TRY(make_step(step.info.path, *places.io));
  XRUN_ASSIGN(const PendingDirectory pending,
              PendingDirectory::make(places.directory, step_name(step.info.manifest.step), *places.io));
  XRUN_TRY(pending.write(kManifestName, step.manifest));
  return move_into(step.info.path, kManifestName, pending, *places.io);
}

// Returns the name of the step that `--resume` asks for, or empty for the newest one. Nullopt: it asks for a checkpoint
// outside the directory.
std::optional<std::string> step_asked_for(const std::string& resume, const std::string& directory) {
  std::string given = resume;
  while (given.size() > 1 && given.ends_with('/')) {
    given.pop_back();
  }
  std::error_code ignored;
  const std::string last = fs::path(given).filename().string();
  if (resume == "auto" || fs::equivalent(given, directory, ignored)) {
    return "";
  }
  if (!fs::equivalent(parent_of(given), directory, ignored)) {
    return std::nullopt;
  }
  return last == "latest" ? std::optional<std::string>("") : step_of_name(last) ? std::optional(last) : std::nullopt;
}

Result<std::string> newest_of_all(const CopyPlaces& places) {
  XRUN_ASSIGN(const auto texts,
              gather_texts(places.peers, places.reads ? text_of(steps_of_copies(places.copies)) : ""));
  return text_of_first(places.peers, [&]() -> Result<std::string> {
    XRUN_ASSIGN(const auto latest, named_by_latest(places.directory));
    if (latest) {
      return *latest;
    }
    XRUN_ASSIGN(const auto highest, newest_in(places.directory));
    const auto here = highest ? step_of_name(*highest) : std::nullopt;
    const auto copied = newest_copied(texts);
    return here || copied ? step_name(std::max(here.value_or(-1), copied.value_or(-1))) : "";
  });
}

}  // namespace

Result<std::optional<std::string>> step_meant(const CopyPlaces& places, const std::string& resume) {
  constexpr const char* kElsewhere = "/";
  XRUN_ASSIGN(const std::string name, text_of_first(places.peers, [&]() -> Result<std::string> {
                return step_asked_for(resume, places.directory).value_or(kElsewhere);
              }));
  if (name == kElsewhere) {
    return std::optional<std::string>();
  }
  if (!name.empty()) {
    return std::optional(name);
  }
  XRUN_ASSIGN(std::string newest, newest_of_all(places));
  return std::optional(std::move(newest));
}

Result<FoundStep> find_step(const CopyPlaces& places, const std::string& name) {
  const std::string path = places.directory + "/" + name;
  std::optional<Error> fault;  // the error of rank 0, which reads the directory for all ranks
  XRUN_ASSIGN(const std::string lost, text_of_first(places.peers, [&]() -> Result<std::string> {
                const auto latest = named_by_latest(places.directory);
                const auto newest = newest_in(places.directory);
                if (latest.ok() && *latest == name && !newest.ok()) {
                  fault = newest.error();  // its message: the step named by `latest` is missing
                } else if (const auto here = open_checkpoint(path); !here.ok()) {
                  fault = here.error();
                }
                if (fault && fault->code == "XG0714") {
                  return *fault;
                }
                return std::string(fault ? "lost" : "");
              }));
  if (lost.empty()) {
    XRUN_ASSIGN(CheckpointInfo info, open_checkpoint(path));
    return FoundStep{.info = std::move(info)};
  }
  const std::string own = manifest_of_copy(places, name);
  const std::string digest = own.empty() ? "" : xxh128(std::as_bytes(std::span(own)));
  XRUN_ASSIGN(const auto digests, gather_texts(places.peers, digest));
  const auto holder = std::ranges::find_if(digests, [](const std::string& one) { return !one.empty(); });
  const bool is_nowhere = holder == digests.end();
  XRUN_TRY(agree(places, is_nowhere && fault ? Status(also_not_copied(*fault, places)) : Status()));
  XRUN_CHECK(!is_nowhere, "a step is lost, and rank 0 has no error");
  const auto rank = static_cast<size_t>(holder - digests.begin());
  XRUN_ASSIGN(const auto texts, gather_texts(places.peers, rank_of(places) == rank ? own : ""));
  XRUN_ASSIGN(CheckpointInfo info, parse_checkpoint(path, texts[rank]));
  return FoundStep{.info = std::move(info), .manifest = texts[rank]};
}

Result<std::vector<std::string>> restore_files(const CopyPlaces& places, const FoundStep& step) {
  const std::vector<ManifestFile>& files = step.info.manifest.files;
  const size_t ranks = places.peers == nullptr ? 1 : static_cast<size_t>(places.peers->count());
  std::map<int64_t, Error> faults;  // key: index of a file that this rank verifies
  for (size_t i = rank_of(places); i < files.size(); i += ranks) {
    if (Status whole = verify_file(step.info.path + "/" + files[i].name, files[i]); !whole.ok()) {
      faults.emplace(static_cast<int64_t>(i), std::move(whole).error());
    }
  }
  std::string own;
  for (const auto& [at, fault] : faults) {
    own += fmt::format("{} ", at);
  }
  const auto all_of = [](const std::vector<std::string>& texts) {
    std::set<int64_t> all;
    for (const std::string& text : texts) {
      all.merge(numbers_in(text));
    }
    return all;
  };
  XRUN_ASSIGN(const auto bad_texts, gather_texts(places.peers, own));
  const std::set<int64_t> bad = all_of(bad_texts);
  std::vector<std::string> names;
  if (!bad.empty()) {
    const auto put = [&]() -> Result<std::string> {
      XRUN_ASSIGN(const auto done, restore_own_files(places, step.info, bad));
      return text_of(done);
    };
    XRUN_ASSIGN(const auto texts, gather_texts(places.peers, places.reads ? put() : Result<std::string>("")));
    const std::set<int64_t> good = all_of(texts);
    const auto lacking = std::ranges::find_if(faults, [&](const auto& one) { return !good.contains(one.first); });
    XRUN_TRY(agree(places, lacking == faults.end() ? Status() : Status(also_not_copied(lacking->second, places))));
    for (const int64_t at : good) {
      names.push_back(files[static_cast<size_t>(at)].name);
    }
  }
  if (!step.manifest.empty()) {
    XRUN_TRY(agree(places, rank_of(places) == 0 ? put_manifest_back(places, step) : Status()));
    names.emplace_back(kManifestName);
  }
  return names;
}

}  // namespace xrun::runtime
