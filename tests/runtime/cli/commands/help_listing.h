// The commands of xrun with their flags, read from what `--help` prints.
#pragma once

#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/command.h"

namespace xrun::testing {

struct HelpListing {
  std::vector<std::string> words;    // "bench", "head"; empty: xrun without a command
  std::vector<std::string> flags;    // "-o", "--output", including the flags of every command
  std::vector<std::string> choices;  // values of flags that take only certain words
  std::vector<std::string> below;    // names of the command's subcommands
};

inline std::string joined(const std::vector<std::string>& words, const std::string& between) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : between) + word;
  }
  return text;
}

inline HelpListing read_help(const std::vector<std::string>& words) {
  const std::regex flag_line("^  (-[A-Za-z])?,?(--[a-z-]+)?( .*)?$");
  const std::regex command_line("^  ([a-z]+)(, [a-z]+)* .*$");
  HelpListing listing{.words = words, .flags = {}, .choices = {}, .below = {}};
  std::vector<std::string> help = words;
  help.emplace_back("--help");
  bool commands = false;
  std::istringstream lines(run_xrun(help).out);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (!line.starts_with("  ")) {
      commands = line == "Subcommands:";
    } else if (commands && std::regex_match(line, match, command_line)) {
      listing.below.push_back(match[1]);
    } else if (line.starts_with("  -") && std::regex_match(line, match, flag_line)) {
      for (const int group : {1, 2}) {
        if (match[group].matched && match[group].length() > 0) {
          listing.flags.push_back(match[group]);
        }
      }
      const size_t open = line.find(":{");
      std::istringstream choices(open == std::string::npos ? "" : line.substr(open + 2, line.find('}') - open - 2));
      for (std::string choice; std::getline(choices, choice, ',');) {
        listing.choices.push_back(choice);
      }
    }
  }
  return listing;
}

// Reads the help of xrun and of every command. Subcommands follow their command.
inline std::vector<HelpListing> read_all_help() {
  std::vector<HelpListing> all{read_help({})};
  for (size_t i = 0; i < all.size(); ++i) {
    for (const std::string& name : std::vector<std::string>(all[i].below)) {
      std::vector<std::string> words = all[i].words;
      words.push_back(name);
      all.push_back(read_help(words));
    }
  }
  return all;
}

}  // namespace xrun::testing
