// Tests: tests/runtime/cli/commands/completions_test.cpp
#include <fmt/format.h>

#include "runtime/cli/commands/completions.h"

namespace xrun::cli {
namespace {

// Puts a backslash before the characters of `special`, as zsh's `_arguments` and `_describe` require.
std::string escaped(const std::string& text, std::string_view special) {
  std::string out;
  for (const char c : text) {
    out += (c == '\\' || special.find(c) != std::string_view::npos ? "\\" : "") + std::string(1, c);
  }
  return out;
}

// The part of a flag's line that proposes its values, such as ":FILE:_files"; empty for a flag without a value.
std::string action(const ValueEntry& value) {
  if (value.kind == ValueKind::kNothing) {
    return "";
  }
  std::string text = ":" + escaped(value.name, ":") + ":";
  if (value.kind == ValueKind::kChoice) {
    text += "(";
    for (const std::string& choice : value.choices) {
      text += (text.ends_with('(') ? "" : " ") + choice;
    }
    return text + ")";
  }
  return text + (value.kind == ValueKind::kFile ? "_files" : value.kind == ValueKind::kDirectory ? "_files -/" : " ");
}

// One line for each name of a flag: '(-o --output)--output=[plan file]:FILE:_files'.
std::string flag_lines(const CommandEntry& command, const std::string& indent, const std::string& end) {
  std::string text;
  for (const FlagEntry& flag : command.flags) {
    std::string before = flag.value.repeated ? "*" : "";
    if (!flag.value.repeated && flag.names.size() > 1) {
      before = "(";
      for (const std::string& name : flag.names) {
        before += (before == "(" ? "" : " ") + name;
      }
      before += ")";
    }
    for (const std::string& name : flag.names) {
      const char* joint = flag.value.kind == ValueKind::kNothing ? "" : name.starts_with("--") ? "=" : "+";
      text += indent +
              shell_quoted(before + name + joint + "[" + escaped(flag.about, "[]") + "]" + action(flag.value)) + end;
    }
  }
  return text;
}

std::string function_of(const CommandTable& table, const CommandEntry& command) {
  const std::string name = joined_words(command, "_", "_xrun");
  std::string text =
      name + "() {\n  local curcontext=$curcontext state\n  local -a line common\n  typeset -A opt_args\n";
  text += "  _xrun_common\n";
  std::string arguments = command.words.empty() ? "" : flag_lines(command, "    ", " \\\n");
  for (const ArgumentEntry& argument : command.arguments) {
    const bool many = argument.value.repeated;
    arguments += "    " + shell_quoted((many ? "*" : "") + action(argument.value)) + " \\\n";
  }
  if (command.below.empty()) {
    return text + "  _arguments -s -S $common \\\n" + arguments.substr(0, arguments.rfind(" \\\n")) + "\n}\n\n";
  }
  text += "  local -a commands=(\n";
  std::string cases;
  for (const size_t below : command.below) {
    const CommandEntry& one = table[below];
    text += "    " + shell_quoted(escaped(one.words.back(), ":") + ":" + one.about) + "\n";
    std::string pattern = one.words.back();
    for (const std::string& alias : one.aliases) {
      pattern += "|" + alias;
    }
    cases += fmt::format("    {}) {} ;;\n", pattern, joined_words(one, "_", "_xrun"));
  }
  return text + "  )\n  _arguments -C -s -S $common \\\n" + arguments +
         "    '1: :->command' \\\n    '*:: :->rest'\n"
         "  case $state in\n    command) _describe -t commands command commands ;;\n    rest) case $words[1] in\n" +
         cases + "    esac ;;\n  esac\n}\n\n";
}

}  // namespace

std::string zsh_completions(const CommandTable& table) {
  std::string text =
      "#compdef xrun\n# Completion of xrun in zsh, made by `xrun completions zsh`.\n\n_xrun_common() {\n  common=(\n" +
      flag_lines(table[0], "    ", "\n") + "  )\n}\n\n";
  for (const CommandEntry& command : table) {
    text += function_of(table, command);
  }
  return text + R"(# As a file of $fpath this is the body of _xrun; sourced, it defines it.
if [[ $funcstack[1] == _xrun ]]; then
  _xrun "$@"
else
  compdef _xrun xrun
fi
)";
}

}  // namespace xrun::cli
