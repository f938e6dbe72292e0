// A plan file stands alone: it is shown in another directory, without its model, in every form.
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
using ::testing::StartsWith;

class PlansAlone : public ::testing::Test {
 protected:
  // Plans a model, and moves the plan to a directory without the model.
  void SetUp() override {
    directory_.write("tiny.xgraph", tiny_model());
    const auto plan = run({"plan", "tiny.xgraph"});
    ASSERT_EQ(plan.exit, 0) << plan.err;
    with_model_ = run({"show", "tiny.xplan"}).out;
    fs::create_directory(directory_.path() + "/else");
    fs::rename(directory_.path() + "/tiny.xplan", directory_.path() + "/else/mailed.xplan");
  }

  CommandResult run(const std::vector<std::string>& words) { return run_xrun(words, {.directory = directory_.path()}); }
  // Runs a command where the plan is, after the model was removed.
  CommandResult elsewhere(const std::vector<std::string>& words) {
    fs::remove(directory_.path() + "/tiny.xgraph");
    return run_xrun(words, {.directory = directory_.path() + "/else"});
  }

  TemporaryDirectory directory_;
  std::string with_model_;
};

TEST_F(PlansAlone, EveryFormNeedsThePlanFileAlone) {
  const auto text = elsewhere({"show", "mailed.xplan"});
  EXPECT_EQ(text.exit, 0) << text.err;
  EXPECT_EQ(text.out, with_model_);
  for (const char* table : {"layers", "memory", "comm", "why"}) {
    EXPECT_EQ(elsewhere({"show", "mailed.xplan", "--table", table}).exit, 0) << table;
  }
  EXPECT_EQ(elsewhere({"show", "mailed.xplan", "--emit", "program"}).exit, 0);
  EXPECT_THAT(elsewhere({"show", "mailed.xplan", "--gantt"}).out, HasSubstr("stage 0"));
  const auto json = nlohmann::json::parse(elsewhere({"show", "mailed.xplan", "--format", "json"}).out);
  EXPECT_FALSE(json["ops"].empty());
  const auto html = elsewhere({"show", "mailed.xplan", "--format", "html"});
  EXPECT_EQ(html.exit, 0) << html.err;
  EXPECT_THAT(html.out, StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(html.out, HasSubstr("tiny.xgraph:")) << "source lines";
  EXPECT_THAT(elsewhere({"show", "mailed.xplan", "--format", "csv"}).out, StartsWith("id,device,stream,what"));
  EXPECT_GT(elsewhere({"show", "mailed.xplan", "--format", "perfetto"}).out.size(), 100U);
}

TEST_F(PlansAlone, TwoFilesAreCompared) {
  EXPECT_EQ(run({"plan", "tiny.xgraph", "--set", "train.batch=16", "-o", "else/other.xplan"}).exit, 0);
  const auto diff = elsewhere({"show", "mailed.xplan", "--diff", "other.xplan"});
  EXPECT_EQ(diff.exit, 0) << diff.err;
  EXPECT_THAT(diff.out, HasSubstr("batch"));
  const auto json = elsewhere({"show", "mailed.xplan", "--diff", "other.xplan", "--format", "json"});
  EXPECT_FALSE(nlohmann::json::parse(json.out)["changed"].empty());
}

TEST_F(PlansAlone, TrainingComparesThePlanWithItsModel) {
  const auto gone = elsewhere({"train", "mailed.xplan"});
  EXPECT_EQ(gone.exit, 1);
  EXPECT_THAT(gone.err, HasSubstr("XG0625"));
  std::string changed = tiny_model();
  changed.resize(changed.find("test \"size\""));  // which counts the parameters
  const size_t width = changed.find("linear(24)");
  ASSERT_NE(width, std::string::npos);
  changed.replace(width, 10, "linear(20)");
  directory_.write("tiny.xgraph", changed);
  const auto stale = run({"train", "else/mailed.xplan"});
  EXPECT_EQ(stale.exit, 1);
  EXPECT_THAT(stale.err, HasSubstr("has changed since plan"));
  EXPECT_THAT(stale.err, HasSubstr("`bn_3` was bn to f32[N, 24], now it is bn to f32[N, 20]"));
}

TEST_F(PlansAlone, ARunIsLaidOverItsPlan) {
  const auto trained = run({"train", "else/mailed.xplan", "--profile", "3", "--steps", "15", "--progress", "plain"});
  ASSERT_EQ(trained.exit, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("ckpt/quick/profile.json has the times of all instructions"));
  const std::string times = "../ckpt/quick/profile.json";
  const auto text = elsewhere({"show", "mailed.xplan", "--measured", times});
  EXPECT_EQ(text.exit, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("medians of 10 steps"));
  const auto json =
      nlohmann::json::parse(elsewhere({"show", "mailed.xplan", "--measured", times, "--format", "json"}).out);
  EXPECT_EQ(json["measured"]["steps"], 10);
  for (const auto& one : json["instructions"]) {
    EXPECT_LE(one["measured_begin"].get<double>(), one["measured_end"].get<double>());
  }
  EXPECT_THAT(elsewhere({"show", "mailed.xplan", "--measured", times, "--format", "html"}).out,
              HasSubstr("\"measured\":{\"steps\":10"));
}

TEST_F(PlansAlone, WrongUsesAreRefusedWithAWayOut) {
  const auto refusal = [&](const std::vector<std::string>& words) {
    const auto result = elsewhere(words);
    EXPECT_EQ(result.exit, 2) << result.err;
    return result.err;
  };
  EXPECT_THAT(refusal({"show", "mailed.xplan", "--format", "html", "--gantt"}), HasSubstr("writes the whole plan"));
  EXPECT_THAT(refusal({"plan", "mailed.xplan", "--format", "html"}), HasSubstr("only `xrun show` writes"));
  EXPECT_THAT(refusal({"show", "mailed.xplan", "--diff", "mailed.xplan", "--gantt"}), HasSubstr("exclude one another"));
  EXPECT_THAT(refusal({"show", "mailed.xplan", "--set", "train.batch=8"}), HasSubstr("XG0620"));
  directory_.write("else/run.json", R"({"v":1,"plan":"00000000","steps":1,"step_seconds":1,"instructions":[]})");
  const auto other = elsewhere({"show", "mailed.xplan", "--measured", "run.json"});
  EXPECT_EQ(other.exit, 1);
  EXPECT_THAT(other.err, HasSubstr("error[XG0638]: `run.json` has the times of plan 00000000"));
}

// Returns the path of Chromium; empty if it is not installed. XRUN_BROWSER names another program with its flags.
std::string browser() {
  const char* named = std::getenv("XRUN_BROWSER");
  const std::string path = named != nullptr ? named : "/usr/bin/chromium";
  return fs::exists(path) ? path : "";
}

TEST_F(PlansAlone, PagesOpenInABrowserWithoutErrors) {
  const std::string chromium = browser();
  if (chromium.empty()) {
    GTEST_SKIP() << "Chromium is not installed (packages/dev.txt; XRUN_BROWSER names another program)";
  }
  const auto html = elsewhere({"show", "mailed.xplan", "--format", "html"});
  ASSERT_EQ(html.exit, 0) << html.err;
  const std::string page = directory_.write("page.html", html.out);
  const std::string dom = directory_.path() + "/dom.html";
  const std::string log = directory_.path() + "/log.txt";
  const std::string command = "timeout 100 " + chromium +
                              " --headless --no-sandbox --disable-gpu --user-data-dir=" + directory_.path() +
                              "/profile --enable-logging=stderr --v=0 --virtual-time-budget=4000 --dump-dom file://" +
                              page + " > " + dom + " 2> " + log;
  ASSERT_EQ(std::system(command.c_str()), 0) << read_file(log);
  const std::string shown = read_file(dom);
  EXPECT_THAT(shown, HasSubstr("data-ready=")) << read_file(log);
  EXPECT_THAT(read_file(log), ::testing::Not(HasSubstr("CONSOLE")));
  const auto json = nlohmann::json::parse(elsewhere({"show", "mailed.xplan", "--format", "json"}).out);
  for (const auto& [name, value] : {std::pair("Step", json["predicted"]["step_seconds"]),
                                    {"Stages", json["settings"]["stages"]},
                                    {"Samples a second", json["predicted"]["images_per_second"]},
                                    {"Micro-batches", json["settings"]["micro_batches"]},
                                    {"Memory of a run", json["run_memory"]["sum"]}}) {
    const std::string mark = "\" data-name=\"" + std::string(name) + "\"";
    const size_t end = shown.find(mark);
    ASSERT_NE(end, std::string::npos) << name;
    const size_t begin = shown.rfind("data-value=\"", end) + 12;
    EXPECT_DOUBLE_EQ(std::stod(shown.substr(begin, end - begin)), value.get<double>()) << name;
  }
}

}  // namespace
}  // namespace xrun::testing
