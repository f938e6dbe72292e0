// `xrun completions`: scripts that shells accept, with every command and flag of the help.
#include <algorithm>
#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <regex>

#include "tests/runtime/cli/commands/help_listing.h"

namespace xrun::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using Words = std::vector<std::string>;

class Completions : public ::testing::Test {
 protected:
  static std::string script(const std::string& shell) {
    const CommandResult result = run_xrun({"completions", shell});
    EXPECT_EQ(result.exit, 0) << result.err;
    return result.out;
  }

  // Expects that the shell parses its script. Skips the test if the shell is not installed.
  void expect_parsed(const std::string& shell) {
    if (std::system((shell + " --version >/dev/null 2>&1").c_str()) != 0) {
      GTEST_SKIP() << shell << " is not installed";
    }
    const std::string file = directory_.write("script", script(shell));
    EXPECT_EQ(std::system((shell + " -n '" + file + "'").c_str()), 0);
  }

  // Returns the completions that bash proposes for the last of the words.
  Words proposed(const Words& words) {
    const std::string file = directory_.write("bash", script("bash"));
    std::string line = "cd '" + directory_.path() + "'; source '" + file + "'; COMP_WORDS=(xrun";
    for (const std::string& word : words) {
      line += " \"" + word + "\"";
    }
    line += "); COMP_CWORD=" + std::to_string(words.size()) + "; _xrun; printf '%s\\n' \"${COMPREPLY[@]}\"";
    const std::string commands = directory_.write("commands", line);
    const std::string out = directory_.path() + "/out";
    EXPECT_EQ(std::system(("bash '" + commands + "' >'" + out + "'").c_str()), 0);
    Words found;
    std::istringstream lines(read_file(out));
    for (std::string one; std::getline(lines, one);) {
      if (!one.empty()) {
        found.push_back(one);
      }
    }
    return found;
  }

  TemporaryDirectory directory_;
};

// Returns the lines of a zsh function, up to its closing brace.
std::string function_of(const std::string& script, const std::string& name) {
  const size_t begin = script.find("\n" + name + "() {\n");
  return begin == std::string::npos ? "" : script.substr(begin, script.find("\n}\n", begin) - begin);
}

TEST_F(Completions, BashProposesEveryCommandFlagAndChoice) {
  for (const HelpListing& command : read_all_help()) {
    Words words = command.words;
    words.emplace_back("");
    EXPECT_THAT(proposed(words), IsSupersetOf(command.below)) << joined(command.words, " ");
    words.back() = "-";
    EXPECT_THAT(proposed(words), IsSupersetOf(command.flags)) << joined(command.words, " ");
  }
}

TEST_F(Completions, BashProposesTheValuesOfFlags) {
  EXPECT_THAT(proposed({"--color", ""}), ElementsAre("auto", "always", "never"));
  EXPECT_THAT(proposed({"train", "--progress", "p"}), ElementsAre("plain"));
  EXPECT_THAT(proposed({"inspect", "--table", "l"}), ElementsAre("layers")) << "another name of show";
  EXPECT_THAT(proposed({"bench", "head", "--dtype", "=", "b"}), ElementsAre("bf16")) << "--dtype=b";
  EXPECT_THAT(proposed({"--run", "train", "ev"}), ElementsAre("eval")) << "the value of a flag is not a command";
  EXPECT_THAT(proposed({"--run", "=", "train", "ev"}), ElementsAre("eval"));
  EXPECT_THAT(proposed({"-q", "tr"}), ElementsAre("train")) << "-q has no value";
  EXPECT_THAT(proposed({"train", "--threads", ""}), IsEmpty());
  EXPECT_THAT(proposed({"completions", ""}), ElementsAre("bash", "zsh", "fish"));
  directory_.write("runs/one", "");
  EXPECT_THAT(proposed({"train", "-C", "ru"}), ElementsAre("runs"));
}

TEST_F(Completions, ZshHasEveryCommandAndFlag) {
  const std::string zsh = script("zsh");
  const std::string common = function_of(zsh, "_xrun_common");
  for (const HelpListing& command : read_all_help()) {
    const std::string name = "_xrun" + std::string(command.words.empty() ? "" : "_") + joined(command.words, "_");
    const std::string function = function_of(zsh, name);
    ASSERT_NE(function, "") << name;
    for (const std::string& flag : command.flags) {
      EXPECT_TRUE(std::regex_search(common + function, std::regex("['*)]" + flag + "[=+]?\\["))) << name << flag;
    }
    for (const std::string& below : command.below) {
      EXPECT_THAT(function, HasSubstr("'" + below + ":")) << name;
      EXPECT_THAT(function, HasSubstr(") " + name + "_" + below + " ;;")) << name;
    }
  }
}

TEST_F(Completions, FishHasEveryCommandAndFlag) {
  const std::string fish = script("fish");
  for (const HelpListing& command : read_all_help()) {
    Words lines;
    const std::string seen = command.words.empty() ? "" : "__fish_seen_subcommand_from " + command.words.back();
    std::istringstream all(fish);
    for (std::string line; std::getline(all, line);) {
      if (line.find(" -n ") == std::string::npos || line.find(seen) != std::string::npos) {
        lines.push_back(line);
      }
    }
    const std::string text = joined(lines, "\n");
    for (const std::string& flag : command.flags) {
      EXPECT_THAT(text,
                  HasSubstr(flag.starts_with("--") ? " -l " + flag.substr(2) + " " : " -s " + flag.substr(1) + " "))
          << joined(command.words, " ");
    }
    for (const std::string& below : command.below) {
      EXPECT_THAT(text, HasSubstr(" -a " + below + " ")) << joined(command.words, " ");
    }
  }
}

TEST_F(Completions, BashParsesItsScript) { expect_parsed("bash"); }
TEST_F(Completions, ZshParsesItsScript) { expect_parsed("zsh"); }
TEST_F(Completions, FishParsesItsScript) { expect_parsed("fish"); }

TEST_F(Completions, OtherShellsAreRefused) {
  const CommandResult other = run_xrun({"completions", "tcsh"});
  EXPECT_EQ(other.exit, 2);
  EXPECT_THAT(other.err, HasSubstr("tcsh"));
  EXPECT_EQ(run_xrun({"completions"}).exit, 2);
}

}  // namespace
}  // namespace xrun::testing
