// Programs that a process starts: exit codes, output, limits of time, and programs that do not start.
#include "graph/os/child_process.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <gtest/gtest.h>

#include "tests/support/command.h"

namespace xrun {
namespace {

using xrun::testing::read_file;
using xrun::testing::TemporaryDirectory;

TEST(ChildProcess, TheExitCodeIsThatOfTheProgramOrItsSignal) {
  ChildProcess child;
  ASSERT_EQ(child.start({"sh", "-c", "exit 7"}), 0);
  EXPECT_EQ(child.wait(), 7);
  EXPECT_EQ(child.pid(), 0);
  ASSERT_EQ(child.start({"sh", "-c", "kill -TERM $$"}), 0);
  EXPECT_EQ(child.wait(), kSignalled + SIGTERM);
}

TEST(ChildProcess, OutputAndErrorsGoIntoTheFile) {
  const TemporaryDirectory directory;
  ChildProcess child;
  const std::string path = directory.path() + "/log";
  ASSERT_EQ(child.start({"sh", "-c", "echo one; echo two >&2"}, {.output = path}), 0);
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(read_file(path), "one\ntwo\n");
  EXPECT_EQ(child.start({"true"}, {.output = directory.path() + "/no/log"}), ENOENT);
}

TEST(ChildProcess, AProgramThatDoesNotExistIsAFaultOfTheStart) {
  ChildProcess child;
  EXPECT_EQ(child.start({"no-such-program-of-xrun"}), ENOENT);
  EXPECT_EQ(child.pid(), 0);
}

TEST(ChildProcess, AProgramThatTakesTooLongIsKilled) {
  ChildProcess child;
  ASSERT_EQ(child.start({"sleep", "600"}), 0);
  EXPECT_FALSE(child.wait_at_most(0.05).has_value());
  EXPECT_EQ(child.pid(), 0);
  ASSERT_EQ(child.start({"sh", "-c", "exit 3"}), 0);
  EXPECT_EQ(child.wait_at_most(60), 3);
}

TEST(ChildProcess, ARequestToStopEndsTheWait) {
  const std::atomic<bool> stop{true};
  ChildProcess child;
  ASSERT_EQ(child.start({"sleep", "600"}), 0);
  EXPECT_FALSE(child.wait_at_most(600, &stop).has_value());
  EXPECT_EQ(child.pid(), 0);
}

TEST(ChildProcess, TheEnvironmentLacksOnlyTheNamedVariables) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/log";
  ::setenv("XRUN_CHILD_A", "a", 1);
  ::setenv("XRUN_CHILD_AB", "ab", 1);
  ChildProcess child;
  ASSERT_EQ(
      child.start({"sh", "-c", "echo [$XRUN_CHILD_A] [$XRUN_CHILD_AB]"}, {.output = path, .without = {"XRUN_CHILD_A"}}),
      0);
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(read_file(path), "[] [ab]\n");
  ::unsetenv("XRUN_CHILD_A");
  ::unsetenv("XRUN_CHILD_AB");
}

}  // namespace
}  // namespace xrun
