#include "runtime/cli/convert/target.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "graph/base/errors.h"
#include "runtime/data/readers/glob.h"
#include "runtime/formats/records/class_names.h"

namespace xrun::cli {
namespace {

namespace fs = std::filesystem;

Error no_target(const std::string& word, Text why) {
  return usage_error("XG0943", {"{} is not a target: {}", word, why.text},
                     "name FILE.rec, FILE.tar, several of them by a range such as 'train-{000..063}.tar', or a folder "
                     "that ends with /");
}

}  // namespace

std::string ConvertTarget::with_extension(std::string_view name, std::string_view extension) {
  return std::string(name.substr(0, name.rfind('.'))) + std::string(extension);
}

std::vector<std::string> ConvertTarget::all_names() const {
  std::vector<std::string> all = names;
  for (const std::string& name : names) {
    if (kind == Kind::kRecords) {
      all.push_back(with_extension(name, ".idx"));
      all.push_back(with_extension(name, ".lst"));
    } else if (kind == Kind::kShards) {
      all.push_back(with_extension(name, ".xidx"));  // an index of an earlier shard
    }
  }
  return all;
}

Result<ConvertTarget> parse_target(const std::string& word) {
  std::string path = word;
  while (path.size() > 1 && path.ends_with('/')) {
    path.pop_back();
  }
  const bool is_folder = path.size() < word.size();
  const size_t slash = path.rfind('/');
  ConvertTarget target{.directory = slash == std::string::npos ? "" : path.substr(0, std::max<size_t>(slash, 1))};
  while (target.directory.size() > 1 && target.directory.ends_with('/')) {
    target.directory.pop_back();
  }
  const std::string name = path.substr(slash + 1);
  if (name.empty() || name == "." || name == "..") {
    return no_target(word, "it names no new file or folder");
  }
  if (is_folder || name.find('.') == std::string::npos) {
    target.names = {name};
    return target;
  }
  if (!name.ends_with(".rec") && !name.ends_with(".tar")) {
    return no_target(word, {"`{}` ends neither with .rec nor with .tar", name});
  }
  if (name.find_first_of("*?") != std::string::npos || target.directory.find_first_of("{*?") != std::string::npos) {
    return no_target(word, "only the name of the file may have a range, and no `*` or `?`");
  }
  target.kind = name.ends_with(".rec") ? ConvertTarget::Kind::kRecords : ConvertTarget::Kind::kShards;
  XRUN_ASSIGN(const runtime::Glob names, runtime::Glob::parse(name));
  target.names = names.alternatives();
  std::set<std::string> class_names;
  for (const std::string& one : target.names) {
    class_names.insert(runtime::class_names_path(one));
  }
  if (std::set<std::string>(target.names.begin(), target.names.end()).size() < target.names.size()) {
    return no_target(word, "a file occurs twice");
  }
  if (class_names.size() > 1) {
    return no_target(word, "its names differ in more than the number at their end");
  }
  target.class_names = *class_names.begin();
  return target;
}

Status check_target(const ConvertTarget& target) {
  std::error_code ignored;
  for (const std::string& name : target.all_names()) {
    const std::string path = target.path_of(name);
    if (fs::symlink_status(path, ignored).type() != fs::file_type::not_found) {
      return usage_error("XG0901", {"{} exists, and a conversion replaces nothing", path},
                         "name another target, or remove it");
    }
  }
  const fs::path directory = target.directory.empty() ? "." : target.directory;
  const bool exists = fs::exists(directory, ignored);
  if (exists && !fs::is_directory(directory, ignored)) {
    return usage_error("XG0901", {"{} is not a folder", directory.string()}, "name a folder, or move the file away");
  }
  if (!exists && !fs::is_directory(fs::absolute(directory, ignored).parent_path(), ignored)) {
    return usage_error("XG0901", {"neither the folder {} nor its parent exists", directory.string()},
                       {"make the folder first: mkdir -p {}", directory.string()});
  }
  return {};
}

Result<bool> needs_class_names(const ConvertTarget& target, const std::vector<std::string>& names) {
  const std::string path = target.path_of(target.class_names);
  std::error_code ignored;
  if (target.class_names.empty() || fs::symlink_status(path, ignored).type() == fs::file_type::not_found) {
    return !target.class_names.empty() && !names.empty();
  }
  const auto found = runtime::read_class_names(path, nullptr);
  if (!found.ok() || *found != names) {
    return usage_error("XG0901",
                       names.empty() ? Text("{} names classes, but those of the source have no names", path)
                                     : Text("{} names other classes than the source", path),
                       {"choose a target with another stem or folder, or remove {} if no data uses it", path});
  }
  return false;
}

}  // namespace xrun::cli
