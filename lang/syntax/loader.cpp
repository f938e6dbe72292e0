// Loads a file and its imports by recursion: `add` parses a file, enters its declarations in tables of names (index)
// and loads its imports (import_all). Each file is loaded once, by the key of its path. The key of a file that is still
// being read has a null entry, so an import that leads back to the file is found and reported.
// Tests: tests/lang/check_test.cpp, tests/lang/nothing_ignored_test.cpp
#include "lang/syntax/loader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

#include "graph/os/regular_file.h"
#include "lang/syntax/parser.h"
#include "lang/text/faults.h"
#include "lang/text/foreign_names.h"
#include "lang/text/lexer.h"
#include "lang/text/std_library.h"

namespace xrun::lang {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFiles = 1000;

// The fault that corresponds to errno. Pipes are rejected: a pipe gives its text only once, but checking or resuming a
// run reads the model again.
Diagnostic unreadable(Span at, const std::string& path, std::string label) {
  const int why = errno;
  const bool is_pipe = why == ESPIPE;
  return fault("XG0207", at,
               {"cannot read `{}`: {}", path, (is_pipe ? "it is a pipe or a device, not a file" : std::strerror(why))},
               std::move(label),
               {is_pipe         ? "save it to a file first"
                : why == EACCES ? "give this user the right to read it"
                : why == EISDIR ? "name an .xgraph file in it"
                : at.valid()    ? "check the path: it starts at the directory of the file that names it"
                                : "check the path"});
}

// The key of a file: its path without `.`, without `..` after a directory, and without double slashes.
std::string key_of(const std::string& path) { return fs::path(path).lexically_normal().string(); }

}  // namespace

std::optional<std::string> read_whole_file(const std::string& path) {
  const int file = open_regular(path);
  if (file < 0) {
    errno = -file;
    return std::nullopt;
  }
  // The buffer has one byte more than a file may have, so that the lexer can reject a longer file.
  std::string text(kMaxFileBytes + 1, '\0');
  size_t size = 0;
  ssize_t got = 1;
  while (size < text.size() && (got > 0 || (got < 0 && errno == EINTR))) {
    got = ::read(file, text.data() + size, text.size() - size);
    size += static_cast<size_t>(std::max<ssize_t>(got, 0));
  }
  const int fault = got < 0 ? errno : 0;
  ::close(file);
  errno = fault;
  text.resize(size);
  return fault == 0 ? std::optional(std::move(text)) : std::nullopt;
}

DeclRef SourceFile::find(std::string_view name) const {
  if (const auto at = names.find(name); at != names.end()) {
    return {this, at->second};
  }
  if (const auto at = used.find(name); at != used.end() && names_a_value(at->second.decl->kind)) {
    return at->second;
  }
  return {};
}

DeclRef SourceFile::find(DeclKind space, std::string_view name) const {
  if (const auto at = spaces.find({space, name}); at != spaces.end()) {
    return {this, at->second};
  }
  if (const auto at = used.find(name); at != used.end() && at->second.decl->kind == space) {
    return at->second;
  }
  return {};
}

std::vector<DeclRef> SourceFile::all(DeclKind space) const {
  std::vector<DeclRef> found;
  for (const auto& [key, decl] : spaces) {
    if (key.first == space) {
      found.push_back({this, decl});
    }
  }
  std::sort(found.begin(), found.end(),
            [](const DeclRef& a, const DeclRef& b) { return a.decl->span.begin < b.decl->span.begin; });
  for (const auto& [name, ref] : used) {
    if (ref.decl->kind == space) {
      found.push_back(ref);
    }
  }
  return found;
}

std::optional<std::string> Loader::read(const std::string& path) const {
  const auto found = open_ != nullptr ? open_->find(key_of(path)) : decltype(open_->end())();
  return open_ != nullptr && found != open_->end() ? std::optional(found->second) : read_whole_file(path);
}

const SourceFile* Loader::load_file(const std::string& path) {
  if (const auto known = by_key_.find(key_of(path)); known != by_key_.end()) {
    return known->second;
  }
  std::optional<std::string> text = read(path);
  if (!text) {
    diagnostics_.add(unreadable({}, path, ""));
    return nullptr;
  }
  return add(key_of(path), path, std::move(*text));
}

const SourceFile* Loader::load_text(const std::string& name, std::string text) {
  return add(key_of(name), name, std::move(text));
}

const SourceFile* Loader::load_std(const std::string& name) {
  if (const auto known = by_key_.find(key_of(name)); known != by_key_.end()) {
    return known->second;
  }
  const auto source = std_source(name);
  return source ? add(key_of(name), name, std::string(*source)) : nullptr;
}

const SourceFile* Loader::add(std::string key, const std::string& path, std::string text) {
  by_key_[key] = nullptr;
  SourceFile& file = files_.emplace_back();
  file.file = sources_.add(path, std::move(text));
  file.path = path;
  file.directory = fs::path(path).parent_path().string();
  file.ast = parse(sources_, file.file, diagnostics_);
  index(file);
  import_all(file);
  by_key_[key] = &file;
  return &file;
}

void Loader::index(SourceFile& file) {
  for (const Decl& decl : file.ast.decls) {
    declare(file, decl);
  }
}

