// The files that `cmake --install` copies into a folder work from there.
#include <cstdlib>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/command.h"
#include "tests/support/tiny_model.h"

namespace xrun::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Installed : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("cmake --version >/dev/null 2>&1") != 0) {
      GTEST_SKIP() << "cmake is not on the path";
    }
    const std::string words = "cmake --install '" + std::string(XRUN_BINARY_DIR) + "' --prefix '" + place().string() +
                              "' >'" + directory_.path() + "/log' 2>&1";
    ASSERT_EQ(std::system(words.c_str()), 0) << read_file(directory_.path() + "/log");
  }
  fs::path place() const { return fs::path(directory_.path()) / "usr"; }
  CommandResult run(const std::vector<std::string>& words) {
    return run_xrun(words, {.binary = place() / "bin/xrun", .directory = directory_.path()});
  }

  TemporaryDirectory directory_;
};

TEST_F(Installed, TheProgramTrainsAndFindsItsModules) {
  directory_.write("tiny.xgraph", tiny_model());
  const CommandResult trained = run({"train", "tiny.xgraph", "--progress", "none", "--steps", "1"});
  EXPECT_EQ(trained.exit, 0) << trained.err;
  const auto here = nlohmann::json::parse(run({"doctor", "--format", "json"}).out);
  const auto built = nlohmann::json::parse(run_xrun({"doctor", "--format", "json"}).out);
  EXPECT_EQ(here.value("compiler", ""), built.value("compiler", ""));
  for (const char* module : {"xrun_jit.so", "libxrun_mpi.so", "libxrun_mpich.so"}) {
    EXPECT_EQ(fs::exists(place() / "lib/xrun" / module), fs::exists(fs::path(XRUN_BINARY_DIR) / module)) << module;
  }
}

TEST_F(Installed, BenchmarksAreAProgramInTheFolderOfXrun) {
  const CommandResult measured = run({"bench", "comm", "--mib", "1", "--rounds", "1"});
  EXPECT_EQ(measured.exit, 0) << measured.err;
  EXPECT_THAT(measured.out, HasSubstr("reduce_scatter"));
  ASSERT_TRUE(fs::remove(place() / "bin/xrun-bench"));
  const CommandResult missing = run({"bench", "comm", "--mib", "1", "--rounds", "1"});
  EXPECT_EQ(missing.exit, 4);
  EXPECT_EQ(missing.out, "");
  EXPECT_THAT(missing.err, HasSubstr("/bin/xrun-bench`, which does not exist"));
  EXPECT_THAT(missing.err, HasSubstr("help: build the target xrun-bench, or install xrun again"));
  EXPECT_EQ(run({"bench", "head", "--help"}).exit, 0) << "xrun itself knows the flags";
  EXPECT_EQ(run({"bench", "head", "--classes", "many"}).exit, 2);
}

TEST_F(Installed, IncludesModelsPagesAndCompletions) {
  EXPECT_EQ(run({"check", (place() / "share/xrun/models/synthetic.xgraph").string()}).exit, 0);
  EXPECT_EQ(read_file(place() / "share/man/man1/xrun-bench-head.1"), run({"man", "bench", "head"}).out);
  EXPECT_EQ(read_file(place() / "share/bash-completion/completions/xrun"), run({"completions", "bash"}).out);
  EXPECT_EQ(read_file(place() / "share/fish/vendor_completions.d/xrun.fish"), run({"completions", "fish"}).out);
  EXPECT_EQ(read_file(place() / "share/zsh/vendor-completions/_xrun"), run({"completions", "zsh"}).out);
}

}  // namespace
}  // namespace xrun::testing
