// Tests: tests/runtime/cli/commands/completions_test.cpp
#include "runtime/cli/console/flag_table.h"

#include <algorithm>
#include <sstream>
#include <string_view>

namespace xrun::cli {
namespace {

// The text from after `begin` to the next `end`; empty if `begin` does not occur.
std::string between(const std::string& text, std::string_view begin, std::string_view end) {
  const size_t from = text.find(begin);
  return from == std::string::npos ? "" : text.substr(from + begin.size(), text.find(end, from) - from - begin.size());
}

bool has_any(const std::string& text, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return text.find(word) != std::string::npos; });
}

// CLI11 describes values as "FILE", "TEXT:{text,json}" or "N:INT in [0 - 9]".
ValueEntry read_value(const CLI::Option& option) {
  ValueEntry value;
  if (option.get_expected_max() == 0) {
    value.kind = ValueKind::kNothing;
    return value;
  }
  const std::string type = option.get_type_name();
  value.name = type.substr(0, std::min(type.find(":{"), type.find(":INT in [")));
  value.repeated = option.get_items_expected_max() > 1;
  value.several = value.repeated && option.get_allow_extra_args();
  std::istringstream choices(between(type, ":{", "}"));
  for (std::string choice; std::getline(choices, choice, ',');) {
    value.choices.push_back(choice);
  }
  if (const std::string range = between(type, ":INT in [", "]"); !range.empty()) {
    value.range = "from " + range.substr(0, range.find(" - ")) + " to " + range.substr(range.find(" - ") + 3);
  }
  if (!value.choices.empty()) {
    value.kind = ValueKind::kChoice;
  } else if (value.name == "INT" || value.name == "UINT" || value.name == "N" || value.name == "SECONDS" ||
             value.name == "FLOAT") {
    value.kind = ValueKind::kNumber;
  } else if (has_any(value.name, {"FILE", "PLAN", "CKPT", "IMAGES"})) {
    value.kind = ValueKind::kFile;
  } else if (value.name == "DIR") {
    value.kind = ValueKind::kDirectory;
  }
  value.name = value.name == "TEXT"                                          ? "VALUE"
               : value.kind == ValueKind::kNumber && value.name != "SECONDS" ? "N"
                                                                             : value.name;
  return value;
}

void read_options(const CLI::App& app, CommandEntry& command) {
  for (const CLI::Option* option : app.get_options([](const CLI::Option*) { return true; })) {
    if (option == app.get_help_ptr() && app.get_parent() != nullptr) {
      continue;  // --help is listed once, as a flag of the program
    }
    if (option->get_positional()) {
      command.arguments.push_back({read_value(*option), option->get_description()});
      continue;
    }
    FlagEntry flag{.names = {},
                   .value = read_value(*option),
                   .about = option->get_description(),
                   .variable = option->get_envname()};
    for (const std::string& name : option->get_snames()) {
      flag.names.push_back("-" + name);
    }
    for (const std::string& name : option->get_lnames()) {
      flag.names.push_back("--" + name);
    }
    command.flags.push_back(std::move(flag));
  }
}

size_t add_command(const CLI::App& app, const std::vector<std::string>& words, CommandTable& table) {
  const size_t place = table.size();
  table.push_back({.words = words, .aliases = app.get_aliases(), .about = app.get_description()});
  read_options(app, table[place]);
  for (const CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; })) {
    std::vector<std::string> longer = words;
    longer.push_back(below->get_name());
    const size_t next = add_command(*below, longer, table);
    table[place].below.push_back(next);
  }
  return place;
}

}  // namespace

CommandTable read_commands(const CLI::App& app) {
  CommandTable table;
  add_command(app, {}, table);
  return table;
}

std::string joined_words(const CommandEntry& command, const std::string& between_words, const std::string& first) {
  std::string text = first;
  for (const std::string& word : command.words) {
    text += (text.empty() ? "" : between_words) + word;
  }
  return text;
}

}  // namespace xrun::cli
