// Messages about faults in the command line and in the variables that stand for flags
// (docs/reference/command/overview.md, "Flags of every command").
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "lang/frontend.h"
#include "runtime/cli/console/outcome.h"

namespace xrun::cli {

// Lets the variable XRUN_<NAME> set each long flag of `app` and its commands; dashes become underscores.
void name_variables(CLI::App& app);

// The words of the command line, to distinguish flags that were typed from flags that the environment sets.
class Words {
 public:
  Words(int argc, const char* const* argv) : words_(argv, argv + argc) {}

  // The word at `index`; index 1 is the first word after `xrun`. Empty beyond the last word.
  std::string at(size_t index) const { return index < words_.size() ? words_[index] : ""; }
  // The variable of the option with its value, "XRUN_THREADS=many", if it takes effect: it is set, and the flag is not
  // given. Otherwise empty.
  std::string variable(const CLI::Option& option) const;
  // The proposal for an unknown flag that has the name of a setting: "did you mean `--set train.epochs=3`?" Otherwise
  // empty.
  std::string meant_setting(const std::string& word, lang::Nearness nearness) const;

 private:
  bool is_given(const CLI::Option& option) const;

  std::vector<std::string> words_;
};

// A fault in the command line and its fix; the exit code is 2.
Failure usage_fault(const std::string& message, const std::string& help);
// Checks that the first words name a command. CLI11 reports only that a command is missing.
Outcome<void> check_command(const CLI::App& app, const Words& words);
// A fault that CLI11 found, with the command; or with the variable if the value came from a variable.
Failure parse_fault(const CLI::App& app, const Words& words, const CLI::ParseError& fault);

// Warns of variables whose names are close to those of xrun's variables but differ, since they have no effect.
void warn_of_variables(const CLI::App& app);

// Prints the variables that take effect after a usage fault, since one of them may be its cause.
void print_variables(const CLI::App& app, const Words& words);

}  // namespace xrun::cli