void Loader::declare(SourceFile& file, const Decl& decl) {
  const Decl* before = nullptr;
  if (has_own_names(decl.kind)) {
    const auto [at, fresh] = file.spaces.try_emplace({decl.kind, decl.name.text}, &decl);
    before = fresh ? nullptr : at->second;
  } else if (names_a_value(decl.kind) && decl.name) {
    const auto [at, fresh] = file.names.try_emplace(decl.name.text, &decl);
    before = fresh ? nullptr : at->second;
  }
  if (before != nullptr) {
    const Span at = decl.name ? decl.name.span : decl.keyword;
    const std::string what =
        decl.name ? "`" + std::string(decl.name.text) + "`" : "`" + std::string(keyword_of(decl.kind)) + "`";
    diagnostics_.add(
        fault("XG0202", at, {"{} is declared twice", what}, "declared again",
              {decl.name ? "give one of them another name, or leave it out" : "give them names, or leave one out"})
            .also(before->name ? before->name.span : before->keyword, "declared here first"));
  }
}

void Loader::import_all(SourceFile& file) {
  for (const Decl& decl : file.ast.decls) {
    if (decl.kind != DeclKind::kImport && decl.kind != DeclKind::kFrom) {
      continue;
    }
    const SourceFile* from = import(file, decl);
    if (decl.kind == DeclKind::kFrom) {
      use(file, decl, from);
      continue;
    }
    std::string_view alias = decl.name.text;
    if (!decl.name && decl.text.valid() && file.ast[decl.text].kind == ExprKind::kString) {
      // `import "nets/resnet.xgraph"` gives `resnet`.
      const std::string& text = file.ast.text(decl.text);
      const size_t slash = text.rfind('/');
      alias = std::string_view(text).substr(slash == std::string::npos ? 0 : slash + 1);
      alias = alias.substr(0, alias.find('.'));
    }
    if (from == nullptr) {
      file.missing.insert(alias);
      continue;
    }
    if (!file.modules.emplace(alias, from).second) {
      diagnostics_.add(fault("XG0202", decl.span, {"two imports are called `{}`", alias}, "again",
                             {"give one of them another name: import \"FILE\" as NAME"}));
    }
  }
}

const SourceFile* Loader::import(const SourceFile& from, const Decl& decl) {
  if (!decl.text.valid() || from.ast[decl.text].kind != ExprKind::kString) {
    return nullptr;
  }
  const std::string& text = from.ast.text(decl.text);
  const Span at = from.ast[decl.text].span;
  const bool is_std = text.starts_with("std/");
  const fs::path relative(text);
  const std::string path =
      is_std || relative.is_absolute() ? text : (fs::path(from.directory) / relative).lexically_normal().string();
  const std::string key = key_of(path);
  if (const auto known = by_key_.find(key); known != by_key_.end()) {
    if (known->second == nullptr) {
      diagnostics_.add(fault(
          "XG0206", at, {"`{}` imports itself in a circle", text},
          "this file is still being loaded, because it imports the current file, directly or through others",
          {key == key_of(from.path) ? "remove this import: a file can use its own declarations without importing itself"
                                    : "move what both files need to a third one that both import"}));
    }
    return known->second;
  }
  if (is_std) {
    const SourceFile* const file = load_std(text);
    if (file == nullptr) {
      diagnostics_.add(fault("XG0207", at, {"there is no `{}` in the standard library", text}, "not found",
                             {"its files are \"std/nets\", \"std/optimizers\", \"std/pointwise\" and \"std/vision\""}));
    }
    return file;
  }
  if (!reads_files_ || files_.size() >= kMaxFiles) {
    diagnostics_.add(fault("XG0207", at,
                           reads_files_ ? "more than " + std::to_string(kMaxFiles) + " files are imported"
                                        : "`" + text + "` cannot be imported: this text is not a file",
                           "not read", {reads_files_ ? "merge some of them" : "save it to a file first"}));
    return nullptr;
  }
  std::optional<std::string> content = read(path);
  if (!content) {
    diagnostics_.add(unreadable(at, path, "imported here"));
    by_key_.erase(key);
    return nullptr;
  }
  return add(key, path, std::move(*content));
}

// Imports the names of `from ... use`. `source` is null if the import failed.
void Loader::use(SourceFile& file, const Decl& decl, const SourceFile* source) {
  for (const Name& name : file.ast[decl.names]) {
    if (source == nullptr) {
      file.missing.insert(name.text);
      continue;
    }
    const SourceFile& from = *source;
    DeclRef found = from.find(name.text);
    for (DeclKind space = DeclKind::kModel; has_own_names(space); space = next(space)) {
      found = found ? found : from.find(space, name.text);
    }
    if (!found) {
      file.missing.insert(name.text);
    }
    if (!found && diagnostics_.error_count() >= 100) {
      return;  // suggestions for many names would take long
    }
    if (!found) {
      std::vector<std::string> candidates;
      for (const auto& [known, unused] : from.names) {
        candidates.emplace_back(known);
      }
      for (const auto& [known, unused] : from.spaces) {
        candidates.emplace_back(known.second);
      }
      const ForeignNet* net = foreign_net(plain_name(name.text));
      Help help = did_you_mean(name.text, candidates, name.span, {"leave it out, or declare it there"});
      if (net != nullptr && from.find(net->block)) {
        Fix ours{fmt::format("write {}, and call {}", net->block, net->call)};
        ours.edits.push_back({name.span, std::string(net->block)});
        help = std::move(ours);
      }
      diagnostics_.add(fault("XG0201", name.span, {"`{}` declares no `{}`", from.path, name.text}, "not found there",
                             std::move(help)));
      continue;
    }
    if (!file.used.emplace(name.text, found).second) {
      diagnostics_.add(
          fault("XG0202", name.span, {"`{}` is brought in twice", name.text}, "again", {"leave one of the two out"}));
    } else if (file.names.contains(name.text) || file.spaces.contains({found.decl->kind, name.text})) {
      diagnostics_.add(fault("XG0202", name.span, {"`{}` is both brought in and declared here", name.text}, "",
                             {"leave one of the two out: import \"FILE\" as NAME keeps the names of that file apart"}));
    }
  }
}

}  // namespace xrun::lang
