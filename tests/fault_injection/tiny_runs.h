// A directory with the tiny model, and functions that read the output of its runs.
#pragma once

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tests/support/command.h"
#include "tests/support/sanitized.h"
#include "tests/support/tiny_model.h"

namespace xrun::testing {

using Words = std::vector<std::string>;

class TinyRuns : public ::testing::Test {
 protected:
  void SetUp() override { directory.write("tiny.xgraph", tiny_model()); }

  // Returns the command that trains up to `step` and saves at the end.
  static Words train_to(int step) {
    return {"train", "tiny.xgraph", "--threads",          "2",          "--devices",
            "2",     "--steps",     std::to_string(step), "--progress", "plain"};
  }

  CommandResult run(const Words& words, CommandOptions options = {}) {
    options.directory = directory.path();
    return run_xrun(words, options);
  }

  // Returns the digest of the weights in the last line of a run: "... weights=5a0c34dd937e611dd456f94232646ce6
  // seconds=0.4 exit=0".
  static std::string weights_of(const CommandResult& result) {
    const size_t at = result.err.rfind(" weights=");
    return at == std::string::npos ? "" : result.err.substr(at + 9, result.err.find(' ', at + 1) - at - 9);
  }

  // Expects that a command that failed ended by itself with an error message.
  static void expect_said(const CommandResult& result) {
    if (result.exit == 127) {  // the program failed before `main`
      EXPECT_THAT(result.err, ::testing::HasSubstr("error while loading shared libraries"));
      return;
    }
    EXPECT_THAT(result.err, ::testing::Not(::testing::HasSubstr("internal error")));
    EXPECT_THAT(result.exit, ::testing::AllOf(::testing::Ge(1), ::testing::Le(4))) << result.err;
    EXPECT_THAT(lower(result.err), ::testing::AnyOf(::testing::HasSubstr("error["), ::testing::HasSubstr("error: "),
                                                    ::testing::HasSubstr("out of memory")))
        << result.out;
  }

  // Converts to lower case. libgomp has its own message for a lack of memory, which is searched without case.
  static std::string lower(std::string text) {
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
  }

  TemporaryDirectory directory;
};

}  // namespace xrun::testing
