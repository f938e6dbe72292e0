#include "runtime/cli/commands/man_pages.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <span>

#include "graph/base/errors.h"
#include "graph/base/nearest.h"
#include "graph/os/durable.h"
#include "runtime/cli/console/console.h"
#include "runtime/cli/console/usage.h"

namespace xrun::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFirstLine = R"(.\" Made by `xrun man`.)";

// The exit codes, as in docs/reference/command/overview.md, "Exit codes".
constexpr const char* kExitCodes = R"(.SH EXIT STATUS
.TP
0
done
.TP
1
a named input is missing or its content is wrong: model text, data, plan, checkpoint
.TP
2
wrong use of the command
.TP
3
no plan fits
.TP
4
the system refused something: permission, I/O error, disk full, a missing system package
.TP
5
training failed: a value is not finite
.TP
10
.B \-\-exit\-code
was given, and the plans differ
.TP
75
stopped early, with a checkpoint if the command trains: run it again
.TP
128 + n
ended by signal n
)";

// Escapes a text so that troff prints it as it is. Code in backticks becomes bold.
std::string escaped(const std::string& text) {
  std::string out;
  bool code = false;
  for (const char c : text) {
    switch (c) {
      case '`':
        code = !code;
        out += code ? "\\fB" : "\\fR";
        break;
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '~':
        out += "\\(ti";
        break;
      case '^':
        out += "\\(ha";
        break;
      default:
        out += c;
    }
  }
  return (out.starts_with('.') ? "\\&" : "") + out + (code ? "\\fR" : "");
}

std::string ended(const std::string& text) { return text.empty() || text.ends_with('.') ? text : text + "."; }

std::string capitalized(std::string text) {
  if (!text.empty()) {
    text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  }
  return text;
}

// Formats the value of a flag: its choices are bold, its name is italic.
std::string value_text(const ValueEntry& value) {
  if (value.kind != ValueKind::kChoice) {
    return "\\fI" + escaped(value.name) + "\\fR";
  }
  std::string text;
  for (const std::string& choice : value.choices) {
    text += (text.empty() ? "\\fB" : "\\fR|\\fB") + escaped(choice);
  }
  return text + "\\fR";
}

std::string flag_text(const FlagEntry& flag) {
  std::string text = ".TP\n";
  for (const std::string& name : flag.names) {
    text += (text.ends_with('\n') ? "\\fB" : ", \\fB") + escaped(name) + "\\fR";
  }
  text += flag.value.kind == ValueKind::kNothing ? "" : " " + value_text(flag.value);
  text += "\n" + escaped(ended(flag.about));
  text += flag.value.range.empty() ? "" : "\nA number " + escaped(flag.value.range) + ".";
  text += flag.value.repeated ? "\nMay be given several times." : "";
  text += flag.variable.empty() ? "" : "\nVariable: \\fB" + escaped(flag.variable) + "\\fR.";
  return text + "\n";
}

std::string flag_section(const std::string& title, const std::vector<FlagEntry>& flags) {
  std::string text = flags.empty() ? "" : ".SH " + title + "\n";
  for (const FlagEntry& flag : flags) {
    text += flag_text(flag);
  }
  return text;
}

std::string synopsis(const CommandEntry& command) {
  std::string text = ".SH SYNOPSIS\n\\fB" + escaped(joined_words(command, " ", "xrun")) + "\\fR";
  text += command.words.empty() ? " \\fICOMMAND\\fR" : command.below.empty() ? "" : " \\fIPART\\fR";
  text += " [\\fIFLAGS\\fR]";
  for (const ArgumentEntry& argument : command.arguments) {
    text += " " + (argument.value.kind == ValueKind::kChoice ? value_text(argument.value)
                                                             : "\\fI" + escaped(argument.value.name) + "\\fR");
  }
  return text + "\n";
}

std::string description(const CommandTable& table, const CommandEntry& command) {
  std::string text = ".SH DESCRIPTION\n" + escaped(ended(capitalized(command.about))) + "\n";
  for (const std::string& alias : command.aliases) {
    text += "\\fB" + escaped(alias) + "\\fR is another name of this command.\n";
  }
  if (command.words.empty()) {
    text +=
        ".PP\nA first model: \\fBxrun new first\\fR writes one that trains at once, and \\fBxrun train\\fR trains "
        "it.\n";
  }
  for (const ArgumentEntry& argument : command.arguments) {
    text += ".TP\n" + value_text(argument.value) + "\n" + escaped(ended(argument.about)) + "\n";
  }
  if (!command.below.empty()) {
    text += ".SH COMMANDS\n";
  }
  for (const size_t below : command.below) {
    text += ".TP\n\\fB" + escaped(joined_words(table[below], " ", "xrun")) + "\\fR\n" +
            escaped(ended(table[below].about)) + "\n";
  }
  return text;
}

