// Navigation: the places where names are declared and used.
// Tests: tests/lsp/features_test.cpp
#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "runtime/lsp/features.h"
#include "runtime/lsp/importers.h"

namespace xrun::lsp {
namespace {

Json location(const std::string& uri, Json range) { return {{"uri", uri}, {"range", std::move(range)}}; }

// The import declaration whose text after `import` or `from` contains an offset; null if no such text does.
const lang::Decl* import_at(const lang::Ast& ast, uint32_t offset) {
  const auto found = std::ranges::find_if(ast.decls, [&](const lang::Decl& decl) {
    const bool imports = decl.kind == lang::DeclKind::kImport || decl.kind == lang::DeclKind::kFrom;
    return imports && decl.text.valid() && ast[decl.text].span.begin <= offset && offset <= ast[decl.text].span.end;
  });
  return found == ast.decls.end() ? nullptr : &*found;
}

// The file that an import brings in; null if it was not found.
const lang::SourceFile* imported_file(const lang::SourceFile& file, const lang::Decl& decl) {
  if (decl.kind == lang::DeclKind::kFrom) {
    const auto names = file.ast[decl.names];
    const auto used = names.empty() ? file.used.end() : file.used.find(names[0].text);
    return used == file.used.end() ? nullptr : used->second.file;
  }
  for (const auto& [alias, module] : file.modules) {
    const bool is_named = decl.name && decl.name.text == alias;
    const std::string& text = file.ast.text(decl.text);
    if (is_named || (!decl.name && text.find(alias) != std::string::npos)) {
      return module;
    }
  }
  return nullptr;
}

// The files that are not open and may import `path`. Empty if `path` is not on a disk.
lang::Texts closed_importers(const Workspace& workspace, const std::string& path) {
  if (!path.starts_with('/')) {
    return {};
  }
  const std::string own = std::filesystem::path(path).parent_path().string();
  return files_that_may_import(path, workspace.folders().empty() ? std::vector{own} : workspace.folders(),
                               workspace.texts());
}

}  // namespace

Json definition(const Context& context, const Json& params) {
  const Analysis& analysis = context.analysis();
  const uint32_t offset = context.offset(params);
  if (const lang::Decl* decl = import_at(analysis.ast(), offset);
      decl != nullptr && analysis.ast()[decl->text].kind == lang::ExprKind::kString) {
    const lang::SourceFile* file = imported_file(analysis.file(), *decl);
    const std::string uri = file != nullptr ? context.workspace.uri_of(file->path) : "";
    return uri.empty() ? Json() : location(uri, LineMap("").range(0, 0));
  }
  const Occurrence* name = name_at(analysis.names(), offset);
  if (name == nullptr || !name->definition.valid()) {
    return nullptr;
  }
  const int32_t file = name->definition.file;
  if (file == analysis.file().file) {
    return location(context.document.uri, analysis.lines().range(name->definition));
  }
  const std::string uri = context.workspace.uri_of(analysis.sources().path(file));
  return uri.empty() ? Json() : location(uri, LineMap(analysis.sources().text(file)).range(name->definition));
}

std::vector<Place> places_of_name(const Context& context, uint32_t offset) {
  const Occurrence* asked = name_at(context.analysis().names(), offset);
  if (asked == nullptr || !asked->definition.valid()) {
    return {};
  }
  // Each check numbers its files differently, so a file is identified by its path here.
  const std::string path = context.analysis().sources().path(asked->definition.file);
  const std::pair bytes(asked->definition.begin, asked->definition.end);
  std::set<std::string> read;
  std::vector<Place> places;
  const auto add = [&](const Analysis& analysis, const lang::SourceFile& file) {
    const std::string uri = context.workspace.uri_of(file.path);
    if (uri.empty() || !read.insert(uri).second) {
      return;
    }
    const LineMap lines(analysis.sources().text(file.file));
    for (const Occurrence& name : analysis.names_of(file)) {
      const Span& at = name.definition;
      if (at.valid() && std::pair(at.begin, at.end) == bytes && analysis.sources().path(at.file) == path) {
        places.push_back({uri, lines.range(name.at), name});
      }
    }
  };
  for (const auto& [key, document] : context.workspace.documents()) {
    if (document.analysis == nullptr) {
      continue;
    }
    // Uses indices, since reading the names of a file may load and append files of the standard library.
    for (size_t i = 0; i < document.analysis->files().size(); ++i) {
      add(*document.analysis, document.analysis->files()[i]);
    }
  }
  const lang::Texts closed = closed_importers(context.workspace, path);
  lang::Texts texts = closed;
  texts.insert(context.workspace.texts().begin(), context.workspace.texts().end());
  for (const auto& [file, text] : closed) {
    const Analysis analysis(file, texts, nullptr);
    add(analysis, analysis.file());
  }
  return places;
}

Json references(const Context& context, const Json& params) {
  const Json& about = field(params, "context");
  const bool with_declaration = !about.is_object() || about.value("includeDeclaration", Json(true)) != false;
  Json found = Json::array();
  for (Place& place : places_of_name(context, context.offset(params))) {
    if (with_declaration || !place.name.declares()) {
      found.push_back(location(place.uri, std::move(place.range)));
    }
  }
  return found;
}

Json highlights(const Context& context, const Json& params) {
  constexpr int kRead = 2;
  constexpr int kWrite = 3;
  const std::vector<Occurrence>& names = context.analysis().names();
  const Occurrence* asked = name_at(names, context.offset(params));
  Json found = Json::array();
  for (const Occurrence& name : names) {
    if (asked != nullptr && asked->definition.valid() && name.definition == asked->definition) {
      found.push_back(
          {{"range", context.analysis().lines().range(name.at)}, {"kind", name.declares() ? kWrite : kRead}});
    }
  }
  return found;
}

}  // namespace xrun::lsp
