// Answers to the requests of an editor about one document, as JSON of the protocol (Language Server Protocol 3.17).
//
// `params` are the parameters of the request. A function throws Failure if a parameter is missing or of the wrong kind.
// REQUIRES: the documents are checked.
#pragma once

#include <string_view>
#include <vector>

#include "lang/explain.h"
#include "runtime/lsp/json_rpc.h"
#include "runtime/lsp/workspace.h"

namespace xrun::lsp {

// The most symbols, folds, hints or proposals in one answer. Each takes up to 2 KiB of memory, and nobody reads more.
inline constexpr size_t kMostShown = 20'000;

// The client's abilities, from its `initialize`.
struct Client {
  bool annotates_edits = false;  // the client asks the user before it applies an edit that has an explanation
};

// A document, the other documents, and the pages of the language.
struct Context {
  const Workspace& workspace;
  const Document& document;
  const std::vector<lang::Topic>& topics;
  Client client;

  const Analysis& analysis() const { return *document.analysis; }
  // The offset of `params.position`.
  uint32_t offset(const Json& params) const { return analysis().lines().offset(field(params, "position")); }
};

// diagnostics.cpp: params of textDocument/publishDiagnostics.
Json diagnostics_of(const Workspace& workspace, const Document& document);

// actions.cpp
Json code_actions(const Context& context, const Json& params);

// hover.cpp
Json hover(const Context& context, const Json& params);

// hints.cpp
Json inlay_hints(const Context& context, const Json& params);

// completion.cpp
Json completion(const Context& context, const Json& params);

// signature_help.cpp
Json signature_help(const Context& context, const Json& params);

// navigation.cpp
Json definition(const Context& context, const Json& params);
Json references(const Context& context, const Json& params);
Json highlights(const Context& context, const Json& params);
// rename.cpp
Json prepare_rename(const Context& context, const Json& params);
Json rename(const Context& context, const Json& params);

// outline.cpp
Json document_symbols(const Context& context, const Json& params);
Json folding_ranges(const Context& context, const Json& params);

// semantic_tokens.cpp
Json semantic_tokens(const Context& context, const Json& params);
Json token_legend();

// formatting.cpp
Json formatting(const Context& context, const Json& params);

// A place where a name occurs, in a file that an editor can open.
struct Place {
  std::string uri;
  Json range;
  Occurrence name;
};
// All occurrences of the name at an offset: in all open documents, in what they import, and in the files of the
// editor's folders that import the file of its declaration. Empty if the declaration is unknown (navigation.cpp).
std::vector<Place> places_of_name(const Context& context, uint32_t offset);

// The path of the setting that contains an offset, "train.checkpoint.every", and the path of the group around that
// place, "train.checkpoint". Empty outside of declarations with settings (settings_path.cpp).
std::string setting_path(const Analysis& analysis, uint32_t offset);
std::string group_path(const Analysis& analysis, uint32_t offset);

}  // namespace xrun::lsp
