// Tests: tests/runtime/cli/commands/completions_test.cpp
#include <fmt/format.h>
#include <map>

#include "runtime/cli/commands/completions.h"

namespace xrun::cli {
namespace {

constexpr const char* kHead =
    R"(# Completion of xrun in bash, made by `xrun completions bash`. To try it: source <(xrun completions bash)

_xrun() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command= kind= words= value index
  # Bash splits --flag=value into three words.
  if [[ $word == = ]]; then
    word=
  elif [[ $before == = ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  # The command, and flags whose value is the next word.
  for ((index = 1; index < COMP_CWORD; ++index)); do
    value=
    case "$command ${COMP_WORDS[index]}" in
)";

constexpr const char* kValues = R"(    esac
    if [[ -n $value ]]; then
      ((++index))
      [[ ${COMP_WORDS[index]} != = ]] || ((++index))
    fi
  done
)";

constexpr const char* kTail = R"(  if [[ $kind == directory ]]; then
    mapfile -t COMPREPLY < <(compgen -d -- "$word")
    return
  fi
  if [[ -z $kind && $word == -* ]]; then
    words=$flags
  elif [[ -z $kind ]]; then
    words=$arguments
  fi
  if [[ $kind == choice || $kind == nothing || $word == -* ]]; then
    compopt +o default 2>/dev/null  # files are no answer here
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -o default -F _xrun xrun
)";

// The shell pattern that matches a flag after its command. The flags of the program itself match after every command.
std::string patterns(const CommandEntry& command, const FlagEntry& flag) {
  std::string text;
  for (const std::string& name : flag.names) {
    const std::string pattern = command.words.empty() ? fmt::format("*\" {}\"", name)
                                                      : fmt::format("\"{} {}\"", joined_words(command, " "), name);
    text += (text.empty() ? "" : " | ") + pattern;
  }
  return text;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

std::string flag_names(const CommandEntry& command) {
  std::vector<std::string> names;
  for (const FlagEntry& flag : command.flags) {
    names.insert(names.end(), flag.names.begin(), flag.names.end());
  }
  return joined(names);
}

// The words that may follow a command: its subcommands, or the choices of its arguments.
std::string words_after(const CommandTable& table, const CommandEntry& command) {
  std::vector<std::string> words;
  for (const size_t below : command.below) {
    words.push_back(table[below].words.back());
  }
  for (const ArgumentEntry& argument : command.arguments) {
    words.insert(words.end(), argument.value.choices.begin(), argument.value.choices.end());
  }
  return joined(words);
}

// All commands with the program itself last, since its patterns also match after each command.
std::vector<const CommandEntry*> program_last(const CommandTable& table) {
  std::vector<const CommandEntry*> order;
  for (size_t i = 1; i < table.size(); ++i) {
    order.push_back(&table[i]);
  }
  order.push_back(&table[0]);
  return order;
}

std::string kind_of_value(const ValueEntry& value) {
  switch (value.kind) {
    case ValueKind::kChoice:
      return fmt::format("kind=choice words=\"{}\"", joined(value.choices));
    case ValueKind::kDirectory:
      return "kind=directory";
    case ValueKind::kFile:
      return "kind=file";
    case ValueKind::kNothing:
    case ValueKind::kNumber:
    case ValueKind::kText:
      break;
  }
  return "kind=nothing";
}

}  // namespace

std::string bash_completions(const CommandTable& table) {
  std::string text = kHead;
  for (const CommandEntry& command : table) {
    for (const size_t below : command.below) {
      std::vector<std::string> names = table[below].aliases;
      names.insert(names.begin(), table[below].words.back());
      const std::string whole = joined_words(table[below], " ");
      std::string pattern;
      for (const std::string& name : names) {
        pattern += fmt::format("{}\"{} {}\"", pattern.empty() ? "" : " | ", joined_words(command, " "), name);
      }
      text += fmt::format("      {}) command=\"{}\" ;;\n", pattern, whole);
    }
  }
  std::string values;
  for (const CommandEntry* command : program_last(table)) {
    for (const FlagEntry& flag : command->flags) {
      if (flag.value.kind != ValueKind::kNothing) {
        const std::string pattern = patterns(*command, flag);
        text += fmt::format("      {}) value=1 ;;\n", pattern);
        values += fmt::format("    {}) {} ;;\n", pattern, kind_of_value(flag.value));
      }
    }
  }
  text += kValues;
  text += "  case \"$command $before\" in\n" + values + "  esac\n";
  text += fmt::format("  local flags=\"{}\" arguments=\n  case $command in\n", flag_names(table[0]));
  for (const CommandEntry& command : table) {
    text += fmt::format("    \"{}\")", joined_words(command, " "));
    if (!command.words.empty()) {
      text += fmt::format(" flags+=\" {}\"", flag_names(command));
    }
    text += fmt::format(" arguments=\"{}\" ;;\n", words_after(table, command));
  }
  return text + "  esac\n" + kTail;
}

}  // namespace xrun::cli
