// `xrun lsp`: a language server on stdin and stdout, which editors start.
#include <cerrno>
#include <csignal>
#include <poll.h>
#include <unistd.h>

#include "runtime/cli/commands/commands.h"
#include "runtime/lsp/server.h"

namespace xrun::cli {
namespace {

constexpr int kLost = 1;  // the client ended without `shutdown` and `exit`

// Writes the whole text. Returns false if the client no longer reads.
bool write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno != EINTR) {
      return false;
    }
    text.remove_prefix(written < 0 ? 0 : static_cast<size_t>(written));
  }
  return true;
}

bool has_input() {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  return ::poll(&input, 1, 0) > 0;
}

}  // namespace

Outcome<int> run_lsp() {
  std::signal(SIGPIPE, SIG_IGN);
  bool is_heard = true;
  lsp::Server server(XRUN_VERSION, [&](std::string_view message) { is_heard = is_heard && write_all(message); });
  std::string bytes(size_t{1} << 16, '\0');
  while (is_heard && !server.exit()) {
    // Waits for more input before it checks, so that keys that are pressed quickly are checked together.
    if (server.has_changes() && !has_input()) {
      server.rest();
      continue;
    }
    const ssize_t got = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (got > 0) {
      server.receive(std::string_view(bytes).substr(0, static_cast<size_t>(got)));
    } else if (got == 0 || errno != EINTR) {
      return kLost;
    }
  }
  return server.exit().value_or(kLost);
}

}  // namespace xrun::cli
