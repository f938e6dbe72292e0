// Bytes become frames, frames become JSON, and a message is a request (it has an id) or a notification. A request gets
// exactly one answer: a Failure that its handler throws becomes an error response. Notifications about documents only
// change texts; `rest` checks the changed texts and publishes their diagnostics. A request about a document calls
// `rest` first, so that its answer is about the current text.
// Tests: tests/lsp/hostile_test.cpp, tests/lsp/features_test.cpp
#include "runtime/lsp/server.h"

#include <map>
#include <utility>

#include "ops/op.h"

namespace xrun::lsp {
namespace {

using Handler = Json (*)(const Context& context, const Json& params);

// The handlers of requests about one document.
const std::map<std::string_view, Handler> kHandlers{
    {"textDocument/codeAction", code_actions},
    {"textDocument/completion", completion},
    {"textDocument/definition", definition},
    {"textDocument/documentHighlight", highlights},
    {"textDocument/documentSymbol", document_symbols},
    {"textDocument/foldingRange", folding_ranges},
    {"textDocument/formatting", formatting},
    {"textDocument/hover", hover},
    {"textDocument/inlayHint", inlay_hints},
    {"textDocument/prepareRename", prepare_rename},
    {"textDocument/references", references},
    {"textDocument/rename", rename},
    {"textDocument/semanticTokens/full", semantic_tokens},
    {"textDocument/signatureHelp", signature_help},
};

constexpr int kIncremental = 2;  // TextDocumentSyncKind

Json capabilities() {
  return {{"positionEncoding", "utf-16"},
          {"textDocumentSync", {{"openClose", true}, {"change", kIncremental}}},
          {"codeActionProvider", {{"codeActionKinds", {"quickfix", "source.fixAll.xrun"}}}},
          {"completionProvider", {{"triggerCharacters", {">", "."}}}},
          {"definitionProvider", true},
          {"documentFormattingProvider", true},
          {"documentHighlightProvider", true},
          {"documentSymbolProvider", true},
          {"foldingRangeProvider", true},
          {"hoverProvider", true},
          {"inlayHintProvider", true},
          {"referencesProvider", true},
          {"renameProvider", {{"prepareProvider", true}}},
          {"semanticTokensProvider", {{"legend", token_legend()}, {"full", true}}},
          {"signatureHelpProvider", {{"triggerCharacters", {"(", ","}}}}};
}

// The value at a path of keys; null if there is no such value.
Json value_at(const Json& json, std::initializer_list<const char*> path) {
  const Json* at = &json;
  for (const char* key : path) {
    const auto found = at->is_object() ? at->find(key) : at->end();
    if (!at->is_object() || found == at->end()) {
      return nullptr;
    }
    at = &*found;
  }
  return at->is_primitive() ? *at : Json();  // only primitive values, since copying a deep value would recurse deeply
}

// The paths of the folders that are open in the editor: `workspaceFolders`, or `rootUri` from older clients.
std::vector<std::string> folders_of(const Json& params) {
  std::vector<std::string> folders;
  constexpr size_t kMost = 64;
  const auto add = [&](const Json& uri) {
    if (folders.size() < kMost && uri.is_string() && uri.get_ref<const std::string&>().starts_with("file://")) {
      folders.push_back(path_of(uri.get_ref<const std::string&>()));
    }
  };
  const auto several = params.is_object() ? params.find("workspaceFolders") : params.end();
  if (params.is_object() && several != params.end() && several->is_array()) {
    for (const Json& folder : *several) {
      add(value_at(folder, {"uri"}));
    }
  }
  if (folders.empty()) {
    add(value_at(params, {"rootUri"}));
  }
  return folders;
}

std::optional<int64_t> version_of(const Json& document) {
  const Json version = value_at(document, {"version"});
  return version.is_number_integer() ? std::optional(version.get<int64_t>()) : std::nullopt;
}

}  // namespace

Server::Server(std::string version, std::function<void(std::string_view)> send)
    : version_(std::move(version)), send_(std::move(send)), topics_(lang::all_topics(ops::registry())) {}

void Server::receive(std::string_view bytes) {
  frames_.feed(bytes);
  while (!exit_) {
    const auto frame = frames_.next();
    if (!frame) {
      return;
    }
    if (frame->fault.empty()) {
      handle(frame->content);
    } else {
      send(error_response(nullptr, {Code::kParseError, frame->fault}));
    }
  }
}

void Server::handle(const std::string& content) {
  std::string why;
  const std::optional<Json> message = parse_message(content, why);
  if (!message) {
    send(error_response(nullptr, {Code::kParseError, why}));
    return;
  }
  if (!message->is_object()) {
    send(error_response(nullptr, {Code::kInvalidRequest, "a message is an object"}));
    return;
  }
  const Json id = value_at(*message, {"id"});
  const Json method = value_at(*message, {"method"});
  static const Json kNone = Json::object();
  const auto params = message->find("params");
  const Json& given = params == message->end() ? kNone : *params;
  const bool has_id = message->contains("id");
  if (!method.is_string()) {
    if (!message->contains("result") && !message->contains("error")) {
      send(error_response(id, {Code::kInvalidRequest, "a message has a method"}));
    }
  } else if (has_id && !id.is_string() && !id.is_number_integer()) {
    send(error_response(nullptr, {Code::kInvalidRequest, "an id is a string or a whole number"}));
  } else if (has_id) {
    handle_request(id, method.get<std::string>(), given);
  } else {
    handle_notification(method.get<std::string>(), given);
  }
}

void Server::handle_request(const Json& id, const std::string& method, const Json& params) {
  try {
    if (state_ == State::kFresh && method != "initialize") {
      throw Failure{Code::kNotInitialized, "`initialize` comes first"};
    }
    if (state_ != State::kFresh && (method == "initialize" || state_ == State::kShutDown)) {
      throw Failure{Code::kInvalidRequest,
                    state_ == State::kReady ? "the server is initialized already" : "the server is shut down"};
    }
    send(response(id, answer(method, params)));
  } catch (const Failure& failure) {
    send(error_response(id, failure));
  }
}

Json Server::answer(const std::string& method, const Json& params) {
  if (method == "initialize") {
    return initialize(params);
  }
  if (method == "shutdown") {
    state_ = State::kShutDown;
    return nullptr;
  }
  const auto handler = kHandlers.find(method);
  if (handler == kHandlers.end()) {
    throw Failure{Code::kMethodNotFound, "unknown method: " + method.substr(0, 200)};
  }
  rest();
  const Document& document = workspace_.find(text_field(field(params, "textDocument"), "uri"));
  return handler->second({workspace_, document, topics_, client_}, params);
}

Json Server::initialize(const Json& params) {
  state_ = State::kReady;
  const auto can = [&](const char* key) {
    return !value_at(params, {"capabilities", "workspace", "workspaceEdit", "documentChanges"}).is_null() &&
           params["capabilities"]["workspace"]["workspaceEdit"].contains(key);
  };
  client_.annotates_edits = can("changeAnnotationSupport");
  workspace_.set_folders(folders_of(params));
  return {{"capabilities", capabilities()}, {"serverInfo", {{"name", "xrun"}, {"version", version_}}}};
}

void Server::handle_notification(const std::string& method, const Json& params) {
  if (method == "exit") {
    exit_ = state_ == State::kShutDown ? 0 : 1;
    return;
  }
  if (state_ != State::kReady) {
    return;
  }
  try {
    if (method == "textDocument/didOpen") {
      const Json& document = field(params, "textDocument");
      workspace_.open(text_field(document, "uri"), text_field(document, "text"), version_of(document));
      has_changes_ = true;
    } else if (method == "textDocument/didChange") {
      const Json& document = field(params, "textDocument");
      workspace_.change(text_field(document, "uri"), field(params, "contentChanges"), version_of(document));
      has_changes_ = true;
    } else if (method == "textDocument/didClose") {
      const std::string& uri = text_field(field(params, "textDocument"), "uri");
      workspace_.close(uri);
      has_changes_ = true;
      send(notification("textDocument/publishDiagnostics", {{"uri", uri}, {"diagnostics", Json::array()}}));
    }
  } catch (const Failure& failure) {
    send(error_response(nullptr, failure));  // the client must know that the server's text now differs from its own
  }
}

void Server::rest() {
  has_changes_ = false;
  for (const Document* document : workspace_.check()) {
    send(notification("textDocument/publishDiagnostics", diagnostics_of(workspace_, *document)));
  }
}

}  // namespace xrun::lsp
