// Renaming: replaces a name everywhere, and adds a `moved` for each tensor, or prefix of tensors, that has the name.
// Tests: tests/lsp/features_test.cpp
#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <optional>
#include <utility>

#include "graph/settings/moved.h"
#include "lang/frontend.h"
#include "lang/text/lexer.h"
#include "ops/op.h"
#include "runtime/lsp/features.h"

namespace xrun::lsp {
namespace {

bool is_reserved(std::string_view word) {
  for (auto kind = lang::TokenKind::kTrue; lang::is_reserved(kind); kind = lang::next(kind)) {
    if (lang::text_of(kind) == word) {
      return true;
    }
  }
  return false;
}

// The name at an offset; a Failure if an editor cannot rename it.
const Occurrence& renamed_name(const Context& context, uint32_t offset) {
  const Occurrence* name = name_at(context.analysis().names(), offset);
  if (name == nullptr || !name->definition.valid()) {
    throw Failure{Code::kRequestFailed, "this is not a name that a file declares"};
  }
  const std::string& path = context.analysis().sources().path(name->definition.file);
  if (path.starts_with("std/")) {
    throw Failure{Code::kRequestFailed, "the standard library declares this name"};
  }
  return *name;
}

void refuse_name(const Context& context, const Occurrence& name, const std::string& word) {
  const bool is_word = !word.empty() && lang::is_name_start(word[0]) && std::ranges::all_of(word, lang::is_name_char);
  if (!is_word || is_reserved(word) || word == "N" || word == "_") {
    throw Failure{Code::kInvalidParams, fmt::format("`{}` is not a name", word.substr(0, 100))};
  }
  const bool is_upper = word[0] >= 'A' && word[0] <= 'Z';
  if (is_upper != (name.kind == NameKind::kDimension) && name.kind != NameKind::kLabel) {
    throw Failure{Code::kInvalidParams,
                  is_upper ? "only dimensions begin with a capital" : "dimensions begin with a capital"};
  }
  for (const Occurrence& other : context.analysis().names()) {
    const bool is_taken = other.declares() && context.analysis().sources().text(other.at) == word;
    const bool is_near = other.decl == name.decl || other.decl == nullptr || other.at == other.decl->name.span;
    if (is_taken && is_near) {
      throw Failure{Code::kRequestFailed, fmt::format("`{}` is already declared in line {}", word,
                                                      context.analysis().lines().line_of(other.at.begin) + 1)};
    }
  }
}

std::optional<lang::CheckedFile> checked(const std::string& path, const lang::Texts& open) {
  SourceMap sources;
  Diagnostics diagnostics;
  return lang::load(path, sources, diagnostics,
                    {.ops = &ops::registry(), .open = &open, .max_nodes = kMostNodes, .max_steps = kMostSteps});
}

// The texts of all documents and of the files that their checks read, with `word` written at the places.
lang::Texts renamed(const Context& context, std::vector<Place> places, const std::string& word) {
  lang::Texts texts = context.workspace.texts();
  for (const auto& [uri, document] : context.workspace.documents()) {
    if (document.analysis == nullptr) {
      continue;
    }
    for (const lang::SourceFile& file : document.analysis->files()) {
      texts.try_emplace(path_of(context.workspace.uri_of(file.path)), document.analysis->sources().text(file.file));
    }
  }
  std::ranges::sort(places, std::greater(), [](const Place& place) { return place.name.at.begin; });
  for (const Place& place : places) {
    const auto text = texts.find(path_of(place.uri));
    if (text != texts.end()) {  // the document's check reads this file
      text->second.replace(std::min<size_t>(place.name.at.begin, text->second.size()),
                           place.name.at.end - place.name.at.begin, word);
    }
  }
  return texts;
}

// Removes equal parts from the end of two dotted names, but leaves each at least one part.
std::pair<std::string, std::string> shortest(std::string before, std::string after) {
  for (;;) {
    const size_t a = before.rfind('.');
    const size_t b = after.rfind('.');
    if (a == std::string::npos || b == std::string::npos || before.substr(a) != after.substr(b)) {
      return {std::move(before), std::move(after)};
    }
    before.resize(a);
    after.resize(b);
  }
}

// The `moved` declarations that keep the checkpoints of the document's model usable. Empty if there is no model or it
// has errors, if more than 64 would be needed, or if a tensor would get back a name that it once had.
std::string moved_lines(const Context& context, const std::vector<Place>& places, const std::string& word) {
  constexpr size_t kMostMoves = 64;
  const auto before = checked(context.document.path, context.workspace.texts());
  const auto after = before ? checked(context.document.path, renamed(context, places, word)) : std::nullopt;
  if (!after || after->module.graph.params.size() != before->module.graph.params.size()) {
    return "";
  }
  std::vector<Moved> moved = before->run.moved;
  std::string lines;
  for (size_t i = 0; i < before->module.graph.params.size(); ++i) {
    const auto [from, to] = shortest(before->module.graph.params[i].name, after->module.graph.params[i].name);
    const bool is_new = from != to && std::ranges::find(moved, from, &Moved::from) == moved.end();
    if (is_new) {
      moved.push_back({from, to, {}});
      lines += fmt::format("\nmoved \"{}\" -> \"{}\"\n", from, to);
    }
    if (is_new && (leads_back(moved, from) || moved.size() - before->run.moved.size() > kMostMoves)) {
      return "";
    }
  }
  return lines;
}

std::string cost_of(const Analysis& analysis, const Occurrence& name) {
  const lang::CallFact* call = analysis.facts().call(name.definition);
  const std::string example = call != nullptr ? fmt::format(", such as `{}`,", call->first) : "";
  return fmt::format("tensors{} are named after `{}`: older checkpoints need a `moved` for them", example,
                     analysis.sources().text(name.definition));
}

}  // namespace

Json prepare_rename(const Context& context, const Json& params) {
  const Occurrence& name = renamed_name(context, context.offset(params));
  return {{"range", context.analysis().lines().range(name.at)},
          {"placeholder", context.analysis().sources().text(name.at)}};
}

Json rename(const Context& context, const Json& params) {
  const uint32_t offset = context.offset(params);
  const std::string& word = text_field(params, "newName");
  const Occurrence& name = renamed_name(context, offset);
  refuse_name(context, name, word);
  const bool asks = names_tensors(name.kind) && context.client.annotates_edits;
  const std::vector<Place> places = places_of_name(context, offset);
  const std::string moves = names_tensors(name.kind) ? moved_lines(context, places, word) : "";
  Json changes = Json::object();
  for (const Place& place : places) {
    Json edit{{"range", place.range}, {"newText", word}};
    if (asks) {
      edit["annotationId"] = "tensors";
    }
    changes[place.uri].push_back(std::move(edit));
  }
  if (!moves.empty()) {
    const auto end = static_cast<uint32_t>(context.analysis().text().size());
    const bool is_line = context.analysis().text().ends_with('\n');
    Json edit{{"range", context.analysis().lines().range({context.analysis().file().file, end, end})},
              {"newText", (is_line ? "" : "\n") + moves}};
    if (asks) {
      edit["annotationId"] = "tensors";
    }
    changes[context.document.uri].push_back(std::move(edit));
  }
  if (!asks) {
    return {{"changes", std::move(changes)}};
  }
  Json documents = Json::array();
  for (const auto& [uri, edits] : changes.items()) {
    documents.push_back({{"textDocument", {{"uri", uri}, {"version", nullptr}}}, {"edits", edits}});
  }
  return {{"documentChanges", std::move(documents)},
          {"changeAnnotations",
           {{"tensors",
             {{"label", "tensors of checkpoints"},
              {"needsConfirmation", true},
              {"description", cost_of(context.analysis(), name)}}}}}};
}

}  // namespace xrun::lsp
