// Outcomes of commands: how failures pass through functions, and how the console prints them.
#include "runtime/cli/console/outcome.h"

#include <gtest/gtest.h>

#include "graph/base/errors.h"
#include "runtime/cli/console/console.h"
#include "runtime/cli/console/usage.h"

namespace xrun::cli {
namespace {

// Prints the failure and checks its exit code. Returns the text.
std::string printed(const Failure& failure, int exit, const std::string& format = "text") {
  std::string text;
  const Console console(GlobalOptions{.format = format, .color = "never"}, &text);
  EXPECT_EQ(console.fail(failure), exit);
  return text;
}

Outcome<int> half(int number) {
  if (number % 2 != 0) {
    return usage_error("XG0906", {"{} is odd", number}, "give an even number");
  }
  return number / 2;
}

Outcome<std::string> quarter(int number) {
  XRUN_ASSIGN(const int once, half(number));
  XRUN_ASSIGN(const int twice, half(once));
  return std::to_string(twice);
}

TEST(Outcome, PassesAFailureToTheCaller) {
  const Outcome<std::string> good = quarter(8);
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(*good, "2");
  const Outcome<std::string> bad = quarter(6);
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().error.message, "3 is odd");
  EXPECT_EQ(bad.error().exit, 2);
}

TEST(Outcome, GetsTheSourceTextsOfItsError) {
  SourceMap sources;
  const int32_t file = sources.add("m.xgraph", "xgraph 1\nmodel m {}\n");
  const Outcome<void> good = with_sources(Status(), sources);
  EXPECT_TRUE(good.ok());
  const Error error = content_error("XG0201", "the model is empty", "add an input", {file, 15, 16});
  const Outcome<void> bad = with_sources(Status(error), sources);
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(printed(bad.error(), 1), render(error, sources));
}

TEST(Failure, PrintsItsDiagnosticsAndThenItsError) {
  Diagnostics diagnostics;
  diagnostics.add({.code = "XG0201", .message = "there is no `x`"});
  diagnostics.add({.severity = Severity::kWarning, .code = "XG0412", .message = "`y` is not used"});
  Failure failure(diagnostics, {});
  const std::string text = render(diagnostics.all()[0], {}) + "\n" + render(diagnostics.all()[1], {}) + "\n";
  EXPECT_EQ(printed(failure, 1), text);
  failure.heading = "rank 2 on host b";
  failure.error = world_error("XG0122", "cannot read `m.xgraph`", "check its permissions");
  EXPECT_EQ(printed(failure, 1), "rank 2 on host b:\n" + text + render(failure.error, {}));
}

TEST(Failure, PrintsNothingIfAnotherRankPrintsIt) {
  EXPECT_EQ(printed(Failure::silent(75), 75), "");
  EXPECT_EQ(printed(Error{.kind = ErrorKind::kWorld}, 4), "");
}

TEST(Failure, IsPlainTextInEveryFormatIfFlagsAreWrong) {
  for (const char* format : {"text", "json"}) {
    EXPECT_EQ(printed(usage_fault("`--set a` has no `=`", "write PATH=VALUE"), 2, format),
              "error: `--set a` has no `=`\nhelp: write PATH=VALUE\n");
  }
}

}  // namespace
}  // namespace xrun::cli
