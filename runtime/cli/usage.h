// What is wrong with the words of a command line, or with the variables that stand for flags (docs/command.md, "Flags
// everywhere").
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "lang/frontend.h"

namespace xrun::cli {

// Every long flag of `app` and its commands can be set by XRUN_<NAME>, with dashes as underscores.
void name_variables(CLI::App& app);

// The words of the command line, to tell what they say from what the environment says.
class Words {
 public:
  Words(int argc, const char* const* argv) : words_(argv, argv + argc) {}

  // Empty where there are not so many; that at 1 is the first behind `xrun`.
  std::string at(size_t index) const { return index < words_.size() ? words_[index] : ""; }
  // "XRUN_THREADS=many" where the variable counts: it is set, and no flag is given.
  std::string variable(const CLI::Option& option) const;
  // The proposal for a flag that there is not, where it is the name of a setting: "did you mean `--set
  // train.epochs=3`?"
  std::string meant_setting(const std::string& word, lang::Nearness nearness) const;

 private:
  bool is_given(const CLI::Option& option) const;

  std::vector<std::string> words_;
};

// These print what is wrong and how to fix it, and give the exit code 2; or 0 where nothing is.
int usage_fault(const std::string& message, const std::string& help);
int find_unknown_command(const CLI::App& app, const Words& words);
int parse_fault(const CLI::App& app, const Words& words, const CLI::ParseError& fault);

// After another fault of use: the cause may be what nobody has typed.
void tell_variables(const CLI::App& app, const Words& words);

}  // namespace xrun::cli
