// The language server: takes the bytes that a client sends and returns the bytes of the answers (Language Server
// Protocol 3.17). It runs on one thread and does no input or output of its own, so that tests can send it anything.
//
// A changed text is checked when the client has sent nothing more, or when a request needs the results of the check.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lang/explain.h"
#include "runtime/lsp/features.h"
#include "runtime/lsp/json_rpc.h"
#include "runtime/lsp/workspace.h"

namespace xrun::lsp {

class Server {
 public:
  // `version`: the version of xrun, for the client. `send` receives a whole message with its header.
  Server(std::string version, std::function<void(std::string_view)> send);

  // Takes bytes from the client, and handles the messages that are now complete.
  void receive(std::string_view bytes);
  // Called while the client is silent: checks what has changed and publishes the diagnostics.
  void rest();

  // The exit code, once the client has sent `exit`: 0 after `shutdown`, else 1.
  std::optional<int> exit() const { return exit_; }
  bool has_changes() const { return has_changes_; }

 private:
  enum class State { kFresh, kReady, kShutDown };

  void handle(const std::string& content);
  void handle_request(const Json& id, const std::string& method, const Json& params);
  void handle_notification(const std::string& method, const Json& params);
  Json initialize(const Json& params);
  Json answer(const std::string& method, const Json& params);
  void send(const Json& message) const { send_(frame(message)); }

  std::string version_;
  std::function<void(std::string_view)> send_;
  FrameReader frames_;
  Workspace workspace_;
  std::vector<lang::Topic> topics_;
  Client client_;
  State state_ = State::kFresh;
  std::optional<int> exit_;
  bool has_changes_ = false;
};

}  // namespace xrun::lsp
