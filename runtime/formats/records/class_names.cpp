#include "runtime/formats/records/class_names.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <set>
#include <sys/stat.h>
#include <unordered_set>

#include "graph/base/errors.h"
#include "runtime/formats/records/record_texts.h"
#include "runtime/formats/text_lines.h"

namespace xrun::runtime {
namespace {

constexpr size_t kLongestLine = 64 * kKiB;

// The name as it was before class_name_line; nullopt if a backslash begins nothing that is known.
std::optional<std::string> unescaped(std::string_view text) {
  std::string name;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      name += text[i];
      continue;
    }
    const char c = ++i < text.size() ? text[i] : '\0';
    if (c != '\\' && c != 'n' && c != 'r') {
      return std::nullopt;
    }
    name += c == 'n' ? '\n' : c == 'r' ? '\r' : '\\';
  }
  return name;
}

Error broken_line(const std::string& place, Text why) {
  return content_error("XG0412", {"{}: {}", place, why.text},
                       "a line is `number<tab>name`, the numbers ascend from 0, and each class has a name of its own");
}

}  // namespace

std::string class_names_path(std::string_view data) {
  const size_t slash = data.rfind('/');
  const std::string_view folder = slash == std::string_view::npos ? "" : data.substr(0, slash + 1);
  std::string_view stem = data.substr(folder.size());
  if (const size_t dot = stem.rfind('.'); dot != std::string_view::npos && dot > 0) {
    stem = stem.substr(0, dot);
  }
  const size_t last = stem.find_last_not_of("0123456789");
  if (last == std::string_view::npos) {
    stem = "shards";
  } else if (last + 1 < stem.size() && last > 0 && std::string_view("-_.").find(stem[last]) != std::string_view::npos) {
    stem = stem.substr(0, last);
  }
  return fmt::format("{}{}.classes", folder, stem);
}

std::string class_name_line(int64_t number, std::string_view name) {
  std::string line = fmt::format("{}\t", number);
  for (const char c : name) {
    line += c == '\\' ? "\\\\" : c == '\n' ? "\\n" : c == '\r' ? "\\r" : std::string(1, c);
  }
  return line + "\n";
}

Result<std::vector<std::string>> read_class_names(const std::string& path, StopFlag stop) {
  std::vector<std::string> names;
  XRUN_TRY(visit_lines(path, kLongestLine, stop, [&](const TextLine& line) -> Status {
    const std::string place = fmt::format("{}:{}", path, line.number);
    const size_t tab = line.text.find('\t');
    if (tab == std::string_view::npos || whole_number(line.text.substr(0, tab)) != std::ssize(names)) {
      return broken_line(place, {"`{}` is not the line of class {}", line.text.substr(0, 60), names.size()});
    }
    auto name = unescaped(line.text.substr(tab + 1));
    if (!name || name->empty()) {
      return broken_line(place, {"the name of class {} {}", names.size(),
                                 name ? "is empty" : "has a backslash that is not followed by \\, n or r"});
    }
    names.push_back(std::move(*name));
    return {};
  }));
  std::unordered_set<std::string_view> seen;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!seen.insert(names[i]).second) {
      return broken_line(path, {"class {} has the name of an earlier one, `{}`", i, names[i]});
    }
  }
  return names;
}

Result<std::vector<std::string>> find_class_names(std::span<const std::string> data, StopFlag stop) {
  std::set<std::string> paths;
  std::ranges::transform(data, std::inserter(paths, paths.end()), class_names_path);
  std::vector<std::string> names;
  std::string from;
  for (const std::string& path : paths) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) {
      continue;
    }
    XRUN_ASSIGN(std::vector<std::string> found, read_class_names(path, stop));
    if (!from.empty() && found != names) {
      const size_t at = static_cast<size_t>(std::ranges::mismatch(found, names).in1 - found.begin());
      return content_error("XG0412", {"{} and {} name class {} differently", from, path, at},
                           "number the classes of both in one way, or read them as two sources");
    }
    names = std::move(found);
    from = path;
  }
  return names;
}

Bytes class_names_memory(std::span<const std::string> names) {
  size_t bytes = 0;
  for (const std::string& name : names) {
    bytes += sizeof(std::string) + name.size();
  }
  return static_cast<Bytes>(bytes);
}

}  // namespace xrun::runtime
