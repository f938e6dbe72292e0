// The tables of flags in docs/reference/command/ are made from the command line itself, so they list exactly the flags
// that the program has, with the texts of `--help`. A table is between two lines of its page:
//   <!-- flags of xrun eval -->
//   <!-- end of flags -->
// XRUN_UPDATE_GOLDENS=1 writes the tables again.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cli/command_line.h"
#include "runtime/cli/console/counts.h"
#include "runtime/cli/console/flag_table.h"
#include "runtime/cli/console/usage.h"
#include "tests/support/golden.h"

namespace xrun::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFolder = "docs/reference/command";
constexpr std::string_view kOpen = "<!-- flags of ";
constexpr std::string_view kOpenEnd = " -->\n";
constexpr std::string_view kClose = "<!-- end of flags -->\n";

// A limit with more digits only catches typing errors, so pages leave it out.
constexpr size_t kDigitsOfALimit = 6;

std::vector<std::string> pages() {
  std::vector<std::string> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(XRUN_SOURCE_DIR) / kFolder)) {
    if (entry.path().extension() == ".md") {
      paths.push_back(fmt::format("{}/{}", kFolder, entry.path().filename().string()));
    }
  }
  std::ranges::sort(paths);
  return paths;
}

// Returns the flag with the name of its value: "-o, --output FILE", "--on SOURCE...", "--fit classes".
std::string flag_text(const FlagEntry& flag) {
  const ValueEntry& value = flag.value;
  std::string text = fmt::format("{}", fmt::join(flag.names, ", "));
  if (value.kind != ValueKind::kNothing) {
    text += " " + (value.choices.size() == 1 ? value.choices[0] : value.name) + (value.several ? "..." : "");
  }
  return text;
}

// Returns the help text of the flag, and those properties of its value that the text does not mention.
std::string meaning_of(const FlagEntry& flag) {
  const ValueEntry& value = flag.value;
  const bool names_choices = std::ranges::all_of(value.choices, [&](const std::string& choice) {
    return std::regex_search(flag.about, std::regex("\\b" + choice + "\\b"));
  });
  const size_t digits = value.range.size() - std::min(value.range.rfind(' ') + 1, value.range.size());
  std::string text = flag.about;
  if (!names_choices && value.choices.size() > 1) {
    text += fmt::format("; one of `{}`", fmt::join(value.choices, "`, `"));
  }
  if (!value.range.empty() && digits <= kDigitsOfALimit) {
    text += "; " + value.range;
  }
  return text + (value.repeated && !value.several ? "; may be given several times" : "");
}

// Escapes the character that separates the cells of a table.
std::string cell(const std::string& text) { return std::regex_replace(text, std::regex("\\|"), "\\|"); }

std::string flag_table(const std::vector<FlagEntry>& flags) {
  std::string text = "| flag | meaning |\n|---|---|\n";
  for (const FlagEntry& flag : flags) {
    EXPECT_FALSE(flag.about.empty()) << flag_text(flag);
    text += fmt::format("| `{}` | {} |\n", cell(flag_text(flag)), cell(meaning_of(flag)));
  }
  return text;
}

// Returns the tables of all commands that have flags of their own, by their names in the pages.
std::map<std::string, std::string> all_tables() {
  CommandLine line;
  CLI::App app("", "xrun");
  add_global_flags(app, line);
  add_commands(app, line);
  name_variables(app);
  check_values(app);
  std::map<std::string, std::string> tables;
  for (const CommandEntry& command : read_commands(app)) {
    if (!command.flags.empty()) {
      tables[command.words.empty() ? "every command" : joined_words(command, " ", "xrun")] = flag_table(command.flags);
    }
  }
  return tables;
}

// Returns the page with its tables replaced, and adds their names to `seen`.
std::string with_tables(const std::string& path, const std::map<std::string, std::string>& tables,
                        std::set<std::string>& seen) {
  const std::string page = test::read_source_file(path);
  std::string text;
  size_t from = 0;
  for (size_t at = page.find(kOpen); at != std::string::npos; at = page.find(kOpen, from)) {
    const size_t name_end = page.find(kOpenEnd, at);
    const size_t close = page.find(kClose, at);
    if (name_end == std::string::npos || close == std::string::npos || page.find(kOpen, at + 1) < close) {
      ADD_FAILURE() << path << ": the table at `" << page.substr(at, page.find('\n', at) - at) << "` does not end";
      break;
    }
    const std::string name = page.substr(at + kOpen.size(), name_end - at - kOpen.size());
    const auto table = tables.find(name);
    if (table == tables.end()) {
      ADD_FAILURE() << path << ": `" << name << "` is not a command with flags";
      break;
    }
    EXPECT_TRUE(seen.insert(name).second) << path << ": the table of `" << name << "` is there twice";
    text += page.substr(from, name_end + kOpenEnd.size() - from) + table->second;
    from = close;
  }
  return text + page.substr(from);
}

TEST(CommandPages, TablesOfFlagsAreThoseOfTheProgram) {
  const std::map<std::string, std::string> tables = all_tables();
  std::set<std::string> seen;
  for (const std::string& path : pages()) {
    const std::string text = with_tables(path, tables, seen);
    EXPECT_TRUE(test::matches_golden(text, "../../" + path));
  }
  for (const auto& [name, table] : tables) {
    EXPECT_TRUE(seen.contains(name)) << "no page in " << kFolder << " has the table of `" << name
                                     << "`: put the lines\n"
                                     << kOpen << name << kOpenEnd << kClose << "where it belongs";
  }
}

TEST(CommandPages, TablesNameValuesChoicesAndLimits) {
  const FlagEntry number{.names = {"-k", "--top"},
                         .value = {.kind = ValueKind::kNumber, .name = "N", .choices = {}, .range = "from 1 to 9"},
                         .about = "a or b | c",
                         .variable = ""};
  FlagEntry choice{.names = {"--way"},
                   .value = {.kind = ValueKind::kChoice, .name = "VALUE", .choices = {"up", "down"}, .range = ""},
                   .about = "upwards or down",
                   .variable = ""};
  EXPECT_EQ(flag_table({number, choice}),
            "| flag | meaning |\n|---|---|\n"
            "| `-k, --top N` | a or b \\| c; from 1 to 9 |\n"
            "| `--way VALUE` | upwards or down; one of `up`, `down` |\n");
  choice.about = "up or down";
  choice.value.repeated = true;
  EXPECT_EQ(meaning_of(choice), "up or down; may be given several times");
  choice.value.several = true;
  EXPECT_EQ(flag_text(choice), "--way VALUE...");
}

}  // namespace
}  // namespace xrun::cli
