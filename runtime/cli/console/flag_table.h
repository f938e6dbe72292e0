// The commands of the command line and their flags, as plain values. Shell completions and manual pages are made of
// them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace xrun::cli {

// The kind of value that a flag or an argument takes, so that a shell can propose values.
enum class ValueKind { kNothing, kChoice, kNumber, kFile, kDirectory, kText };

struct ValueEntry {
  ValueKind kind = ValueKind::kText;
  std::string name;                  // name of the value in the help, "FILE"; empty for kNothing
  std::vector<std::string> choices;  // the allowed values of kChoice
  std::string range;                 // "from 1 to 4096"; empty if all numbers are accepted
  bool repeated = false;             // the value may be given several times
  bool several = false;              // a flag may be followed by several values
};

struct FlagEntry {
  std::vector<std::string> names;  // "-o", "--output"
  ValueEntry value;
  std::string about;
  std::string variable;  // the environment variable, "XRUN_OUTPUT"; empty if the flag has none
};

struct ArgumentEntry {
  ValueEntry value;  // its name is as the help writes it: "[FILE]", "IMAGES..."
  std::string about;
};

struct CommandEntry {
  std::vector<std::string> words;    // words of the command, "bench" and "head"; empty: the program itself
  std::vector<std::string> aliases;  // other names of the command's last word
  std::string about;
  std::vector<FlagEntry> flags;
  std::vector<ArgumentEntry> arguments;
  std::vector<size_t> below;  // indices of the subcommands in the table
};

// All commands; the first entry is the program itself, with the flags that every command has. A command comes before
// its subcommands.
using CommandTable = std::vector<CommandEntry>;
CommandTable read_commands(const CLI::App& app);

// Joins the words of the command, after `first` if it is given: "bench head" with " " between them, "xrun-bench-head"
// with "-" and the first word "xrun".
std::string joined_words(const CommandEntry& command, const std::string& between, const std::string& first = "");

}  // namespace xrun::cli
