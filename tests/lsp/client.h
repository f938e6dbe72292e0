// A language client for tests: sends messages to a Server in this process and keeps the messages that the server sends.
#pragma once

#include <cstdlib>
#include <deque>
#include <gtest/gtest.h>
#include <string>

#include "runtime/lsp/server.h"

namespace xrun::lsp {

inline const std::string kUri = "file:///tmp/model.xgraph";

class TestClient {
 public:
  // Makes a server whose pages for links are written below the build folder. `starts`: also does the handshake
  // (`initialize`).
  explicit TestClient(bool starts = true) {
    setenv("XDG_CACHE_HOME", XRUN_BINARY_DIR "/lsp-test-cache", 1);
    if (starts) {
      request("initialize", {{"capabilities", Json::object()}});
      notify("initialized", Json::object());
    }
  }

  Server& server() { return server_; }

  // Returns the next message of the server, or null if there is no message.
  Json take() {
    if (received_.empty()) {
      return nullptr;
    }
    Json message = std::move(received_.front());
    received_.pop_front();
    return message;
  }

  void raw(std::string_view bytes) { server_.receive(bytes); }
  void message(const Json& json) { raw(frame(json)); }
  void notify(const char* method, Json params) { message(notification(method, std::move(params))); }

  // Sends a request and returns the answer, which has `result` or `error`. Notifications that come before the answer
  // are kept in `published`.
  Json request(const char* method, Json params) {
    message({{"jsonrpc", "2.0"}, {"id", ++id_}, {"method", method}, {"params", std::move(params)}});
    for (Json got = take(); !got.is_null(); got = take()) {
      if (got.contains("id") && got["id"] == id_) {
        return got;
      }
      published = got["params"];
    }
    ADD_FAILURE() << "no answer to " << method;
    return {};
  }
  Json result(const char* method, Json params) {
    Json answer = request(method, std::move(params));
    EXPECT_TRUE(answer.contains("result")) << answer;
    return answer.contains("result") ? answer["result"] : Json();
  }

  void open(const std::string& text, const std::string& uri = kUri) {
    notify("textDocument/didOpen",
           {{"textDocument", {{"uri", uri}, {"languageId", "xgraph"}, {"version", 1}, {"text", text}}}});
  }
  // Lets the server check its documents, and returns the diagnostics of the last document that it published.
  Json diagnostics() {
    server_.rest();
    for (Json got = take(); !got.is_null(); got = take()) {
      published = got["params"];
    }
    return published.contains("diagnostics") ? published["diagnostics"] : Json();
  }
  // Sends `textDocument/...` for the position of the `nth` occurrence of `word`; `more` holds further parameters.
  Json ask(const char* method, const std::string& text, std::string_view word, int nth = 0,
           Json more = Json::object()) {
    size_t at = text.find(word);
    for (; nth > 0 && at != std::string::npos; --nth) {
      at = text.find(word, at + 1);
    }
    EXPECT_NE(at, std::string::npos) << word;
    more["textDocument"] = {{"uri", kUri}};
    more["position"] = LineMap(text).position(static_cast<uint32_t>(at));
    return result(method, std::move(more));
  }

  Json published;

 private:
  std::deque<Json> received_;
  Server server_{"0", [this](std::string_view message) {
                   const size_t body = message.find("\r\n\r\n");
                   received_.push_back(Json::parse(message.substr(body + 4)));
                 }};
  int id_ = 0;
};

}  // namespace xrun::lsp
