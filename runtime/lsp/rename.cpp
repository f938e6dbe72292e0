// Renaming: all places of a name, with a word of what it costs where tensors are named by it.
#include <algorithm>
#include <fmt/format.h>

#include "lang/syntax/lexer.h"
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

// The name at an offset; a Failure if an editor cannot give it another one.
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
      throw Failure{Code::kRequestFailed, fmt::format("`{}` is declared in line {} already", word,
                                                      context.analysis().lines().line_of(other.at.begin) + 1)};
    }
  }
}

std::string cost_of(const Analysis& analysis, const Occurrence& name) {
  const lang::CallFact* call = analysis.facts().call(name.definition);
  const std::string example = call != nullptr ? fmt::format(", such as `{}`,", call->first) : "";
  return fmt::format("tensors{} are named by `{}`: checkpoints from before will not have them", example,
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
  Json changes = Json::object();
  for (const Place& place : places_of_name(context, offset)) {
    Json edit{{"range", place.range}, {"newText", word}};
    if (asks) {
      edit["annotationId"] = "tensors";
    }
    changes[place.uri].push_back(std::move(edit));
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
