// `xrun man` writes a page for each command, with every flag of its help, which troff formats without a warning.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/cli/commands/help_listing.h"

namespace xrun::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Escapes dashes for troff, which would print a plain `-` as a hyphen.
std::string with_dashes(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += c == '-' ? "\\-" : std::string(1, c);
  }
  return out;
}

std::string page_name(const HelpListing& command) {
  return "xrun" + std::string(command.words.empty() ? "" : "-") + joined(command.words, "-");
}

TEST(ManPages, EveryFlagOfACommandIsInItsPage) {
  const std::vector<HelpListing> all = read_all_help();
  ASSERT_GT(all.size(), 15U) << "the help names the commands";
  for (const HelpListing& command : all) {
    std::vector<std::string> words{"man"};
    words.insert(words.end(), command.words.begin(), command.words.end());
    const CommandResult page = run_xrun(words);
    ASSERT_EQ(page.exit, 0) << page.err;
    EXPECT_THAT(page.out, HasSubstr(".SH NAME\n" + with_dashes(page_name(command)) + " \\- "));
    EXPECT_GT(command.flags.size(), 10U);
    for (const std::string& flag : command.flags) {
      EXPECT_THAT(page.out, HasSubstr("\\fB" + with_dashes(flag) + "\\fR")) << page_name(command);
    }
    for (const std::string& choice : command.choices) {
      EXPECT_THAT(page.out, HasSubstr("\\fB" + with_dashes(choice) + "\\fR")) << page_name(command);
    }
    for (const std::string& below : command.below) {
      EXPECT_THAT(page.out, HasSubstr(with_dashes(page_name(command) + "-" + below) + "\\fR(1)"));
    }
  }
}

TEST(ManPages, AllPagesAreWrittenAndReplaced) {
  const TemporaryDirectory directory;
  const std::string place = directory.path() + "/share/man1";
  for (int round = 0; round < 2; ++round) {
    const CommandResult written = run_xrun({"man", "--write", place});
    EXPECT_EQ(written.exit, 0) << written.err;
  }
  const std::vector<HelpListing> all = read_all_help();
  EXPECT_EQ(std::distance(fs::directory_iterator(place), {}), static_cast<ptrdiff_t>(all.size()));
  for (const HelpListing& command : all) {
    EXPECT_TRUE(fs::exists(place + "/" + page_name(command) + ".1")) << page_name(command);
  }
  EXPECT_EQ(read_file(place + "/xrun-train.1"), run_xrun({"man", "train"}).out);
  directory.write("mine/xrun.1", "a text of somebody\n");
  EXPECT_EQ(run_xrun({"man", "--write", directory.path() + "/mine"}).exit, 2) << "other files are kept";
  EXPECT_EQ(read_file(directory.path() + "/mine/xrun.1"), "a text of somebody\n");
}

TEST(ManPages, TroffFormatsThemWithoutAWarning) {
  if (std::system("groff --version >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "groff is not installed";
  }
  const TemporaryDirectory directory;
  ASSERT_EQ(run_xrun({"man", "--write", directory.path() + "/pages"}).exit, 0);
  const std::string warnings = directory.path() + "/warnings";
  for (const auto& page : fs::directory_iterator(directory.path() + "/pages")) {
    const std::string words =
        "groff -man -Tutf8 -ww '" + page.path().string() + "' >'" + directory.path() + "/text' 2>'" + warnings + "'";
    EXPECT_EQ(std::system(words.c_str()), 0) << page.path();
    EXPECT_EQ(read_file(warnings), "") << page.path();
  }
}

TEST(ManPages, AnUnknownCommandGetsTheNearestName) {
  EXPECT_EQ(run_xrun({"man", "inspect"}).out, run_xrun({"man", "show"}).out) << "another name of the command";
  const CommandResult typo = run_xrun({"man", "bench", "hed"});
  EXPECT_EQ(typo.exit, 2);
  EXPECT_THAT(typo.err, StartsWith("error: there is no command `bench hed`\nhelp: did you mean `bench head`?"));
}

}  // namespace
}  // namespace xrun::testing
