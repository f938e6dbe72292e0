// The log that a run writes next to its checkpoints, and what `xrun show` prints for it.
#include "runtime/cli/progress/run_log.h"

#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include <sys/stat.h>
#include <thread>

#include "runtime/cli/show/log_report.h"
#include "runtime/formats/event_file.h"
#include "tests/support/command.h"
#include "tests/support/golden.h"
#include "tests/support/tiny_model.h"

namespace xrun::cli {
namespace {

using testing::CommandResult;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class RunLog : public ::testing::Test {
 protected:
  CommandResult run(const std::vector<std::string>& words) {
    return testing::run_xrun(words, {.directory = directory.path()});
  }
  std::string at(const std::string& name) const { return directory.path() + "/" + name; }
  // Returns the events of the log without their times.
  std::vector<nlohmann::json> events() const {
    std::istringstream lines(testing::read_file(at("ckpt/quick/log.jsonl")));
    std::vector<nlohmann::json> list;
    for (std::string line; std::getline(lines, line);) {
      list.push_back(nlohmann::json::parse(line));
    }
    return list;
  }
  testing::TemporaryDirectory directory;
};

TEST_F(RunLog, IsWrittenForEveryFormOfProgress) {
  directory.write("tiny.xgraph", testing::tiny_model());
  for (const char* mode : {"none", "plain", "tty"}) {
    std::filesystem::remove_all(at("ckpt"));
    const auto result = run({"train", "tiny.xgraph", "--steps", "25", "--progress", mode});
    ASSERT_EQ(result.exit, 0) << result.err;
    std::vector<std::string> kinds;
    for (const auto& event : events()) {
      if (event["t"] != "warn") {  // a busy machine adds warnings
        kinds.push_back(event["t"]);
      }
    }
    EXPECT_EQ(kinds, (std::vector<std::string>{"plan", "start", "step", "step", "checkpoint", "eval", "step",
                                               "checkpoint", "end"}))
        << mode;
  }
  // The log has the same events if stdout shows JSON.
  std::filesystem::remove_all(at("ckpt"));
  const auto json = run({"train", "tiny.xgraph", "--steps", "25", "--progress", "json"});
  std::string log = testing::read_file(at("ckpt/quick/log.jsonl"));
  EXPECT_EQ(std::count(json.out.begin(), json.out.end(), '\n'), std::count(log.begin(), log.end(), '\n'));
}

TEST_F(RunLog, ShowsAResumedRunAsOneRun) {
  directory.write("tiny.xgraph", testing::tiny_model());
  for (const char* steps : {"25", "45"}) {
    ASSERT_EQ(run({"train", "tiny.xgraph", "--steps", steps, "--progress", "none"}).exit, 0);
  }
  std::ofstream(at("ckpt/quick/log.jsonl"), std::ios::app) << R"({"v":1,"t":"st)";  // killed in the middle of a line
  ASSERT_EQ(run({"train", "tiny.xgraph", "--progress", "none"}).exit, 0);
  const auto shown = run({"show", "ckpt/quick/log.jsonl"});
  ASSERT_EQ(shown.exit, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("ckpt/quick/log.jsonl   3 runs   step 60 of 60   "));
  EXPECT_THAT(shown.out, HasSubstr("\n  1 line is not an event\n"));
  EXPECT_THAT(shown.out, ContainsRegex("\n  loss   [0-9.]+ at step 60   least [0-9.]+ at step [0-9]+, most "));
  EXPECT_THAT(shown.out, ContainsRegex("\n  evaluation\n  test   [0-9.]+ at step 60 "));
  const auto json = nlohmann::json::parse(run({"show", "ckpt/quick/log.jsonl", "--format", "json"}).out);
  std::vector<int> steps;
  for (const auto& point : json["training"]["loss"]) {
    steps.push_back(point[0]);
  }
  EXPECT_EQ(steps, (std::vector<int>{10, 20, 25, 30, 40, 45, 50, 60}));
  EXPECT_EQ(json["training"].size(), 4u) << "loss, lr, images_per_s and the metric: " << json["training"];
}

TEST_F(RunLog, IsGivenUpIfItCannotBeWritten) {
  directory.write("tiny.xgraph", testing::tiny_model());
  std::filesystem::create_directories(at("ckpt/quick"));
  ASSERT_EQ(::mkfifo(at("ckpt/quick/log.jsonl").c_str(), 0600), 0);
  const auto result = run({"train", "tiny.xgraph", "--steps", "5", "--progress", "plain"});
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("warning[XG0817]: ckpt/quick/log.jsonl cannot be opened: "));
  EXPECT_THAT(result.err, HasSubstr("the run continues without this log"));
}

