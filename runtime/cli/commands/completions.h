// `xrun completions`: a script that teaches a shell to complete the commands and flags of xrun.
#pragma once

#include <string>

#include "runtime/cli/console/flag_table.h"
#include "runtime/cli/console/outcome.h"

namespace xrun::cli {

struct CompletionsArgs {
  std::string shell;  // bash, zsh or fish
};

// The scripts, one file each.
std::string bash_completions(const CommandTable& table);
std::string zsh_completions(const CommandTable& table);
std::string fish_completions(const CommandTable& table);

// Prints the script.
Outcome<int> run_completions(const CommandTable& table, const CompletionsArgs& args);

// `text` as one word of a shell, in single quotes.
std::string shell_quoted(const std::string& text);

}  // namespace xrun::cli
