// Loads the files of one run: a file and everything that it imports, with the declarations of each.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/diagnostic.h"
#include "graph/base/source.h"
#include "lang/syntax/syntax.h"

namespace xrun::lang {

struct SourceFile;

// A declaration and its file; both null if there is no declaration.
struct DeclRef {
  const SourceFile* file = nullptr;
  const Decl* decl = nullptr;
  explicit operator bool() const { return decl != nullptr; }
};

struct SourceFile {
  int32_t file = -1;
  std::string path;       // path as messages show it
  std::string directory;  // directory of `path`, "" for the current one; relative paths start here
  Ast ast;
  std::map<std::string_view, const Decl*> names;  // options, lets, functions, optimizers, blocks
  // Models, data, train, cluster, schedule and run declarations have a namespace for each kind. The name of an unnamed
  // declaration is empty.
  std::map<std::pair<DeclKind, std::string_view>, const Decl*> spaces;
  std::map<std::string_view, const SourceFile*> modules;  // import "x.xgraph" as x
  std::map<std::string_view, DeclRef> used;               // from "x.xgraph" use a
  std::set<std::string_view> missing;                     // names and imports that were not found; already reported

  // Whether the import of `name` has failed or, for a name with a dot, the import of the file before the dot.
  bool is_missing(std::string_view name) const { return missing.contains(name.substr(0, name.find('.'))); }

  // The declaration of `name`, made in this file or imported by `use`.
  DeclRef find(std::string_view name) const;
  DeclRef find(DeclKind space, std::string_view name) const;
  std::vector<DeclRef> all(DeclKind space) const;  // in source order; then those imported by `use`
};

class Loader {
 public:
  // `reads_files` is false for texts in memory, which import only the standard library and texts that were loaded
  // before. `open` has texts that replace the files on disk, with key_of(path) as key; it may be null.
  Loader(SourceMap& sources, Diagnostics& diagnostics, bool reads_files,
         const std::map<std::string, std::string>* open = nullptr)
      : sources_(sources), diagnostics_(diagnostics), reads_files_(reads_files), open_(open) {}

  // Loads a file and its imports. Null if the file cannot be read; faults are reported. A file is read only once.
  const SourceFile* load_file(const std::string& path);
  const SourceFile* load_text(const std::string& name, std::string text);
  const SourceFile* load_std(const std::string& name);  // null if there is no file of this name

  // All files, in the order in which they were read.
  const std::deque<SourceFile>& files() const { return files_; }

 private:
  std::optional<std::string> read(const std::string& path) const;
  const SourceFile* add(std::string key, const std::string& path, std::string text);
  const SourceFile* import(const SourceFile& from, const Decl& decl);
  void index(SourceFile& file);
  void declare(SourceFile& file, const Decl& decl);
  void import_all(SourceFile& file);
  void use(SourceFile& file, const Decl& decl, const SourceFile* source);

  SourceMap& sources_;
  Diagnostics& diagnostics_;
  bool reads_files_;
  const std::map<std::string, std::string>* open_;
  std::deque<SourceFile> files_;
  std::map<std::string, const SourceFile*> by_key_;  // key: key_of(path); null while the file is being read
};

// The content of a file, cut off one byte beyond kMaxFileBytes; nullopt if it cannot be read, with the cause in errno
// (ESPIPE: a pipe or a device).
std::optional<std::string> read_whole_file(const std::string& path);

}  // namespace xrun::lang
