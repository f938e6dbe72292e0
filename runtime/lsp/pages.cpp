#include "runtime/lsp/pages.h"

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <map>

#include "graph/base/codes.h"
#include "graph/os/cache_file.h"
#include "runtime/lsp/workspace.h"

namespace xrun::lsp {
namespace {

namespace fs = std::filesystem;

// Writes the page. An editor may read the file at any time, so a new text replaces the old one in one step.
bool write_page(const fs::path& path, std::string_view text) {
  std::error_code fault;
  fs::create_directories(path.parent_path(), fault);
  const fs::path fresh = path.string() + ".new";
  std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.close();
  fs::rename(fresh, path, fault);
  return out.good() && !fault;
}

}  // namespace

std::string page_uri(const std::string& name, std::string_view text) {
  static std::map<std::string, std::string> known;  // not guarded: one thread serves one editor
  const auto [at, fresh] = known.try_emplace(name);
  const std::string directory = cache_directory();
  if (!fresh || directory.empty()) {
    return at->second;
  }
  const fs::path path = fs::path(directory) / "pages" / name;
  std::ifstream in(path, std::ios::binary);
  const std::string there{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (there == text || write_page(path, text)) {
    at->second = file_uri(path.string());
  }
  return at->second;
}

std::string code_uri(const std::string& code) {
  const auto page = find_code(code);
  if (!page) {
    return "";
  }
  std::string text = fmt::format("# {} {}\n\n{}\n", page->code, page->title, page->text);
  if (!page->wrong.empty()) {
    text += fmt::format("\nGives {}:\n\n```xgraph\n{}```\n\nCorrected:\n\n```xgraph\n{}```\n", page->code, page->wrong,
                        page->right);
  }
  return page_uri(code + ".md", text);
}

}  // namespace xrun::lsp