// Checks the bytes of the format. tests/runtime/cli/progress/tensorboard_test.py reads such a file with TensorBoard's
// own reader.
TEST(EventFile, RecordsHaveLengthsAndMaskedSums) {
  const std::string record = runtime::event_record("123456789");
  ASSERT_EQ(record.size(), 8u + 4 + 9 + 4);
  EXPECT_EQ(record.substr(0, 8), std::string("\x09\0\0\0\0\0\0\0", 8));
  uint32_t sum = 0;
  std::memcpy(&sum, record.data() + 21, 4);
  EXPECT_EQ(std::rotl(sum - 0xA282EAD8U, 15), 0xE3069283U) << "CRC-32C of these bytes, as RFC 3720 has it";
}

TEST_F(RunLog, TensorBoardReadsTheEventFile) {
  directory.write("tiny.xgraph", testing::tiny_model());
  const std::string script = std::string(XRUN_SOURCE_DIR) + "/tests/runtime/cli/progress/tensorboard_test.py";
  const std::vector<std::string> words{"train",   "tiny.xgraph",
                                       "--steps", "25",
                                       "--set",   "train.log.tensorboard=true",
                                       "--set",   "train.log.every=5 steps",
                                       "--set",   "train.checkpoint.every=10 steps"};
  ASSERT_EQ(run(words).exit, 0);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(at("ckpt/quick"))) {
    files += entry.path().filename().string().starts_with("events.out.tfevents.") ? 1 : 0;
  }
  EXPECT_EQ(files, 1);
  // The resumed run repeats the steps from 11 on in a file of its own. The file's name contains the time in seconds, so
  // a second must pass.
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  auto again = words;
  again.insert(again.end(), {"--resume", "ckpt/quick/step-000010"});
  ASSERT_EQ(run(again).exit, 0);
  const char* python = std::getenv("XRUN_PYTHON");
  const int status = std::system(
      (std::string(python == nullptr ? "python3" : python) + " " + script + " " + at("ckpt/quick")).c_str());
  if (WEXITSTATUS(status) == 77) {
    GTEST_SKIP() << "the Python package tensorboard is not installed (XRUN_PYTHON names another python)";
  }
  EXPECT_EQ(status, 0);
}

TEST_F(RunLog, RefusesFilesThatAreNotLogs) {
  directory.write("empty.jsonl", "");
  directory.write("other.jsonl", "{\"a\": 1}\n[[[\n" + std::string(3'000'000, 'x') + "\n");
  ASSERT_EQ(::mkfifo(at("pipe.jsonl").c_str(), 0600), 0);
  for (const char* name : {"empty.jsonl", "other.jsonl", "pipe.jsonl", "none.jsonl"}) {
    const auto result = run({"show", name});
    EXPECT_EQ(result.exit, 1) << name;
    EXPECT_THAT(result.err, HasSubstr("error[XG0909]: ")) << name;
  }
  EXPECT_EQ(run({"show", "empty.jsonl", "--table", "layers"}).exit, 2);
}

TEST_F(RunLog, TheSummaryOfALogMatchesItsGoldenFile) {
  std::string text = R"({"v":1,"t":"start","first_step":0,"steps":400})"
                     "\n";
  for (int step = 10; step <= 200; step += 10) {
    text += R"({"v":1,"t":"step","step":)" + std::to_string(step) + R"(,"loss":)" +
            std::to_string(400.0 / (step + 90)) + R"(,"lr":0.1,"images_per_s":2000,"step_s":0.01,"accuracy":)" +
            std::to_string(step / 400.0) + "}\n";
  }
  text += R"({"v":1,"t":"eval","step":100,"metrics":{"test":0.5}})"
          "\n";
  text += R"({"v":1,"t":"warn","code":"XG0812","message":"slow\nforged"})"
          "\n";
  text += R"({"v":1,"t":"start","first_step":150,"steps":400})"
          "\n";
  text += R"({"v":1,"t":"step","step":160,"loss":null,"lr":0.1,"images_per_s":1000,"accuracy":0.9})"
          "\n";
  text += R"({"v":1,"t":"end","step":160,"seconds":7.5})"
          "\n";
  const auto log = read_log(directory.write("log.jsonl", text));
  ASSERT_TRUE(log.ok()) << log.error().message;
  EXPECT_TRUE(test::matches_golden(log_text("log.jsonl", *log, 80, false), "log/page.txt"));
}

