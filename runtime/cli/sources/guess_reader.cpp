// Tests: tests/runtime/cli/commands/data_test.cpp
#include "runtime/cli/sources/guess_reader.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <span>
#include <string_view>
#include <vector>

#include "graph/base/errors.h"
#include "graph/settings/reader_def.h"
#include "runtime/formats/files.h"
#include "runtime/formats/records/tar.h"
#include "runtime/formats/tensors/idx.h"

namespace xrun::cli {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kStart = 64 * kKiB;  // enough for a few lines of a table

bool is_call(std::string_view text) {
  const size_t open = text.find('(');
  return open != std::string_view::npos && text.ends_with(')') &&
         data_registry().find_reader(text.substr(0, open)) != nullptr;
}

std::string call_of(std::string_view reader, const std::string& path) {
  return fmt::format("{}({})", reader, quoted_text(path));
}

// Whether a name ends with an extension, which `.gz` may follow.
bool has_extension(std::string_view name, std::string_view extension) {
  return name.ends_with(extension) || (name.ends_with(".gz") && name.substr(0, name.size() - 3).ends_with(extension));
}

// The files of a directory with this extension; of many, the first two that are found.
std::vector<std::string> some_files(const std::string& directory, std::string_view extension) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end && found.size() < 2; at.increment(error)) {
    if (at->path().extension() == extension) {
      found.push_back(at->path().string());
    }
  }
  return found;
}

// The first line of a text, without its line break.
std::string_view first_line(std::string_view text) {
  text = text.substr(0, text.find('\n'));
  return text.ends_with('\r') ? text.substr(0, text.size() - 1) : text;
}

bool has_digit(std::string_view text) { return text.find_first_of("0123456789") != std::string_view::npos; }

// The call for a table: the delimiter is the most frequent candidate of the first line, and a line without digits
// before one with digits is a header.
std::string table_call(const std::string& path, std::string_view text) {
  const std::string_view first = first_line(text);
  const std::string_view rest = text.substr(std::min(first.size() + 1, text.size()));
  constexpr std::string_view kDelimiters = ",;\t|";
  const char delimiter =
      *std::ranges::max_element(kDelimiters, {}, [&](char c) { return std::ranges::count(first, c); });
  const bool header = !has_digit(first) && has_digit(first_line(rest));
  return fmt::format("csv({}{}{})", quoted_text(path), header ? ", header=true" : "",
                     delimiter == ',' ? "" : fmt::format(", delimiter={}", quoted_text(std::string(1, delimiter))));
}

// Pictures and labels of an IDX set are two files with equal names apart from these words.
Result<std::string> idx_call(const std::string& path, std::span<const std::byte> start) {
  XRUN_ASSIGN(const auto header, runtime::parse_idx_header(start, path));
  const bool is_labels = header.dims.size() == 1;
  const fs::path name(path);
  std::string other = name.filename().string();
  const auto replace = [&](std::string_view from, std::string_view to) {
    const size_t at = other.find(from);
    if (at != std::string::npos) {
      other.replace(at, from.size(), to);
    }
  };
  replace(is_labels ? "labels" : "images", is_labels ? "images" : "labels");
  replace(is_labels ? "idx1" : "idx3", is_labels ? "idx3" : "idx1");
  const std::string partner = (name.parent_path() / other).string();
  std::error_code ignored;
  if (partner == path || !fs::exists(partner, ignored)) {
    return content_error("XG0412",
                         {"{} is one of the two files of an IDX set; {} is not there", path,
                          partner == path ? "the other one" : partner},
                         {"name both: xrun data show 'idx({}, {})'", quoted_text(is_labels ? "IMAGES" : path),
                          quoted_text(is_labels ? path : "LABELS")});
  }
  return fmt::format("idx({}, {})", quoted_text(is_labels ? partner : path), quoted_text(is_labels ? path : partner));
}

bool is_idx(std::span<const std::byte> start) {
  return start.size() >= 4 && start[0] == std::byte{0} && start[1] == std::byte{0} &&
         runtime::idx_element_bytes(std::to_integer<int>(start[2])) > 0 && start[3] != std::byte{0} &&
         std::to_integer<int>(start[3]) <= runtime::kMostIdxDims;
}

Error unknown_format(const std::string& path) {
  std::string readers;
  for (const ReaderDef* reader : data_registry().readers) {
    readers += (readers.empty() ? "" : ", ") + std::string(reader->name);
  }
  const std::string_view example = has_extension(path, ".bin") ? "pairs" : "csv";
  return content_error("XG0412", {"no reader is known for {}", path},
                       {"name one of {}: xrun data show '{}'", readers, call_of(example, path)});
}

}  // namespace

std::string quoted_text(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    quoted += c == '"' || c == '\\' ? std::string{'\\', c} : c == '\t' ? "\\t" : c == '\n' ? "\\n" : std::string{c};
  }
  return quoted + "\"";
}

Result<std::string> guess_reader(const std::string& path) {
  if (is_call(path)) {
    return path;
  }
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    if (const auto records = some_files(path, ".rec"); records.size() == 1) {
      return call_of("recordio", records[0]);
    }
    return call_of(some_files(path, ".tar").empty() ? "folder" : "webdataset", path);
  }
  if (!fs::exists(path, ignored) && path.find_first_of("{*?") != std::string::npos) {
    return call_of(has_extension(path, ".rec") ? "recordio" : "webdataset", path);
  }
  XRUN_ASSIGN(const auto start, runtime::read_file(path, kStart));
  const std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  if (runtime::is_tar_header(start) || has_extension(path, ".tar")) {
    return call_of("webdataset", path);
  }
  if (is_idx(start)) {
    return idx_call(path, start);
  }
  if (text.starts_with("\x93NUMPY") || has_extension(path, ".npz")) {
    return call_of("npy", path);
  }
  if (text.starts_with("PK\x03\x04")) {
    return call_of("folder", path);
  }
  if (text.starts_with("\x0A\x23\xD7\xCE") || has_extension(path, ".rec")) {
    return call_of("recordio", path);
  }
  const bool is_pickle = text.starts_with('\x80') || text.starts_with("((lp") || text.starts_with("(]");
  if (is_pickle && has_extension(path, ".bin")) {
    return call_of("pairs", path);  // the starts are those of protocols 2 and later, 0 and 1
  }
  if (has_extension(path, ".csv") || has_extension(path, ".tsv")) {
    return table_call(path, text);
  }
  if (has_extension(path, ".lst")) {
    return call_of("list", path);
  }
  if (has_extension(path, ".txt")) {
    const bool has_labels = first_line(text).find('\t') != std::string_view::npos;
    return fmt::format("text({}{})", quoted_text(path), has_labels ? "" : ", text=0");
  }
  return unknown_format(path);
}

}  // namespace xrun::cli
