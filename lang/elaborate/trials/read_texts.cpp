// Tests: tests/lsp/random_edits_test.cpp
#include "lang/elaborate/trials/read_texts.h"

#include <algorithm>
#include <span>

#include "graph/base/xxh128.h"
#include "lang/text/lexer.h"

namespace xrun::lang {
namespace {

constexpr size_t kMostDecls = 64;
constexpr size_t kMostBytes = size_t{64} << 10;

// Appends a text after its size, so that different lists of texts never give equal bytes.
void append(std::string& all, std::string_view text) {
  all += std::to_string(text.size());
  all += ' ';
  all += text;
}

CleanTrials::Key digest_of(const std::string& text) { return xxh128_bytes(std::as_bytes(std::span(text))); }

}  // namespace

ReadTexts::ReadTexts(const SourceMap& sources, const Diagnostics& reported, const SourceFile& file)
    : sources_(sources), file_(file) {
  std::vector<const SourceFile*> met;
  add_imports(file, met);
  // Long texts of imports are replaced by their digest, since the digest of each declaration begins with them.
  const CleanTrials::Key key = digest_of(imports_);
  imports_.assign(reinterpret_cast<const char*>(key.data()), key.size());
  for (const Diagnostic& d : reported.all()) {
    if (d.primary.span.file == file.file) {
      faults_.push_back(d.primary.span.begin);
    }
  }
}

void ReadTexts::add_imports(const SourceFile& file, std::vector<const SourceFile*>& met) {
  if (std::ranges::find(met, &file) != met.end()) {
    return;
  }
  met.push_back(&file);
  if (&file != &file_) {
    append(imports_, sources_.text(file.file));
  } else {
    for (const Decl& decl : file.ast.decls) {
      if (decl.kind == DeclKind::kImport || decl.kind == DeclKind::kFrom) {
        append(imports_, sources_.text(decl.span));
      }
    }
  }
  for (const std::string_view name : file.missing) {
    append(imports_, name);
  }
  for (const auto& [name, module] : file.modules) {
    append(imports_, module->path);
    add_imports(*module, met);
  }
  for (const auto& [name, ref] : file.used) {
    append(imports_, ref.file->path);
    add_imports(*ref.file, met);
  }
}

bool ReadTexts::is_faulty(const Decl& decl) const {
  return decl.has_fault ||
         std::ranges::any_of(faults_, [&](uint32_t at) { return at >= decl.span.begin && at <= decl.span.end; });
}

const std::vector<const Decl*>& ReadTexts::named_in(const Decl& decl) {
  const auto [at, fresh] = named_.try_emplace(&decl);
  const std::string_view text = fresh ? sources_.text(decl.span) : std::string_view();
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    while (end < text.size() && is_name_char(text[end])) {
      ++end;
    }
    const auto named = file_.names.find(text.substr(begin, end - begin));
    if (named != file_.names.end()) {
      at->second.push_back(named->second);
    }
    begin = std::max(end, begin + 1);
  }
  return at->second;
}

std::optional<CleanTrials::Key> ReadTexts::digest(const Decl& decl) {
  std::vector<const Decl*> met{&decl};
  std::string all = imports_;
  for (size_t i = 0; i < met.size(); ++i) {
    const std::string_view text = sources_.text(met[i]->span);
    if (is_faulty(*met[i]) || met.size() > kMostDecls || all.size() + text.size() > kMostBytes) {
      return std::nullopt;
    }
    append(all, text);
    for (const Decl* named : named_in(*met[i])) {
      if (std::ranges::find(met, named) == met.end()) {
        met.push_back(named);
      }
    }
  }
  return digest_of(all);
}

}  // namespace xrun::lang