// If a log has no `end`, because the run is still training or was killed, the run's time ends with its last event.
TEST_F(RunLog, TheTimeOfARunWithoutAnEndEventIsThatOfItsLastEvent) {
  const auto summary = [&](const std::string& text) {
    const auto log = read_log(directory.write("log.jsonl", text));
    EXPECT_TRUE(log.ok());
    const std::string page = log_text("log.jsonl", *log, 80, false);
    return page.substr(0, page.find('\n'));
  };
  const std::string killed = R"({"v":1,"t":"plan","time":90,"plan":"x"})"
                             "\n"
                             R"({"v":1,"t":"start","time":100,"first_step":0,"steps":400})"
                             "\n"
                             R"({"v":1,"t":"step","time":112.5,"step":10})"
                             "\n";
  EXPECT_EQ(summary(killed),
            "log.jsonl   1 run   step 10 of 400   12.5 s   has not ended: it is still running, or was killed");
  const std::string resumed = killed + R"({"v":1,"t":"start","time":1000,"first_step":10,"steps":400})" + "\n";
  EXPECT_EQ(summary(resumed + R"({"v":1,"t":"end","time":1020,"step":400,"seconds":20.5})" + "\n"),
            "log.jsonl   2 runs   step 400 of 400   33.0 s");
  EXPECT_EQ(summary(resumed + R"({"v":1,"t":"warn","time":1004,"message":"slow"})" + "\n"),
            "log.jsonl   2 runs   step 10 of 400   16.5 s   has not ended: it is still running, or was killed");
  // If events have no times, or the clock was set back, no time is reported.
  for (const char* time : {"", R"("time":-5,)", R"("time":50,)", R"("time":"noon",)"}) {
    EXPECT_EQ(summary(R"({"v":1,"t":"start","time":100,"steps":400})"
                      "\n{" +
                      std::string(time) + R"("v":1,"t":"step","step":10})" + "\n"),
              "log.jsonl   1 run   step 10 of 400   has not ended: it is still running, or was killed")
        << time;
  }
}

TEST_F(RunLog, ActiveClassesAndGraphsAreShown) {
  std::string text = R"({"v":1,"t":"start","first_step":0,"steps":400})"
                     "\n";
  for (int step = 10; step <= 60; step += 10) {
    const std::string mass = step % 20 == 0 ? R"(,"mass":0.3)" : "";
    text += R"({"v":1,"t":"step","step":)" + std::to_string(step) +
            R"(,"loss":2,"active":[{"head":"id","classes":400,"near":)" + std::to_string(step / 100.0) +
            R"(,"common":0.25)" + mass + R"(},{"head":"other\nhead","classes":20},"no head",7]})" + "\n";
  }
  for (int step = 5; step <= 80; step += 5) {
    text += R"({"v":1,"t":"graph","step":)" + std::to_string(step + 1) + R"(,"head":"id","of_step":)" +
            std::to_string(step) + R"(,"recall":0.93,"seconds":2.83,"waited_s":1.8})" + "\n";
  }
  // Steps that a later start repeats replace the earlier ones.
  text += R"({"v":1,"t":"start","first_step":70,"steps":400})"
          "\n"
          R"({"v":1,"t":"graph","step":76,"head":"forged\nid","recall":1e300,"seconds":-1,"waited_s":"long"})"
          "\n";
  const auto log = read_log(directory.write("log.jsonl", text));
  ASSERT_TRUE(log.ok()) << log.error().message;
  EXPECT_EQ(log->damaged, 0);
  EXPECT_TRUE(test::matches_golden(log_text("log.jsonl", *log, 80, false), "log/active.txt"));
  const auto json = nlohmann::json::parse(log_json(*log));
  EXPECT_EQ(json["training"]["id.active"].size(), 6u);
  EXPECT_EQ(json["training"]["id.mass"].size(), 3u);
  ASSERT_EQ(json["graphs"].size(), 14u);
  EXPECT_EQ(json["graphs"][0],
            nlohmann::json::parse(R"({"step":6,"head":"id","of_step":5,"recall":0.93,"seconds":2.83,"waited_s":1.8})"));
}

TEST(Series, KeepsABoundedNumberOfPointsOverTheWholeRun) {
  Series series;
  for (int64_t step = 1; step <= 1'000'000; ++step) {
    series.add(step, static_cast<double>(step));
  }
  EXPECT_LE(series.points().size(), Series::kMost);
  EXPECT_GE(series.points().size(), Series::kMost / 4);
  EXPECT_EQ(series.points().front().first, 1);
  EXPECT_GT(series.points().back().first, 990'000);
}

}  // namespace
}  // namespace xrun::cli
