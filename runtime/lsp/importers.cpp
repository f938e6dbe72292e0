#include "runtime/lsp/importers.h"

#include <filesystem>
#include <optional>
#include <system_error>
#include <unistd.h>

#include "graph/os/regular_file.h"

namespace xrun::lsp {
namespace {

namespace fs = std::filesystem;

constexpr int kMostEntries = 20'000;
constexpr size_t kMostFiles = 64;
constexpr size_t kMostTexts = size_t{16} << 20;

// The text of a file; nullopt if it cannot be read or is longer than `most` bytes.
std::optional<std::string> text_of(const fs::path& path, size_t most) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error || size > most) {
    return std::nullopt;
  }
  const int file = open_regular(path.string(), Links::kRefuse);
  if (file < 0) {
    return std::nullopt;
  }
  std::string text(static_cast<size_t>(size), '\0');
  size_t got = 0;
  while (true) {
    const ssize_t n = read(file, text.data() + got, text.size() - got);
    if (n <= 0) {
      break;
    }
    got += static_cast<size_t>(n);
  }
  close(file);
  text.resize(got);
  return text;
}

}  // namespace

lang::Texts files_that_may_import(const std::string& path, const std::vector<std::string>& folders,
                                  const lang::Texts& open) {
  const std::string name = fs::path(path).filename().string();
  lang::Texts found;
  size_t space = kMostTexts;
  int entries = 0;
  for (const std::string& folder : folders) {
    std::error_code error;
    fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error);
    for (; !error && at != fs::recursive_directory_iterator() && ++entries <= kMostEntries; at.increment(error)) {
      std::error_code unseen;
      const fs::path& entry = at->path();
      const bool is_link = at->is_symlink(unseen);
      if (entry.filename().string().starts_with('.') || is_link) {
        at.disable_recursion_pending();
        continue;
      }
      const std::string key = entry.lexically_normal().string();
      const bool is_model = entry.extension() == ".xgraph" && at->is_regular_file(unseen);
      if (!is_model || key == path || open.contains(key) || found.contains(key) || found.size() == kMostFiles) {
        continue;
      }
      std::optional<std::string> text = text_of(entry, space);
      if (text && text->find(name) != std::string::npos) {
        space -= text->size();
        found.emplace(key, *std::move(text));
      }
    }
  }
  return found;
}

}  // namespace xrun::lsp
