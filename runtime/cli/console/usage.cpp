// Tests: tests/cases/command_words_test.cpp, tests/runtime/cli/commands/command_test.cpp
#include "runtime/cli/console/usage.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <unistd.h>
#include <utility>

#include "graph/base/errors.h"
#include "graph/base/nearest.h"
#include "graph/base/utf8.h"

namespace xrun::cli {
namespace {

// The options of the program and of the commands that the command line names.
std::vector<const CLI::Option*> options_in_use(const CLI::App& app) {
  std::vector<const CLI::Option*> options = app.get_options([](const CLI::Option*) { return true; });
  for (const CLI::App* command : app.get_subcommands()) {
    const std::vector<const CLI::Option*> own = options_in_use(*command);
    options.insert(options.end(), own.begin(), own.end());
  }
  return options;
}

// The variable whose value CLI11 rejects, and the variable's flag.
std::optional<std::pair<std::string, std::string>> find_variable(const CLI::App& app, const Words& words,
                                                                 const std::string& message) {
  for (const CLI::Option* option : options_in_use(app)) {
    const std::string variable = words.variable(*option);
    const size_t at = message.find(option->get_name());
    const size_t end = at == std::string::npos ? at : at + option->get_name().size();
    const bool whole =
        at != std::string::npos && (end == message.size() || (message[end] != '-' && std::isalpha(message[end]) == 0));
    if (!variable.empty() && whole) {
      return std::pair(variable, option->get_name());
    }
  }
  return std::nullopt;
}

std::string proposal(const std::string& word, const std::vector<std::string>& known, const std::string& otherwise) {
  const std::string near = nearest(word, known);
  return near.empty() ? otherwise : "did you mean `" + near + "`?";
}

// The proposal for a value that a flag does not accept. `message`: "--scores: logit not in {probabilities,logits}".
std::string proposed_value(const std::string& message, const std::string& otherwise) {
  const size_t colon = message.find(": ");
  const size_t list = message.find(" not in {");
  if (colon == std::string::npos || list == std::string::npos || list < colon) {
    return otherwise;
  }
  std::vector<std::string> values(1);
  for (const char c : message.substr(list + 9, message.rfind('}') - list - 9)) {
    if (c == ',') {
      values.emplace_back();
    } else {
      values.back().push_back(c);
    }
  }
  return proposal(message.substr(colon + 2, list - colon - 2), values, otherwise);
}

// The whole command line, followed by the commands that its first words name, such as `bench head`.
std::vector<const CLI::App*> named_commands(const CLI::App& app, const Words& words) {
  std::vector<const CLI::App*> levels{&app};
  for (bool found = true; found;) {
    const std::string word = words.at(levels.size());
    const auto below = levels.back()->get_subcommands([](const CLI::App*) { return true; });
    const auto next = std::ranges::find_if(below, [&](const CLI::App* one) { return one->check_name(word); });
    found = next != below.end();
    if (found) {
      levels.push_back(*next);
    }
  }
  return levels;
}

// The words of the commands, each after a blank: " bench head". Empty if no command is named.
std::string path_of(const std::vector<const CLI::App*>& commands) {
  std::string path;
  for (size_t i = 1; i < commands.size(); ++i) {
    path += " " + commands[i]->get_name();
  }
  return path;
}

}  // namespace

void name_variables(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty() || option == app.get_help_ptr() || option == app.get_version_ptr()) {
      continue;
    }
    std::string name = "XRUN_" + option->get_lnames()[0];
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return c == '-' ? '_' : static_cast<char>(std::toupper(c)); });
    option->envname(name);
  }
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    name_variables(*command);
  }
}

std::string Words::variable(const CLI::Option& option) const {
  const char* value = option.get_envname().empty() ? nullptr : std::getenv(option.get_envname().c_str());
  return value == nullptr || *value == 0 || is_given(option) ? "" : option.get_envname() + "=" + value;
}

bool Words::is_given(const CLI::Option& option) const {
  return std::any_of(words_.begin(), words_.end(), [&](const std::string& word) {
    const auto begins = [&](const std::string& name) { return word == name || word.rfind(name + "=", 0) == 0; };
    return std::any_of(option.get_lnames().begin(), option.get_lnames().end(),
                       [&](const std::string& name) { return begins("--" + name); }) ||
           std::any_of(option.get_snames().begin(), option.get_snames().end(),
                       [&](const std::string& name) { return word.rfind("-" + name, 0) == 0; });
  });
}

