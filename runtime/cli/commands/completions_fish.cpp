#include <fmt/format.h>

#include "runtime/cli/commands/completions.h"

namespace xrun::cli {
namespace {

// fish knows two escapes in single quotes: \\ and \'.
std::string quoted(const std::string& text) {
  std::string word = "'";
  for (const char c : text) {
    word += (c == '\'' || c == '\\' ? "\\" : "") + std::string(1, c);
  }
  return word + "'";
}

// The condition under which a line of the script applies: all words of the command were typed. Empty for the program.
std::string condition(const CommandTable& table, const CommandEntry& command) {
  std::string text;
  for (size_t length = 1; length <= command.words.size(); ++length) {
    const std::vector<std::string> words(command.words.begin(), command.words.begin() + static_cast<ptrdiff_t>(length));
    text += (text.empty() ? "" : "; and ") + std::string("__fish_seen_subcommand_from ") + words.back();
    for (const CommandEntry& one : table) {
      if (one.words == words) {
        for (const std::string& alias : one.aliases) {
          text += " " + alias;
        }
      }
    }
  }
  return text;
}

std::string choices_of(const ValueEntry& value) {
  std::string choices;
  for (const std::string& choice : value.choices) {
    choices += (choices.empty() ? "" : " ") + choice;
  }
  return choices;
}

// The part of a line of the script that makes fish propose values. Without it fish proposes files.
std::string value_of(const ValueEntry& value) {
  switch (value.kind) {
    case ValueKind::kNothing:
      return "";
    case ValueKind::kFile:
      return " -r -F";
    case ValueKind::kDirectory:
      return " -x -a '(__fish_complete_directories)'";
    case ValueKind::kChoice:
      return " -x -a " + quoted(choices_of(value));
    case ValueKind::kNumber:
    case ValueKind::kText:
      break;
  }
  return " -x";
}

std::string flag_line(const std::string& when, const FlagEntry& flag) {
  std::string line = "complete -c xrun" + (when.empty() ? "" : " -n " + quoted(when));
  for (const std::string& name : flag.names) {
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  return line + value_of(flag.value) + " -d " + quoted(flag.about) + "\n";
}

}  // namespace

std::string fish_completions(const CommandTable& table) {
  std::string text = "# Completion of xrun in fish, made by `xrun completions fish`.\n\n";
  for (const CommandEntry& command : table) {
    const std::string when = condition(table, command);
    std::string below;
    for (const size_t place : command.below) {
      below += " " + table[place].words.back();
      for (const std::string& alias : table[place].aliases) {
        below += " " + alias;
      }
    }
    for (const size_t place : command.below) {
      const std::string first = when.empty() ? "" : when + "; and ";
      text += fmt::format("complete -c xrun -f -n {} -a {} -d {}\n",
                          quoted(first + "not __fish_seen_subcommand_from" + below), table[place].words.back(),
                          quoted(table[place].about));
    }
    for (const ArgumentEntry& argument : command.arguments) {
      if (argument.value.kind == ValueKind::kChoice) {
        text += "complete -c xrun -n " + quoted(when) + " -f -a " + quoted(choices_of(argument.value)) + "\n";
      }
    }
    for (const FlagEntry& flag : command.flags) {
      text += flag_line(when, flag);
    }
  }
  return text;
}

}  // namespace xrun::cli
