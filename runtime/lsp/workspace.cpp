// Tests: tests/lsp/features_test.cpp, tests/lsp/document_test.cpp
#include "runtime/lsp/workspace.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <utility>

#include "lang/text/lexer.h"
#include "lang/text/std_library.h"
#include "ops/norm/norm_numbers.h"
#include "ops/op.h"
#include "runtime/lsp/pages.h"

namespace xrun::lsp {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostDocuments = 256;
constexpr size_t kMostTexts = size_t{16} << 20;

int hex(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

// Whether the check of a document depends on a file: the document imports it, or imports a file that was not found.
bool reads(const Document& document, const std::string& path) {
  return document.analysis != nullptr &&
         std::ranges::any_of(document.analysis->files(),
                             [&](const lang::SourceFile& file) { return file.path == path || !file.missing.empty(); });
}

}  // namespace

std::string path_of(const std::string& uri) {
  constexpr std::string_view kScheme = "file://";
  const size_t slash = uri.starts_with(kScheme) ? uri.find('/', kScheme.size()) : std::string::npos;
  if (slash == std::string::npos) {
    return fs::path(uri).lexically_normal().string();  // the loader uses paths of this form
  }
  std::string path;
  for (size_t i = slash; i < uri.size(); ++i) {
    const bool coded = uri[i] == '%' && i + 2 < uri.size() && hex(uri[i + 1]) >= 0 && hex(uri[i + 2]) >= 0;
    path.push_back(coded ? static_cast<char>(hex(uri[i + 1]) * 16 + hex(uri[i + 2])) : uri[i]);
    i += coded ? 2 : 0;
  }
  return fs::path(path).lexically_normal().string();
}

std::string file_uri(const std::string& path) {
  constexpr std::string_view kPlain = "/-._~";
  std::string uri = "file://";
  for (const char c : path) {
    const bool plain = lang::is_name_char(c) || kPlain.find(c) != std::string_view::npos;
    uri += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return uri;
}

bool is_operator(std::string_view name) {
  const OpDef* op = ops::registry().find(name);
  return op != nullptr && op->is_word();
}

Analysis::Analysis(const std::string& path, const lang::Texts& open, lang::CleanTrials* trials) {
  (void)lang::load(path, sources_, diagnostics_,
                   {.ops = &ops::registry(),
                    .norm_of = ops::norm_group,
                    .facts = &facts_,
                    .clean_trials = trials,
                    .open = &open,
                    .max_nodes = kMostNodes,
                    .max_steps = kMostSteps});
  lines_.emplace(text());
}

std::vector<Occurrence> Analysis::names_of(const lang::SourceFile& file) const {
  return find_names(file, {is_operator, [&](const char* name) { return facts_.files->load_std(name); }});
}

const std::vector<Occurrence>& Analysis::names() const {
  if (!names_) {
    names_ = names_of(file());
  }
  return *names_;
}

const lang::Tokens& Analysis::tokens() const {
  if (!tokens_) {
    Diagnostics reported;
    lang::Faults faults(reported);
    tokens_ = lang::lex(sources_, file().file, faults);
  }
  return *tokens_;
}

void Workspace::refuse_much(size_t more) const {
  for (const auto& [path, text] : texts_) {
    more += text.size();
  }
  if (more > kMostTexts) {
    throw Failure{Code::kRequestFailed, "more than 16 MiB of text are open"};
  }
}

void Workspace::open(const std::string& uri, std::string text, std::optional<int64_t> version) {
  if (text.size() > kMostText || documents_.size() >= kMostDocuments) {
    throw Failure{Code::kRequestFailed,
                  text.size() > kMostText ? "the text is longer than 8 MiB" : "more than 256 documents are open"};
  }
  refuse_much(text.size());
  const std::string path = path_of(uri);
  documents_[uri] = {.uri = uri, .path = path, .version = version, .analysis = nullptr};
  texts_[path] = std::move(text);
  mark_readers(path);
}

const Document& Workspace::at(const std::string& uri) const {
  const auto found = documents_.find(uri);
  if (found == documents_.end()) {
    throw Failure{Code::kInvalidParams, "this document is not open: " + uri.substr(0, 200)};
  }
  return found->second;
}

const Document& Workspace::find(const std::string& uri) const {
  const Document& document = at(uri);
  if (document.lost || document.analysis == nullptr) {
    throw Failure{Code::kRequestFailed, "the text of the document is not known since an edit outside of it"};
  }
  return document;
}

void Workspace::change(const std::string& uri, const Json& changes, std::optional<int64_t> version) {
  Document& document = documents_[at(uri).uri];
  const bool is_whole = changes.is_array() && !changes.empty() && !changes[0].contains("range");
  if (document.lost && !is_whole) {
    return;  // the fault was reported; the text stays unknown until the client sends the whole text
  }
  std::string& text = texts_[document.path];
  try {
    std::string after = changed(text, changes);
    refuse_much(after.size() > text.size() ? after.size() - text.size() : 0);
    text = std::move(after);
  } catch (const Failure&) {
    document.lost = true;
    document.analysis.reset();
    throw;
  }
  document.lost = false;
  document.version = version;
  document.changed = true;
  mark_readers(document.path);
}

void Workspace::mark_readers(const std::string& path) {
  for (auto& [uri, document] : documents_) {
    document.changed = document.changed || reads(document, path);
  }
}

void Workspace::close(const std::string& uri) {
  const std::string path = at(uri).path;
  documents_.erase(uri);
  const bool still = std::ranges::any_of(documents_, [&](const auto& one) { return one.second.path == path; });
  if (!still) {
    texts_.erase(path);
  }
  mark_readers(path);
}

std::vector<const Document*> Workspace::check() {
  std::vector<const Document*> checked;
  for (auto& [uri, document] : documents_) {
    if (document.changed && !document.lost) {
      document.analysis.reset();  // frees the old analysis first, so that only one is in memory at a time
      document.analysis = std::make_unique<Analysis>(document.path, texts_, &clean_trials_);
      document.changed = false;
      checked.push_back(&document);
    }
  }
  return checked;
}

std::string Workspace::uri_of(const std::string& path) const {
  for (const auto& [uri, document] : documents_) {
    if (document.path == path) {
      return uri;
    }
  }
  if (const auto source = lang::std_source(path)) {
    return page_uri(path + ".xgraph", *source);
  }
  return path.starts_with('/') ? file_uri(path) : "";
}

}  // namespace xrun::lsp