std::string Words::meant_setting(const std::string& word, lang::Nearness nearness) const {
  const size_t equals = std::min(word.find('='), word.size());
  if (!word.starts_with("--")) {
    return "";
  }
  std::string key = word.substr(2, equals - 2);
  std::ranges::replace(key, '-', '_');
  const auto at = std::ranges::find(words_, word);
  const bool follows = at != words_.end() && std::next(at) != words_.end() && !std::next(at)->starts_with("--");
  const std::string value = equals < word.size() ? word.substr(equals + 1) : follows ? *std::next(at) : "VALUE";
  const std::string flag = lang::setting_flag(key, value, nearness);
  return flag.empty() ? "" : "did you mean `" + flag + "`?";
}

Failure usage_fault(const std::string& message, const std::string& help) {
  Failure fault(usage_error("", message, help));
  fault.is_plain = true;
  return fault;
}

Outcome<void> check_command(const CLI::App& app, const Words& words) {
  const std::vector<const CLI::App*> commands = named_commands(app, words);
  const auto all = commands.back()->get_subcommands([](const CLI::App*) { return true; });
  const std::string word = words.at(commands.size());
  if (all.empty() || word.starts_with("-")) {
    return {};
  }
  std::vector<std::string> known;
  std::string list = "one of ";
  for (const CLI::App* command : all) {
    list += (known.empty() ? "" : ", ") + command->get_name();
    known.push_back(command->get_name());
  }
  const std::string path = path_of(commands);
  return word.empty()
             ? usage_fault("`xrun" + path + "` needs a command", list + "; `xrun" + path + " --help` says what they do")
             : usage_fault("there is no command `" + (path.empty() ? "" : path.substr(1) + " ") + word + "`",
                           proposal(word, known, list));
}

Failure parse_fault(const CLI::App& app, const Words& words, const CLI::ParseError& fault) {
  const std::string text = fault.what();
  if (const auto variable = find_variable(app, words, text)) {
    return usage_fault("`" + variable->first + "` in the environment: " + text,
                       "fix or unset the variable, or give " + variable->second + " on the command line");
  }
  const std::vector<const CLI::App*> commands = named_commands(app, words);
  const std::string command = "`xrun" + path_of(commands) + "`";
  const std::string lists = "`xrun" + path_of(commands) + " --help` lists what it takes";
  if (dynamic_cast<const CLI::ExtrasError*>(&fault) != nullptr) {
    const std::string word = text.substr(text.rfind(' ') + 1);
    std::vector<std::string> flags;
    for (const CLI::App* level : commands) {
      for (const CLI::Option* option : level->get_options()) {
        flags.push_back(option->get_name(false, true).substr(0, option->get_name(false, true).find(',')));
        flags.push_back("--" + option->get_single_name());
      }
    }
    std::string help = words.meant_setting(word, lang::Nearness::kExact);
    help = help.empty() ? proposal(word, flags, words.meant_setting(word, lang::Nearness::kNear)) : help;
    return usage_fault(command + " does not know `" + word + "`", help.empty() ? lists : help);
  }
  return usage_fault(text.starts_with("--") ? text : command + ": " + text, proposed_value(text, lists));
}

namespace {

void add_variables(const CLI::App& app, std::vector<std::string>& names) {
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_envname().empty()) {
      names.push_back(option->get_envname());
    }
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    add_variables(*command, names);
  }
}

}  // namespace

void warn_of_variables(const CLI::App& app) {
  std::vector<std::string> names{"XRUN_ISA", "XRUN_JIT"};
  add_variables(app, names);
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string name(text.substr(0, text.find('=')));
    if (!name.starts_with("XRUN_") || text.size() <= name.size() + 1 || std::ranges::find(names, name) != names.end()) {
      continue;
    }
    if (const std::string near = nearest(name, names); !near.empty()) {
      std::fprintf(stderr, "warning: `%s` in the environment has no effect: did you mean `%s`?\n",
                   printable_line(name).c_str(), near.c_str());
    }
  }
}

void print_variables(const CLI::App& app, const Words& words) {
  std::string list;
  for (const CLI::Option* option : options_in_use(app)) {
    const std::string variable = words.variable(*option);
    list += variable.empty() ? "" : (list.empty() ? "" : ", ") + variable;
  }
  if (!list.empty()) {
    std::fprintf(stderr, "note: from the environment: %s\n", printable_line(list).c_str());
  }
}

}  // namespace xrun::cli
