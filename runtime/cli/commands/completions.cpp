#include "runtime/cli/commands/completions.h"

#include <cstdio>

namespace xrun::cli {

std::string shell_quoted(const std::string& text) {
  std::string word = "'";
  for (const char c : text) {
    word += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return word + "'";
}

Outcome<int> run_completions(const CommandTable& table, const CompletionsArgs& args) {
  const std::string text = args.shell == "bash"  ? bash_completions(table)
                           : args.shell == "zsh" ? zsh_completions(table)
                                                 : fish_completions(table);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

}  // namespace xrun::cli
