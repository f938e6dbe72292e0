// Tests: tests/runtime/cli/commands/text_commands_test.cpp, tests/cases/other_tools_test.cpp
#include "runtime/cli/model/model_text.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/base/errors.h"
#include "graph/os/durable.h"
#include "graph/os/regular_file.h"
#include "lang/syntax/loader.h"
#include "lang/syntax/syntax_decl.h"

namespace xrun::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".xgraph";

// The first line that is neither blank nor a comment; nullopt if `head` has no such line.
std::optional<std::string_view> first_line(std::string_view head) {
  head.remove_prefix(head.starts_with("\xEF\xBB\xBF") ? 3 : 0);
  while (!head.empty()) {
    const size_t end = std::min(head.find('\n'), head.size());
    const std::string_view line = head.substr(0, end);
    const size_t first = line.find_first_not_of(" \t\r");
    if (first != std::string_view::npos && line[first] != '#') {
      return line;
    }
    head.remove_prefix(std::min(end + 1, head.size()));
  }
  return std::nullopt;
}

// Whether a line begins a text of the language: it is the edition or a declaration. `import torch` is not a
// declaration.
bool begins_a_model(std::string_view line) {
  const size_t end = std::min(line.find_first_not_of("abcdefghijklmnopqrstuvwxyz"), line.size());
  const std::string_view word = line.substr(0, end);
  const size_t next = std::min(line.find_first_not_of(' ', end), line.size());
  const char sign = next < line.size() ? line[next] : '\n';
  const bool parted = next > end || sign == '{' || sign == '"';
  const lang::DeclKind kind = lang::kind_of(word);
  if (word == "xgraph") {
    return true;
  }
  if (kind == lang::DeclKind::kImport || kind == lang::DeclKind::kFrom || kind == lang::DeclKind::kTest) {
    return sign == '"';
  }
  return kind != lang::DeclKind::kError && parted &&
         (sign == '{' || sign == '"' || sign == '_' || std::isalpha(static_cast<unsigned char>(sign)) != 0);
}

// Finds out whether a file is not the text of a model. This gives one error instead of a hundred about its characters.
std::optional<Error> find_foreign(const std::string& path) {
  char start[4096];
  const int file = open_regular(path);
  const ssize_t got = file < 0 ? 0 : ::read(file, start, sizeof start);
  if (file < 0) {
    return std::nullopt;  // not a regular file, such as a pipe: the frontend reports it
  }
  ::close(file);
  const std::string_view head(start, static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (head.substr(0, 8).ends_with("XPLN")) {
    return content_error("XG0123", "`" + path + "` is a plan, not a model",
                         "look into it with `xrun show " + path + "`, or name its model");
  }
  if (head.starts_with("\xFF\xFE") || head.starts_with("\xFE\xFF")) {
    return content_error("XG0123", "`" + path + "` is written in UTF-16", "save it as UTF-8");
  }
  if (const size_t nul = head.find('\0'); nul != std::string_view::npos) {
    return content_error("XG0123", "`" + path + "` is not text: byte " + std::to_string(nul) + " is 0",
                         "name an .xgraph file");
  }
  // The program or settings of another tool would give many faults, and edits would damage the file.
  const auto line = first_line(head);
  if (!path.ends_with(kEnding) && line && !begins_a_model(*line)) {
    return content_error("XG0123", "`" + path + "` is not a model: it begins with neither `xgraph 1` nor a declaration",
                         "name an .xgraph file; if it is one, begin it with the line `xgraph 1`");
  }
  return std::nullopt;
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with("."); }

// Appends the files below a directory. Links to directories are not followed, so that the search ends.
Status add_below(const std::string& directory, std::vector<std::string>& files) {
  const size_t before = files.size();
  std::error_code error;
  fs::recursive_directory_iterator at(directory, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    std::error_code unseen;
    if (is_hidden(at->path())) {
      at.disable_recursion_pending();
    } else if (at->path().extension() == kEnding && at->is_regular_file(unseen)) {
      files.push_back(at->path().lexically_normal().string());
    }
  }
  if (error) {
    return world_error(
        "XG0122", "`" + directory + "` cannot be read: " + error.message(),
        error == std::errc::permission_denied ? "give this user the right to read it" : "check the disk and the path");
  }
  if (files.size() == before) {
    return content_error("XG0121", "`" + directory + "` holds no .xgraph file", "check the path");
  }
  std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
  return {};
}

}  // namespace

std::optional<Error> find_fault(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && ::access(path.c_str(), R_OK) == 0) {
    return S_ISDIR(info.st_mode)
               ? std::optional(content_error("XG0121", "`" + path + "` is a directory", "name the .xgraph file in it"))
               : find_foreign(path);
  }
  if (errno == EACCES) {
    return world_error("XG0122", "`" + path + "` cannot be read: permission denied",
                       "give this user the right to read it");
  }
  return content_error("XG0121", "there is no file `" + path + "`", "check the path");
}

Result<std::string> read_model_text(const std::string& path) {
  if (const auto fault = find_fault(path)) {
    return *fault;
  }
  auto text = lang::read_whole_file(path);
  if (!text) {
    const bool is_pipe = errno == ESPIPE;
    return world_error(
        "XG0122",
        "`" + path + "` cannot be read: " + (is_pipe ? "it is a pipe or a device, not a file" : std::strerror(errno)),
        is_pipe ? "save it to a file first" : "try again, or copy the file to another disk");
  }
  return std::move(*text);
}

Result<std::vector<std::string>> find_model_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (fs::is_directory(path, error)) {
      XRUN_TRY(add_below(path, files));
    } else {
      files.push_back(path);
    }
  }
  return files;
}

Status write_model_text(const std::string& path, std::string_view text) {
  if (const int fault = rewrite_file(path, std::as_bytes(std::span(text))); fault != 0) {
    return world_error("XG0124", "`" + path + "` cannot be written: " + std::strerror(fault),
                       "give this user the right to write the file and its directory, or free some space");
  }
  return {};
}

}  // namespace xrun::cli