// The references of a page to the pages of its parent command and of its subcommands.
std::string see_also(const CommandTable& table, size_t place) {
  std::vector<std::string> pages;
  for (const CommandEntry& one : table) {
    const auto& words = table[place].words;
    const bool above =
        one.words.size() + 1 == words.size() && std::equal(one.words.begin(), one.words.end(), words.begin());
    const bool below =
        one.words.size() == words.size() + 1 && std::equal(words.begin(), words.end(), one.words.begin());
    if (above || below) {
      pages.push_back("\\fB" + escaped(joined_words(one, "-", "xrun")) + "\\fR(1)");
    }
  }
  std::string text = ".SH SEE ALSO\n";
  for (const std::string& page : pages) {
    text += page + (&page == &pages.back() ? "\n" : ",\n");
  }
  return text;
}

std::string file_name(const CommandEntry& command) { return joined_words(command, "-", "xrun") + ".1"; }

Status write_pages(const CommandTable& table, const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    return world_error("XG0911", {"`{}` cannot be made: {}", directory, error.message()}, "choose another place");
  }
  for (size_t place = 0; place < table.size(); ++place) {
    const std::string page = man_page(table, place, XRUN_VERSION);
    const std::span<const std::byte> bytes = std::as_bytes(std::span(page));
    XRUN_TRY(replace_file((fs::path(directory) / file_name(table[place])).string(), Pieces(&bytes, 1),
                          {.name = "page", .code = "XG0911", .magic = kFirstLine, .flag = "--write"}));
  }
  return {};
}

bool is_named(const CommandEntry& command, const std::vector<std::string>& words) {
  if (command.words == words) {
    return true;
  }
  return !words.empty() && words.size() == command.words.size() &&
         std::equal(words.begin(), words.end() - 1, command.words.begin()) &&
         std::ranges::find(command.aliases, words.back()) != command.aliases.end();
}

}  // namespace

std::string man_page(const CommandTable& table, size_t place, const std::string& version) {
  const CommandEntry& command = table[place];
  const std::string name = joined_words(command, "-", "xrun");
  std::string title = name;
  std::ranges::transform(title, title.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  std::string about = command.about;
  if (about.ends_with('.')) {  // the description of the program is a sentence
    about.pop_back();
    about[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(about[0])));
  }
  std::string text = fmt::format("{}\n.TH {} 1 \"\" \"xrun {}\" \"xrun manual\"\n.SH NAME\n{} \\- {}\n", kFirstLine,
                                 escaped(title), version, escaped(name), escaped(about));
  text += synopsis(command) + description(table, command);
  text += command.words.empty() ? "" : flag_section("OPTIONS", command.flags);
  text += flag_section("FLAGS OF EVERY COMMAND", table[0].flags);
  text +=
      ".SH ENVIRONMENT\nThe variable of a flag sets it; a flag on the command line wins. A variable that is empty "
      "counts "
      "as not set.\n";
  return text + kExitCodes + see_also(table, place);
}

Outcome<int> run_man(const CommandTable& table, const ManArgs& args) {
  if (!args.directory.empty()) {
    XRUN_TRY(write_pages(table, args.directory));
    return 0;
  }
  std::vector<std::string> known;
  for (size_t place = 0; place < table.size(); ++place) {
    if (is_named(table[place], args.words)) {
      const std::string page = man_page(table, place, XRUN_VERSION);
      std::fwrite(page.data(), 1, page.size(), stdout);
      return 0;
    }
    known.push_back(joined_words(table[place], " "));
  }
  std::string wanted;
  for (const std::string& word : args.words) {
    wanted += (wanted.empty() ? "" : " ") + word;
  }
  const std::string near = nearest(wanted, known);
  return usage_fault("there is no command `" + wanted + "`",
                     near.empty() ? "`xrun --help` lists them" : "did you mean `" + near + "`?");
}

}  // namespace xrun::cli
