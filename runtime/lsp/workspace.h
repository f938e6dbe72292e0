// The open documents of an editor, each with the results of a check. A document is read as `xrun check` reads files:
// imported files come from the disk, or from the editor if they are open there.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/base/diagnostic.h"
#include "graph/base/source.h"
#include "lang/elaborate/facts.h"
#include "lang/elaborate/trials/clean_trials.h"
#include "lang/frontend.h"
#include "lang/text/token.h"
#include "runtime/lsp/document.h"
#include "runtime/lsp/names.h"

namespace xrun::lsp {

// An editor checks at every keystroke, so the check expands fewer operators than a command. A larger file gets XG0216
// as a hint.
inline constexpr int64_t kMostNodes = 100'000;
inline constexpr int64_t kMostSteps = 2'000'000;

// The results of one check of a text. Its parts point to one another, so it cannot be moved.
class Analysis {
 public:
  // `path`: a key of `open`. `trials`: the trials of earlier checks, of any text; null: there were no earlier checks.
  Analysis(const std::string& path, const lang::Texts& open, lang::CleanTrials* trials);
  Analysis(const Analysis&) = delete;
  Analysis& operator=(const Analysis&) = delete;

  const lang::SourceFile& file() const { return *facts_.main; }
  const std::deque<lang::SourceFile>& files() const { return facts_.files->files(); }  // includes imported files
  const lang::Ast& ast() const { return file().ast; }
  std::string_view text() const { return sources_.text(file().file); }
  const LineMap& lines() const { return *lines_; }
  const SourceMap& sources() const { return sources_; }
  const Diagnostics& diagnostics() const { return diagnostics_; }
  const lang::Facts& facts() const { return facts_; }
  // Computed at the first call.
  const std::vector<Occurrence>& names() const;
  const lang::Tokens& tokens() const;
  std::vector<Occurrence> names_of(const lang::SourceFile& file) const;

 private:
  SourceMap sources_;
  Diagnostics diagnostics_;
  lang::Facts facts_;
  std::optional<LineMap> lines_;
  mutable std::optional<std::vector<Occurrence>> names_;
  mutable std::optional<lang::Tokens> tokens_;
};

struct Document {
  std::string uri;
  std::string path;  // key of the document's text in the workspace's texts
  std::optional<int64_t> version;
  bool changed = true;                 // the text has changed since the last check
  bool lost = false;                   // an edit could not be applied, so this text differs from the editor's
  std::unique_ptr<Analysis> analysis;  // null before the first check
};

class Workspace {
 public:
  // Sets the folders that are open in the editor. Without folders, each file's own folder is used.
  void set_folders(std::vector<std::string> folders) { folders_ = std::move(folders); }
  const std::vector<std::string>& folders() const { return folders_; }

  // Opens a document. Throws Failure if there are too many documents or too much text for an editor.
  void open(const std::string& uri, std::string text, std::optional<int64_t> version);
  void change(const std::string& uri, const Json& changes, std::optional<int64_t> version);
  void close(const std::string& uri);

  // Checks the documents that have changed, and returns them.
  std::vector<const Document*> check();

  // A document with its analysis. Throws Failure if it is not open or its text is not known. REQUIRES: `check` was
  // called since the last change.
  const Document& find(const std::string& uri) const;
  const std::map<std::string, Document>& documents() const { return documents_; }
  const lang::Texts& texts() const { return texts_; }
  // The URI of a file of an analysis; empty if the file is not on a disk.
  std::string uri_of(const std::string& path) const;

 private:
  const Document& at(const std::string& uri) const;  // throws Failure if the document is not open
  void refuse_much(size_t more) const;
  void mark_readers(const std::string& path);  // documents whose check depends on the file are checked again

  std::vector<std::string> folders_;
  std::map<std::string, Document> documents_;  // index: URI
  lang::Texts texts_;                          // texts of the documents, by path
  lang::CleanTrials clean_trials_;             // trials of the checks of all documents
};

// Convert "file:///a/b%20c.xgraph" to "/a/b c.xgraph" (other URIs stay as they are), and an absolute path to a URI.
std::string path_of(const std::string& uri);
std::string file_uri(const std::string& path);

// Shared by all analyses: whether a name is an operator that files may use.
bool is_operator(std::string_view name);

}  // namespace xrun::lsp
