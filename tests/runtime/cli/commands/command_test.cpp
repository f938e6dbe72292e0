// The commands as a user calls them, on a small model over synthetic data.
#include "tests/support/command.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <sys/inotify.h>
#include <unistd.h>

#include "tests/runtime/data/data_files.h"
#include "tests/support/tiny_model.h"

namespace xrun::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class Command : public ::testing::Test {
 protected:
  CommandResult run(const std::vector<std::string>& words, CommandOptions options = {}) {
    options.directory = directory.path();
    return run_xrun(words, options);
  }
  std::string digest(const CommandResult& result) {
    std::string line;
    for (std::istringstream in(result.out); std::getline(in, line);) {
      const auto event = nlohmann::json::parse(line);
      if (event.at("t") == "end") {
        return event.at("weights");
      }
    }
    return {};
  }
  TemporaryDirectory directory;
};

TEST_F(Command, CheckNamesFilesTestsAndParameters) {
  directory.write("tiny.xgraph", tiny_model());
  const auto result = run({"check", "tiny.xgraph"});
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("ok   tiny.xgraph"));
  EXPECT_THAT(result.out, HasSubstr("1 test passed"));
}

TEST_F(Command, CheckPrintsJsonAndStrictRejectsUnavailableFeatures) {
  directory.write("tiny.xgraph", tiny_model());
  const auto json = run({"check", "tiny.xgraph", "--format", "json"});
  ASSERT_EQ(json.exit, 0) << json.err;
  EXPECT_EQ(nlohmann::json::parse(json.out)["files"][0], "tiny.xgraph");
  EXPECT_EQ(nlohmann::json::parse(json.out)["parameters"].get<int>(),
            16 * 32 + 32 + 64 + 32 * 32 + 32 + 64 + 32 * 24 + 24 + 48 + 37 * 24);
  const auto model = [](const std::string& optimizer) {
    return R"(xgraph 1
model m {
  input x: f32[N, 4]
  head id = x -> classifier(3)
}
data d {
  source train = synthetic([4], 3, 300)
  x = pixels
}
train t {
  batch     = 32
  epochs    = 2
  loss      = softmax_ce(id, label)
  optimizer = )" +
           optimizer + "\n  lr        = 0.1\n}\n";
  };
  directory.write("now.xgraph", model("sgd"));
  EXPECT_EQ(run({"check", "now.xgraph", "--strict"}).exit, 0) << run({"check", "now.xgraph", "--strict"}).err;
  directory.write("later.xgraph", model("sgd\n  freeze = [id.bias]"));
  const auto later = run({"check", "later.xgraph"});
  EXPECT_EQ(later.exit, 0);
  EXPECT_THAT(later.out, ::testing::StartsWith("  ok, but this build cannot train it   later.xgraph"));
  EXPECT_THAT(later.err, HasSubstr("warning[XG0199]"));
  EXPECT_THAT(run({"check", "later.xgraph", "--format", "json"}).out, HasSubstr("\"not_yet\":1"));
  EXPECT_THAT(run({"check", "now.xgraph"}).out, ::testing::StartsWith("  ok   now.xgraph"));
  EXPECT_EQ(run({"plan", "later.xgraph"}).exit, 1) << "the question that `check` asks, too";
  const auto strict = run({"check", "later.xgraph", "--strict"});
  EXPECT_EQ(strict.exit, 1);
  EXPECT_EQ(strict.out, "");
  EXPECT_THAT(strict.err, HasSubstr("error[XG0199]"));
}

// If a model has more operators than a plan can have, it is rejected before kernels are made: making them takes
// minutes.
TEST_F(Command, TooManyOperatorsAreRefusedBeforePlanning) {
  std::string text = tiny_model();
  const std::string layer = "linear(";
  text.replace(text.find(layer), 0, "repeat 140_000 { relu } -> ");
  directory.write("m.xgraph", text);
  const auto plan = run({"plan", "m.xgraph"});
  EXPECT_EQ(plan.exit, 1);
  EXPECT_THAT(plan.err, HasSubstr("XG0198]: a plan of 140 0"));
  EXPECT_THAT(plan.err, HasSubstr("at most 12 288 go into one"));
  const auto check = run({"check", "m.xgraph"});
  EXPECT_EQ(check.exit, 0) << check.err;
  EXPECT_THAT(check.out, ::testing::StartsWith("  ok, but this build cannot train it"));
  EXPECT_THAT(check.err, HasSubstr("warning[XG0198]"));
}

// Fused operators keep the names that the text gives them: operators with weights, a relu, a function after an
// operator, a chain of functions, and a value that is written twice but computed once.
class FusedOperators : public Command {
 protected:
  CommandResult plan(const std::string& schedule) {
    directory.write("fused.xgraph", R"(xgraph 1
model m {
  input x: f32[N, 8]
  feature = x -> linear(8) as first -> bn as norm -> prelu as act -> linear(8) as second -> bn as middle
              -> relu as hinge -> linear(8) as third -> bn as last -> silu as gate -> linear(8) as fourth
              -> tanh as bound -> sigmoid as chance -> linear(8) as fifth
  one   = feature -> tanh as once
  other = feature -> tanh as twice
  sum   = one + other
  output feature
  head id = classifier(sum, 30)
}
data d {
  source train = synthetic([8], 30, 300)
  x = pixels
}
train t {
  batch     = 32
  steps     = 2
  loss      = softmax_ce(id, label)
  optimizer = sgd
  lr        = 0.1
}
schedule s {
)" + schedule + "}\n");
    return run({"plan", "fused.xgraph", "--devices", "2"});
  }
};

TEST_F(FusedOperators, CanBeNamedInPinAndRecompute) {
  for (const std::string name :
       {"norm", "act", "middle", "hinge", "last", "gate", "bound", "chance", "once", "twice"}) {
    const auto pinned = plan("  stages = 2\n  pin { " + name + " = stage(1) }\n");
    EXPECT_EQ(pinned.exit, 0) << pinned.err;
    const auto again = plan("  recompute = [" + name + "]\n");
    EXPECT_EQ(again.exit, 0) << again.err;
  }
}

// A pin that names a fused operator applies to the operator into which it was fused.
TEST_F(FusedOperators, MustBeInOneStage) {
  for (const auto& [part, next] :
       {std::pair<std::string, std::string>{"act", "norm"}, {"hinge", "middle"}, {"gate", "last"}}) {
    const auto both = plan("  stages = 2\n  pin { " + next + " = stage(0)  " + part + " = stage(1) }\n");
    EXPECT_EQ(both.exit, 1) << both.out;
    EXPECT_THAT(both.err, HasSubstr("XG0608]: `" + part + "` is computed together with `" + next +
                                    "`, which is pinned to stage 0"));
    EXPECT_EQ(plan("  stages = 2\n  pin { " + next + " = stage(1)  " + part + " = stage(1) }\n").exit, 0);
    const auto before = plan("  stages = 2\n  pin { " + part + " = stage(1)  fifth = stage(0) }\n");
    EXPECT_EQ(before.exit, 1) << before.out;
    EXPECT_THAT(before.err, HasSubstr("XG0608"));
  }
}

TEST_F(Command, FilesThatAreNotTextGiveOneError) {
  directory.write("tiny.xgraph", tiny_model());
  ASSERT_EQ(run({"plan", "tiny.xgraph"}).exit, 0);
  directory.write("wide.xgraph", std::string("\xFF\xFEx\0g\0", 6));
  directory.write("nul.xgraph", std::string("xgraph 1\n\0", 10));
  for (const auto& [file, text] :
       {std::pair{"tiny.xplan", "is a plan"}, {"wide.xgraph", "UTF-16"}, {"nul.xgraph", "byte 9 is 0"}}) {
    const auto result = run({"check", file});
    EXPECT_EQ(result.exit, 1);
    EXPECT_THAT(result.err, HasSubstr(text));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 2) << result.err;
  }
}

TEST_F(Command, FlagsMayPrecedeTheFile) {
  directory.write("tiny.xgraph", tiny_model());
  const std::vector<std::string> set{"--set", "train.epochs=2"};  // --set takes one argument and not the file
  for (const char* command : {"check", "plan", "show"}) {
    const auto result = run({command, set[0], set[1], "tiny.xgraph"});
    EXPECT_EQ(result.exit, 0) << command << ": " << result.err;
  }
  const auto trained = run({"train", "--progress", "none", set[0], set[1], "tiny.xgraph", "--steps", "1"});
  EXPECT_EQ(trained.exit, 0) << trained.err;
}

TEST_F(Command, EveryLongFlagHasAVariable) {
  const std::vector<std::string> commands{"check", "plan", "show", "train", "eval", "predict", "doctor"};
  std::set<std::string> flags;
  const auto look = [&](const std::vector<std::string>& words) {
    const std::regex flag("^  (-[a-zA-Z],)?--([a-z-]+)");
    std::smatch match;
    std::string line;
    for (std::istringstream help(run(words).out); std::getline(help, line);) {
      if (!std::regex_search(line, match, flag) || match[2] == "help" || match[2] == "version") {
        continue;
      }
      std::string name = match[2];
      flags.insert(name);
      std::ranges::transform(name, name.begin(), [](char c) { return c == '-' ? '_' : static_cast<char>(c - 32); });
      EXPECT_THAT(line, HasSubstr("(Env:XRUN_" + name + ")")) << words[0];
    }
  };
  look({"--help"});
  look({"bench", "head", "--help"});
  for (const std::string& command : commands) {
    look({command, "--help"});
  }
  EXPECT_THAT(flags, ::testing::IsSupersetOf(
                         {"set", "threads", "strict", "dry-run", "exit-code", "gantt", "profile", "on", "embedding"}));
}

TEST_F(Command, VariablesSetFlagsAndTheCommandLineOverridesThem) {
  directory.write("tiny.xgraph", tiny_model());
  const auto with = [&](std::vector<std::string> words, std::vector<std::pair<std::string, std::string>> environment) {
    return run(words, {.environment = std::move(environment)});
  };
  const auto planned = with({"plan", "tiny.xgraph"}, {{"XRUN_DRY_RUN", "1"}, {"XRUN_DEVICES", "1"}});
  EXPECT_EQ(planned.exit, 0) << planned.err;
  EXPECT_THAT(planned.out, HasSubstr("tiny on 1 x cpu"));
  EXPECT_FALSE(std::filesystem::exists(directory.path() + "/tiny.xplan"));
  EXPECT_THAT(with({"plan", "tiny.xgraph", "--dry-run", "--devices", "3"}, {{"XRUN_DEVICES", "1"}}).out,
              HasSubstr("tiny on 3 x cpu"));
  EXPECT_EQ(with({"plan", "tiny.xgraph", "--dry-run", "--threads=2"}, {{"XRUN_THREADS", "many"}}).exit, 0);
  EXPECT_EQ(with({"plan", "tiny.xgraph", "-o", "mine.xplan"}, {{"XRUN_OUTPUT", "none/at/all"}}).exit, 0);
  EXPECT_EQ(with({"plan", "tiny.xgraph", "--dry-run"}, {{"XRUN_TOPK", "many"}}).exit, 0) << "a flag of another command";
  EXPECT_EQ(with({"plan", "tiny.xgraph", "--dry-run"}, {{"XRUN_THREADS", ""}}).exit, 0) << "empty is not set";
}

TEST_F(Command, ResultsThatCannotBeWrittenAreSystemErrors) {
  const std::string words = std::string(XRUN_BINARY_DIR) + "/xrun doctor >/dev/full 2>" + directory.path() + "/err";
  const int status = std::system(words.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 4);
  EXPECT_THAT(read_file(directory.path() + "/err"), HasSubstr("cannot be written to stdout"));
}

TEST_F(Command, EmbeddingsAreTextJsonOrAnArray) {
  directory.write("tiny.xgraph", tiny_model());
  ASSERT_EQ(run({"train", "tiny.xgraph", "--progress", "none", "--steps", "1"}).exit, 0);
  std::vector<std::string> words{"predict", "tiny.xgraph", "ckpt/quick", "--source", "test", "--rows", "0..2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return run(more);
  };
  const auto json = with({"--embedding", "--format", "json"});
  ASSERT_EQ(json.exit, 0) << json.err;
  const auto first = nlohmann::json::parse(json.out.substr(0, json.out.find('\n')));
  EXPECT_GT(first.at("embedding").size(), 1u);
  EXPECT_EQ(with({"--embedding", "-o", "e.npy"}).exit, 0);
  EXPECT_GT(std::filesystem::file_size(directory.path() + "/e.npy"), 128u);
  EXPECT_EQ(with({"-o", "e2.npy"}).exit, 2);
  EXPECT_EQ(with({"--embedding", "--topk", "2"}).exit, 2);
}

TEST_F(Command, APlaceWhereNoPlanCanBeWrittenIsRejectedBeforeTheSearch) {
  directory.write("tiny.xgraph", tiny_model());
  for (const auto& [place, exit] : {std::pair("no/such/a.xplan", 4), std::pair("tiny.xgraph", 2), std::pair(".", 2)}) {
    const auto plan = run({"plan", "tiny.xgraph", "-o", place});
    EXPECT_EQ(plan.exit, exit) << plan.err;
    EXPECT_EQ(plan.out, "");
    EXPECT_THAT(plan.err, HasSubstr("XG0627"));
  }
}

TEST_F(Command, PlanWritesAFileThatTrainRuns) {
  directory.write("tiny.xgraph", tiny_model());
  const auto plan = run({"plan", "tiny.xgraph", "--devices", "2", "--threads", "2"});
  ASSERT_EQ(plan.exit, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("wrote tiny.xplan"));
  const auto train = run({"train", "tiny.xplan", "--progress", "json"});
  ASSERT_EQ(train.exit, 0) << train.err;
  EXPECT_EQ(digest(train).size(), 32u) << train.out;
  EXPECT_THAT(train.out, HasSubstr(R"(,"file":"tiny.xplan"})"));
  const auto shown = [&](const char* file, const char* mode) {
    return run({"train", file, "--progress", mode, "--steps", "0", "--resume", "never", "-C", "none"}).err;
  };
  constexpr const char* kChecked = "  Checked   tiny.xplan matches its sources and this machine\n";
  EXPECT_THAT(shown("tiny.xplan", "tty"), ::testing::StartsWith(kChecked));
  EXPECT_THAT(shown("tiny.xplan", "plain"), ContainsRegex("Z checked plan=[0-9a-f]{8} file=tiny.xplan\n"));
  EXPECT_THAT(shown("tiny.xgraph", "tty"), Not(HasSubstr("Checked"))) << "it was made just now";
  EXPECT_TRUE(std::filesystem::exists(directory.path() + "/ckpt/quick/latest"));
}

TEST_F(Command, PlansAreComparedAndTheirDecisionsExplained) {
  directory.write("tiny.xgraph", tiny_model());
  ASSERT_EQ(run({"plan", "tiny.xgraph", "-o", "old.xplan", "--devices", "2"}).exit, 0);
  const auto diff = [&](std::vector<std::string> flags) {
    std::vector<std::string> words{"plan", "tiny.xgraph", "--diff", "old.xplan"};
    words.insert(words.end(), flags.begin(), flags.end());
    return run(words);
  };
  const auto same = diff({"--devices", "2", "--exit-code"});
  EXPECT_EQ(same.exit, 0) << same.err;
  EXPECT_THAT(same.out, HasSubstr("nothing differs"));
  const auto other = diff({"--devices", "1", "--exit-code"});
  EXPECT_EQ(other.exit, 10);
  EXPECT_THAT(other.out, HasSubstr("--devices 2"));
  EXPECT_THAT(other.out, HasSubstr("--devices 1"));
  EXPECT_THAT(other.out, Not(HasSubstr("mathematics"))) << "that is the same";
  EXPECT_EQ(diff({"--devices", "1"}).exit, 0);
  EXPECT_FALSE(std::filesystem::exists(directory.path() + "/tiny.xplan")) << "it was only asked";
  EXPECT_EQ(diff({"--devices", "1", "--exit-code", "-o", "new.xplan"}).exit, 10);
  EXPECT_TRUE(std::filesystem::exists(directory.path() + "/new.xplan"));
  const auto why = run({"plan", "tiny.xgraph", "--devices", "2", "--why", "stages"});
  EXPECT_EQ(why.exit, 0) << why.err;
  EXPECT_THAT(why.out, ::testing::StartsWith("  why    stages = "));
  EXPECT_THAT(why.out, Not(HasSubstr("recompute = ")));
}

TEST_F(Command, TheNumberOfClassesThatFitIsPrintedForEachChoice) {
  directory.write("tiny.xgraph", tiny_model());
  const auto page = run({"plan", "tiny.xgraph", "--fit", "classes", "--set", "schedule.memory_limit=2MiB"});
  EXPECT_EQ(page.exit, 0) << page.err;
  EXPECT_THAT(page.out, HasSubstr("head `id` of 24 dims (the file has 37)"));
  EXPECT_THAT(page.out, HasSubstr("sample 10 %"));
  EXPECT_FALSE(std::filesystem::exists(directory.path() + "/tiny.xplan")) << "it was only asked";
  const auto json =
      run({"plan", "tiny.xgraph", "--fit", "classes", "--set", "schedule.memory_limit=2MiB", "--format", "json"});
  EXPECT_GT(nlohmann::json::parse(json.out)["choices"][0]["classes"].get<int64_t>(), 1000);
  EXPECT_EQ(run({"plan", "tiny.xgraph", "--fit", "classes", "--set", "schedule.memory_limit=1KiB"}).exit, 3);
  EXPECT_EQ(run({"plan", "tiny.xgraph", "--fit", "images"}).exit, 2);
  EXPECT_EQ(run({"plan", "tiny.xgraph", "--fit", "classes", "--why", "stages"}).exit, 2);
  EXPECT_EQ(run({"plan", "tiny.xgraph", "--fit", "classes", "-o", "x.xplan"}).exit, 2);
}

TEST_F(Command, ASearchIsEndedByItsTimeAndSaysSo) {
  directory.write("tiny.xgraph", tiny_model());
  const std::vector<std::string> words{"plan", "tiny.xgraph", "--devices", "2", "--dry-run", "--search-time"};
  const auto with = [&](const std::string& time, const std::vector<std::string>& more = {}) {
    std::vector<std::string> all = words;
    all.push_back(time);
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  const auto ended = with("1ns", {"--format", "json"});
  ASSERT_EQ(ended.exit, 0) << ended.err;
  const auto certificate = nlohmann::json::parse(ended.out)["certificate"];
  EXPECT_FALSE(certificate["complete"].get<bool>());
  EXPECT_EQ(certificate["programs"], 1);
  EXPECT_GE(certificate["gap"].get<double>(), 0);
  EXPECT_GT(certificate["lower_bound_ms"].get<double>(), 0);
  EXPECT_THAT(with("1ns").out, HasSubstr("  search     ended by --search-time after 1 program; "));
  EXPECT_THAT(with("1h").out, Not(HasSubstr("--search-time")));
  for (const char* wrong : {"0s", "5", "5GiB", "s", "5 s", "1e400s"}) {
    const auto refused = with(wrong);
    EXPECT_EQ(refused.exit, 2) << wrong;
    EXPECT_THAT(refused.err, HasSubstr(std::string("`") + wrong + "` is not a time of more than zero")) << wrong;
  }
  ASSERT_EQ(run({"plan", "tiny.xgraph"}).exit, 0);
  EXPECT_EQ(run({"train", "tiny.xplan", "--search-time", "5s"}).exit, 2) << "a plan holds its settings";
}

TEST_F(Command, TrainedModelIsEvaluatedAndPredicts) {
  directory.write("tiny.xgraph", tiny_model());
  ASSERT_EQ(run({"train", "tiny.xgraph", "--progress", "none"}).exit, 0);
  const auto eval = run({"eval", "tiny.xgraph", "ckpt/quick/latest", "--format", "json"});
  ASSERT_EQ(eval.exit, 0) << eval.err;
  const auto json = nlohmann::json::parse(eval.out);
  EXPECT_GT(json["metrics"]["test"].get<double>(), 0.5) << eval.out;
  EXPECT_EQ(json["samples"]["test"].get<int>(), 500);
  const auto once = run({"eval", "tiny.xgraph", "ckpt/quick/latest", "--on", "test"});
  EXPECT_EQ(run({"eval", "tiny.xgraph", "ckpt/quick/latest", "--on", "test", "--on", "test"}).out, once.out);
  EXPECT_EQ(json["synthetic"], nlohmann::json({"test"}));
  EXPECT_EQ(json["step"], 60) << "that of the checkpoint";
  const auto predict =
      run({"predict", "tiny.xgraph", "ckpt/quick/latest", "--source", "test", "--rows", "0..4", "--topk", "3"});
  ASSERT_EQ(predict.exit, 0) << predict.err;
  EXPECT_EQ(std::count(predict.out.begin(), predict.out.end(), '\n'), 4) << predict.out;
}

// If a command read `latest` twice, a save in between would make it read two checkpoints.
TEST_F(Command, LatestIsReadOnlyOnce) {
  directory.write("tiny.xgraph", tiny_model());
  ASSERT_EQ(run({"train", "tiny.xgraph", "--steps", "1", "--progress", "none"}).exit, 0);
  const auto looks = [&](const std::vector<std::string>& words) {
    const int watch = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    // Watches both opening and closing, because the kernel merges consecutive events of the same kind.
    ::inotify_add_watch(watch, (directory.path() + "/ckpt/quick/latest").c_str(), IN_OPEN | IN_CLOSE);
    EXPECT_EQ(run(words).exit, 0);
    int opened = 0;
    inotify_event event{};
    while (::read(watch, &event, sizeof event) == sizeof event) {
      opened += (event.mask & IN_OPEN) != 0 ? 1 : 0;
    }
    ::close(watch);
    return opened;
  };
  EXPECT_EQ(looks({"eval", "tiny.xgraph", "ckpt/quick"}), 1);
  EXPECT_EQ(looks({"predict", "tiny.xgraph", "ckpt/quick", "--source", "test", "--rows", "0..4"}), 1);
}

TEST_F(Command, PredictRejectsTooManyClassesBeforeItReadsFiles) {
  directory.write("tiny.xgraph", tiny_model());
  for (const std::string wanted : {"6", "5"}) {
    const auto result = run({"predict", "tiny.xgraph", "no/checkpoint", "no/picture.png", "--topk", wanted});
    EXPECT_THAT(result.err, HasSubstr(wanted == "6" ? "XG0904]: `--topk 6`: at most 5 classes" : "XG0713]"));
    EXPECT_EQ(result.exit, wanted == "6" ? 2 : 1);
  }
}

// The value of a top-k metric over dense logits must agree with the k classes that `predict --topk k` lists.
// The last batch has fewer samples than the others.
TEST_F(Command, ATopKMetricAgreesWithTheClassesThatPredictLists) {
  constexpr int kClasses = 30;
  constexpr int kSamples = 101;
  std::string rows;
  for (int i = 0; i < kSamples; ++i) {
    rows +=
        std::to_string(i * 7 % 11) + "," + std::to_string(i * 5 % 13) + "," + std::to_string(i * 17 % kClasses) + "\n";
  }
  directory.write("rows.csv", rows);
  directory.write("m.xgraph", R"(xgraph 1
model m {
  input x: f32[N, 2]
  input kind: index(30)[N]
  logits = x -> linear(30)
  output logits
}
data d {
  source train = csv("rows.csv")
  source test  = csv("rows.csv")
  x    = columns(0..2)
  kind = column(2) -> as_index(30)
}
train t {
  batch     = 32
  norm_rows = 8
  epochs    = 2
  loss      = softmax_ce(logits, kind)
  metrics   = [accuracy(logits, kind, k=20)]
  optimizer = sgd
  lr        = 0.01
}
)");
  ASSERT_EQ(run({"train", "m.xgraph", "--progress", "none"}).exit, 0);
  const std::vector<std::string> words{"predict", "m.xgraph", "ckpt/t", "--source", "test", "--format", "json"};
  const auto with = [&](const char* k) {
    auto all = words;
    all.insert(all.end(), {"--topk", k});
    return run(all);
  };
  const auto best = with("20");
  ASSERT_EQ(best.exit, 0) << best.err;
  std::istringstream lines(best.out);
  int row = 0;
  int hits = 0;
  for (std::string line; std::getline(lines, line); ++row) {
    const auto classes = nlohmann::json::parse(line)["classes"];
    ASSERT_EQ(classes.size(), 20u);
    for (const auto& one : classes) {
      hits += one["class"].get<int>() == row * 17 % kClasses ? 1 : 0;
    }
  }
  EXPECT_EQ(row, kSamples);
  const auto eval = nlohmann::json::parse(run({"eval", "m.xgraph", "ckpt/t", "--format", "json"}).out);
  EXPECT_NEAR(eval["metrics"]["test"].get<double>(), static_cast<double>(hits) / kSamples, 1e-9);
  EXPECT_GT(hits, 0);
  EXPECT_LT(hits, kSamples);
  const auto more = with("21");
  EXPECT_EQ(more.exit, 2);
  EXPECT_THAT(more.err, HasSubstr("XG0904]: `--topk 21`: at most 20 classes"));
  // Without the flag, five classes are listed.
  const std::string line = run(words).out;
  EXPECT_EQ(nlohmann::json::parse(line.substr(0, line.find('\n')))["classes"].size(), 5u);
}

// An output [N, C, H, W] is written in the order that `flatten` gives, whatever its layout.
TEST_F(Command, EmbeddingsHaveTheOrderOfTheDimensions) {
  const auto model = [](const std::string& sum, const std::string& output) {
    return R"(xgraph 1
model m {
  input image: f32[N, 2, 3, 4]

  z = image -> conv(5, 1)
  n = z -> layer_norm
  s = )" + sum +
           R"(
  flat = s -> flatten
  logits = flat -> linear(3)
  output )" +
           output + R"(
}
data d {
  source train = synthetic([2, 3, 4], 3, 64)
  source test  = synthetic([2, 3, 4], 3, 16, seed=2)
  image = pixels
}
train t {
  batch     = 8
  steps     = 1
  loss      = softmax_ce(logits, label)
  optimizer = sgd
  lr        = 0.1
}
)";
  };
  for (const std::string sum : {"z + n", "n + z"}) {
    directory.write("m.xgraph", model(sum, "s"));
    ASSERT_EQ(run({"train", "m.xgraph", "--progress", "none"}).exit, 0);
    std::vector<std::string> words{"predict", "m.xgraph", "ckpt/t", "--source",
                                   "test",    "--rows",   "0..5",   "--embedding"};
    const auto image = run(words);
    ASSERT_EQ(image.exit, 0) << image.err;
    directory.write("m.xgraph", model(sum, "flat"));
    const auto flat = run(words);
    ASSERT_EQ(flat.exit, 0) << flat.err;
    EXPECT_EQ(image.out.substr(image.out.find('\n')), flat.out.substr(flat.out.find('\n'))) << sum;
    std::filesystem::remove_all(directory.path() + "/ckpt");
  }
}

// `predict` uses the logits of the loss, even if another output is the first. Whole numbers cannot be an embedding.
TEST_F(Command, PredictListsTheClassesOfTheLossForAnyOutputs) {
  const auto model = [](const std::string& outputs) {
    return R"(xgraph 1
model m {
  input x: f32[N, 4]
  input label: index(3)[N]

  feature = x -> linear(64) -> relu
  logits = feature -> linear(3)
  best = topk(logits, 2)
  )" + outputs +
           R"(
}
data d {
  source train = synthetic([4], 3, 300)
  source test  = synthetic([4], 3, 100, seed=2)
  x = pixels
}
train t {
  batch     = 32
  norm_rows = 8
  epochs    = 2
  loss      = softmax_ce(logits, label)
  optimizer = sgd
  lr        = 0.1
}
)";
  };
  const std::vector<std::string> words{"predict", "m.xgraph", "ckpt/t", "--source", "test", "--rows", "0..20"};
  const auto embedding = [&] {
    std::vector<std::string> more = words;
    more.emplace_back("--embedding");
    return run(more);
  };
  directory.write("m.xgraph", model("output logits"));
  ASSERT_EQ(run({"train", "m.xgraph", "--progress", "none"}).exit, 0);
  const auto first = run(words);
  ASSERT_EQ(first.exit, 0) << first.err;
  for (const std::string outputs : {"output feature, logits", "output best, logits", "output label, logits"}) {
    directory.write("m.xgraph", model(outputs));
    const auto again = run(words);
    EXPECT_EQ(again.exit, 0) << again.err;
    EXPECT_EQ(again.out, first.out) << outputs;
    EXPECT_EQ(embedding().exit, 0) << outputs;
  }
  directory.write("m.xgraph", model("output feature"));
  const auto none = run(words);
  EXPECT_EQ(none.exit, 1);
  EXPECT_THAT(none.err, HasSubstr("the logits of `softmax_ce` are not an output of the model"));
  EXPECT_THAT(none.err, HasSubstr("output logits"));
  directory.write("m.xgraph", model("output best"));
  const auto whole = embedding();
  EXPECT_EQ(whole.exit, 1);
  EXPECT_THAT(whole.err, HasSubstr("the model's outputs are whole numbers"));
}

TEST_F(Command, SyntheticDataIsCalledSyntheticWhereverItsResultsArePrinted) {
  directory.write("tiny.xgraph", tiny_model());
  EXPECT_THAT(run({"plan", "tiny.xgraph"}).out, HasSubstr("\n  data       synthetic: train, test\n"));
  EXPECT_EQ(nlohmann::json::parse(run({"show", "tiny.xplan", "--format", "json"}).out)["data"]["synthetic"],
            nlohmann::json({"train", "test"}));
  const auto train = [&](const char* mode) {
    const auto result = run({"train", "tiny.xgraph", "--steps", "20", "--progress", mode, "-C", mode});
    EXPECT_EQ(result.exit, 0) << result.err;
    return result;
  };
  const std::string plain = train("plain").err;
  EXPECT_THAT(plain, ContainsRegex("Z start .* synthetic=train,test "));
  EXPECT_THAT(plain, ContainsRegex("Z eval step=20 test=[0-9.]+ synthetic=test "));
  const std::string bar = train("tty").err;
  EXPECT_THAT(bar, HasSubstr("  Data      synthetic: train, test\n"));
  EXPECT_THAT(bar, ContainsRegex("  test [0-9.]+ % \\(synthetic\\) +step 20\n"));
  const std::string json = train("json").out;
  EXPECT_THAT(json, HasSubstr(R"("synthetic":["train","test"])"));
  EXPECT_THAT(json, HasSubstr(R"("synthetic":["test"],"seconds")"));
  const auto eval = run({"eval", "tiny.xgraph", "json/ckpt/quick"});
  EXPECT_THAT(eval.out, ContainsRegex("^  test   500 samples, synthetic\ntest [0-9.]+ % \\(synthetic\\)\n$"));
}

TEST_F(Command, AStoppedRunResumesAndEndsWithTheSameWeights) {
  directory.write("tiny.xgraph", tiny_model());
  const auto whole = run({"train", "tiny.xgraph", "--deterministic", "--progress", "json", "-C", "whole"});
  ASSERT_EQ(whole.exit, 0) << whole.err;
  ASSERT_EQ(run({"train", "tiny.xgraph", "--deterministic", "--progress", "none", "-C", "parts", "--steps", "7"}).exit,
            0);
  const auto rest = run({"train", "tiny.xgraph", "--deterministic", "--progress", "json", "-C", "parts"});
  ASSERT_EQ(rest.exit, 0) << rest.err;
  EXPECT_THAT(rest.out, HasSubstr(R"("t":"resume")"));
  EXPECT_EQ(digest(whole), digest(rest));
  EXPECT_FALSE(digest(whole).empty());
}

TEST_F(Command, AccumulatedBatchesGiveTheWeightsOfOneLargeBatch) {
  directory.write("tiny.xgraph", tiny_model());
  const auto train = [&](const char* out, std::vector<std::string> flags) {
    std::vector<std::string> words{"train", "tiny.xgraph", "--deterministic", "--progress", "json", "-C", out};
    words.insert(words.end(), flags.begin(), flags.end());
    const auto result = run(words);
    EXPECT_EQ(result.exit, 0) << result.err;
    return result;
  };
  const auto large = train("large", {"--set", "train.batch=64", "--devices", "1"});
  const auto four = train("four", {"--set", "train.batch=16", "--set", "train.grad_accumulation=4", "--devices", "1"});
  const auto piped = train("piped", {"--set", "train.batch=16", "--set", "train.grad_accumulation=4", "--devices", "2",
                                     "--set", "schedule.stages=2", "--set", "schedule.pipeline=one_f_one_b"});
  EXPECT_THAT(four.out, HasSubstr(R"("batch":64)")) << "the samples of an update";
  EXPECT_EQ(digest(large), digest(four));
  EXPECT_EQ(digest(large), digest(piped));
  EXPECT_EQ(digest(large).size(), 32u);
  const auto wrong = run({"plan", "tiny.xgraph", "--set", "train.batch=16", "--set", "train.grad_accumulation=4",
                          "--set", "schedule.micro_batches=2"});
  EXPECT_EQ(wrong.exit, 1);
  EXPECT_THAT(wrong.err, HasSubstr("a micro-batch may not contain rows of two batches"));
  EXPECT_THAT(wrong.err, HasSubstr("micro_batches = one of 4, 8"));
}

// The default of `norm_rows` was once 64, or the batch. A checkpoint from that time keeps this value.
TEST_F(Command, ACheckpointKeepsItsValueOfNormRows) {
  directory.write("m.xgraph", R"(xgraph 1

model m {
  input x: f32[N, 4]
  logits = x -> linear(8) -> relu -> linear(3)
  output logits
}
data d {
  source train = synthetic([4], 3, 300)
  x = pixels
}
train t {
  batch     = 32
  steps     = 6
  loss      = softmax_ce(logits, label)
  optimizer = sgd
  lr        = 0.1
}
)");
  const std::vector<std::string> words{"train", "m.xgraph", "--progress", "json", "--deterministic"};
  const auto with = [&](std::vector<std::string> flags) {
    std::vector<std::string> all = words;
    all.insert(all.end(), flags.begin(), flags.end());
    const auto result = run(all);
    EXPECT_EQ(result.exit, 0) << result.err;
    return result;
  };
  const auto whole = with({"-C", "whole", "--set", "train.norm_rows=32"});
  with({"-C", "parts", "--set", "train.norm_rows=32", "--steps", "3"});
  const auto rest = with({"-C", "parts"});
  EXPECT_THAT(
      rest.err,
      HasSubstr(
          "note: parts/ckpt/t/step-000003 was trained with norm_rows = 32 and continues with it; a new run uses 2\n"));
  EXPECT_EQ(digest(rest), digest(whole));
  // If the text or a flag sets the value, the checkpoint belongs to another training and is rejected.
  const auto said = run({"train", "m.xgraph", "-C", "parts", "--set", "train.norm_rows=2"});
  EXPECT_EQ(said.exit, 1);
  EXPECT_THAT(said.err, HasSubstr("XG0701"));
  // A new run has the new default, and resuming it prints no message about it.
  with({"-C", "new", "--steps", "3"});
  EXPECT_THAT(with({"-C", "new"}).err, ::testing::Not(HasSubstr("norm_rows")));
}

TEST_F(Command, ARunBeginsWithTheWeightsOfACheckpoint) {
  directory.write("tiny.xgraph", tiny_model());
  ASSERT_EQ(run({"train", "tiny.xgraph", "--progress", "none"}).exit, 0);
  const auto start = [&](const char* out, std::vector<std::string> flags) {
    std::vector<std::string> words{"train", "tiny.xgraph", "--progress", "json", "-C", out, "--steps", "0"};
    words.insert(words.end(), flags.begin(), flags.end());
    const auto result = run(words);
    EXPECT_EQ(result.exit, 0) << result.err;
    return result;
  };
  const std::string same_weights = run({"train", "tiny.xgraph", "--progress", "json"}).out;
  const std::string init = R"(train.init=checkpoint("ckpt/quick"))";
  const auto tuned = start("tuned", {"--set", init});
  EXPECT_THAT(same_weights, HasSubstr(digest(tuned)));
  EXPECT_THAT(tuned.out, Not(HasSubstr(R"("t":"warn")")));
  // The model is unchanged, except that it has more classes.
  std::string wide = tiny_model();
  for (const auto& [from, to] : {std::pair{"classes: int = 37", "classes: int = 50"}, {"37 * 24", "50 * 24"}}) {
    wide.replace(wide.find(from), std::string(from).size(), to);
  }
  directory.write("tiny.xgraph", wide);
  const auto more = start("more", {"--set", init});
  EXPECT_THAT(more.out,
              HasSubstr("the head `id`: 37 of 50 classes are in ckpt/quick by number and start from its rows, "
                        "13 start from the seed"));
  const auto wrong = run({"train", "tiny.xgraph", "-C", "wrong", "--set", R"(train.init=checkpoint("nothing"))"});
  EXPECT_EQ(wrong.exit, 1);
  EXPECT_THAT(wrong.err, HasSubstr("no checkpoint at"));
  // Only the head is trained, so the checkpoint has no optimizer state of the trunk.
  const auto frozen = run({"train", "tiny.xgraph", "-C", "frozen", "--set", init, "--set",
                           "train.freeze=[linear, bn, linear_2, bn_2]", "--progress", "json"});
  ASSERT_EQ(frozen.exit, 0) << frozen.err;
  const auto shown = run({"show", "frozen/ckpt/quick/latest"}).out;
  EXPECT_THAT(shown, HasSubstr("id.weight.m "));
  EXPECT_THAT(shown, Not(HasSubstr("linear_2.weight.m ")));
  const auto all =
      run({"train", "tiny.xgraph", "--set", "train.freeze=[linear, bn, linear_2, bn_2, linear_3, bn_3, id]"});
  EXPECT_EQ(all.exit, 1);
  EXPECT_THAT(all.err, HasSubstr("leaves nothing to train"));
}

TEST_F(Command, AHeadIsFrozenAsAWhole) {
  std::string text = tiny_model();
  for (const auto& [from, to] : {std::pair{"cosine_classifier(", "classifier("},
                                 {"cosface(id, label, margin=0.05, scale=12)", "softmax_ce(id, label)"},
                                 {"+ 37 * 24", "+ 37 * 24 + 37"}}) {
    text.replace(text.find(from), std::string(from).size(), to);
  }
  directory.write("tiny.xgraph", text);
  const auto part = run({"plan", "tiny.xgraph", "--dry-run", "--set", "train.freeze=[id.bias]"});
  EXPECT_EQ(part.exit, 1);
  EXPECT_THAT(part.err, HasSubstr("freezing a part of the head `id` is not available yet"));
  const auto whole = run({"train", "tiny.xgraph", "--steps", "2", "--progress", "none", "--set", "train.freeze=[id]"});
  EXPECT_EQ(whole.exit, 0) << whole.err;
}

TEST_F(Command, FirstInterruptSavesAndExits75) {
  std::signal(SIGHUP, SIG_DFL);  // if `nohup` started the tests, children would inherit an ignored SIGHUP
  directory.write("tiny.xgraph", tiny_model());
  for (const int number : {SIGINT, SIGHUP}) {
    const auto result = run({"train", "tiny.xgraph", "--set", "train.epochs=100000", "--progress", "json"},
                            {.signal = number, .signal_on = R"("t":"start")"});
    EXPECT_EQ(result.exit, 75) << result.err;
    EXPECT_THAT(result.out, HasSubstr(R"("t":"checkpoint")"));
    EXPECT_TRUE(std::filesystem::exists(directory.path() + "/ckpt/quick/latest"));
  }
}

TEST_F(Command, AStoppedRunPrintsItsCheckpointAndHowToResume) {
  directory.write("tiny.xgraph", tiny_model());
  const auto stopped = [&](const char* mode, std::vector<std::string> flags = {}) {
    std::vector<std::string> words{"train", "tiny.xgraph", "--set", "train.epochs=100000", "--progress", mode};
    words.insert(words.end(), flags.begin(), flags.end());
    const auto result = run(words, {.signal = SIGINT, .signal_on = mode == std::string("tty") ? "  lr " : "Z start "});
    EXPECT_EQ(result.exit, 75) << result.err;
    return result.err;
  };
  const std::string where =
      "at step [0-9 _,]+ of [0-9 _,]+, saved in ckpt/quick/step-[0-9]+; run the same command to continue\n";
  const std::string bar = stopped("tty");
  EXPECT_THAT(bar, HasSubstr("  Stopping  after this step, with a checkpoint; a second signal ends the run at once\n"));
  EXPECT_THAT(bar, ContainsRegex("  Stopped   " + where));
  EXPECT_THAT(bar, Not(HasSubstr("Finished  step")));
  const std::string plain = stopped("plain");
  EXPECT_THAT(plain, ContainsRegex("Z stopping after this step, with a checkpoint; .*\n"));
  EXPECT_THAT(plain, ContainsRegex("Z stopped " + where));
  EXPECT_LT(plain.find("Z stopping "), plain.find("Z checkpoint "));
  EXPECT_THAT(stopped("plain", {"--resume", "never", "-C", "anew"}),
              HasSubstr("; run the same command without `--resume never` to continue\n"));
}

// `timeout` sends the signal first to the process and then to its group.
TEST_F(Command, TwoSignalsInQuickSuccessionAreOneStopRequest) {
  directory.write("tiny.xgraph", tiny_model());
  const std::string words = "cd " + directory.path() + " && { " + XRUN_BINARY_DIR +
                            "/xrun train tiny.xgraph --set train.epochs=100000 --progress none & } ; run=$!; "
                            "sleep 1.5; kill -TERM $run; kill -TERM $run; wait $run";
  EXPECT_EQ(WEXITSTATUS(std::system(words.c_str())), 75);
  EXPECT_TRUE(std::filesystem::exists(directory.path() + "/ckpt/quick/latest"));
}

TEST_F(Command, APlanWithAClusterOfAnotherFileIsReadFromAnyDirectory) {
  directory.write("tiny.xgraph", tiny_model());
  directory.write("own.xgraph", "xgraph 1\n\ncluster own {\n  node {\n    cores = 2\n  }\n}\n");
  ASSERT_EQ(run({"plan", "tiny.xgraph", "--cluster", "own.xgraph:own"}).exit, 0)
      << run({"plan", "tiny.xgraph", "--cluster", "own.xgraph:own"}).err;
  std::filesystem::create_directory(directory.path() + "/other");
  const auto elsewhere = run_xrun({"show", "../tiny.xplan"}, {.directory = directory.path() + "/other"});
  EXPECT_EQ(elsewhere.exit, 0) << elsewhere.err;
}

TEST_F(Command, PredictNeedsNoLabelsForPictures) {
  for (const char* name : {"/pictures/a/1.png", "/pictures/b/1.png"}) {
    const std::filesystem::path file = directory.path() + name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << runtime::testing::png(4, 100);
  }
  directory.write("m.xgraph", R"(xgraph 1
model m {
  input x: f32[N, 1, 4, 4]
  input kind: index(2)[N]
  logits = x -> flatten -> linear(2)
  output logits
}
data d {
  source train = folder(["pictures"])
  x    = file -> decode(4, channels=1) -> scale(1 / 255)
  kind = label -> as_index(2)
}
train t {
  batch     = 2
  norm_rows = 1
  epochs    = 2
  loss      = softmax_ce(logits, kind)
  optimizer = sgd
  lr        = 0.1
}
)");
  ASSERT_EQ(run({"train", "m.xgraph", "--progress", "none"}).exit, 0) << run({"check", "m.xgraph"}).err;
  const auto named = run({"predict", "m.xgraph", "ckpt/t", "pictures/a/1.png"});
  EXPECT_EQ(named.exit, 0) << named.err;
  const auto json = run({"check", "m.xgraph", "--data", "--format", "json"});
  ASSERT_EQ(json.exit, 0) << json.err;
  std::istringstream lines(json.out);
  std::vector<nlohmann::json> objects;
  for (std::string line; std::getline(lines, line);) {
    objects.push_back(nlohmann::json::parse(line));
  }
  ASSERT_EQ(objects.size(), 2U);
  EXPECT_EQ(objects[1]["source"], "train");
  EXPECT_EQ(objects[1]["decoded"], 2);
  EXPECT_THAT(run({"plan", "m.xgraph", "--dry-run"}).out, HasSubstr(" to decode pictures, "));
  const auto plan = run({"plan", "m.xgraph", "--dry-run", "--format", "json"});
  ASSERT_EQ(plan.exit, 0) << plan.err;
  EXPECT_GT(nlohmann::json::parse(plan.out)["data"]["decoding_a_worker"], 2 * 4 * 4 * 4);
}

TEST_F(Command, ShowDescribesModelPlanAndCheckpoint) {
  directory.write("tiny.xgraph", tiny_model());
  ASSERT_EQ(run({"plan", "tiny.xgraph"}).exit, 0);
  ASSERT_EQ(run({"train", "tiny.xplan", "--steps", "2", "--progress", "none"}).exit, 0);
  for (const char* emit : {"tokens", "ast", "checked", "module", "backward", "program"}) {
    const auto shown = run({"show", "tiny.xgraph", "--emit", emit});
    EXPECT_EQ(shown.exit, 0) << emit << shown.err;
    EXPECT_GT(shown.out.size(), 100u) << emit;
  }
  for (const char* table : {"layers", "memory", "comm", "why"}) {
    const auto shown = run({"show", "tiny.xplan", "--table", table});
    EXPECT_EQ(shown.exit, 0) << table << shown.err;
    EXPECT_GT(shown.out.size(), 40u) << table;
  }
  EXPECT_EQ(nlohmann::json::parse(run({"show", "tiny.xplan", "--format", "json"}).out)["v"], 2);
  EXPECT_THAT(run({"show", "ckpt/quick/latest"}).out, HasSubstr("step"));
  EXPECT_THAT(run({"show", "tiny.xplan", "--gantt"}).out, HasSubstr("stage 0"));
}

TEST_F(Command, VerboseReportsEachPhaseAndQuietOverridesIt) {
  directory.write("tiny.xgraph", tiny_model());
  const std::vector<std::string> words{"train", "tiny.xgraph", "--steps", "1", "--progress", "none", "-C"};
  int runs = 0;
  const auto with = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), words.begin(), words.end());
    flags.push_back("run" + std::to_string(++runs));
    const auto result = run(flags);
    EXPECT_EQ(result.exit, 0) << result.err;
    return result.err;
  };
  EXPECT_EQ(with({}), "");
  EXPECT_EQ(with({"-v", "-q"}), "");
  const std::string told = with({"-v"});
  for (const char* part : {"read      tiny.xgraph", "prepared  ", "planned   ", "data      640 samples to train on"}) {
    EXPECT_THAT(told, HasSubstr(part));
  }
  ASSERT_EQ(run({"plan", "tiny.xgraph"}).exit, 0);
  EXPECT_THAT(run({"-v", "eval", "tiny.xplan", "ckpt/quick"}).err, HasSubstr("checked   "));
}

TEST_F(Command, TimesOfStepsAreReportedByDevice) {
  directory.write("tiny.xgraph", tiny_model());
  const auto result = run({"train", "tiny.xgraph", "--devices", "2", "--threads", "2", "--set", "schedule.stages=2",
                           "--set", "train.log.every=1 steps", "--steps", "4", "--progress", "json"});
  ASSERT_EQ(result.exit, 0) << result.err;
  std::vector<double> busy(2);
  std::string line;
  for (std::istringstream in(result.out); std::getline(in, line);) {
    const auto event = nlohmann::json::parse(line);
    if (event.at("t") == "step") {
      ASSERT_EQ(event.at("busy_s").size(), 2u);
      ASSERT_EQ(event.at("bubble_s").size(), 2u);
      for (size_t d = 0; d < 2; ++d) {
        busy[d] += event.at("busy_s")[d].get<double>();
        EXPECT_LE(event.at("busy_s")[d].get<double>() + event.at("bubble_s")[d].get<double>(),
                  event.at("step_s").get<double>());
      }
    } else if (event.at("t") == "end") {
      EXPECT_NEAR(event.at("busy_s")[0].get<double>(), busy[0], 1e-9);
      EXPECT_NEAR(event.at("busy_s")[1].get<double>(), busy[1], 1e-9);
    }
  }
  EXPECT_GT(busy[0], 0);
  EXPECT_THAT(run({"train", "tiny.xgraph", "--steps", "6", "--progress", "plain"}).err, HasSubstr(" bubble_ms="));
}

TEST_F(Command, ProfileIsATableOrAJsonEventDependingOnProgress) {
  directory.write("tiny.xgraph", tiny_model());
  const auto train = [&](const char* mode) {
    const auto result = run({"train", "tiny.xgraph", "--devices", "2", "--threads", "2", "--set", "schedule.stages=2",
                             "--steps", "8", "--profile", "3", "--progress", mode, "-C", mode});
    EXPECT_EQ(result.exit, 0) << result.err;
    return result;
  };
  for (const char* mode : {"plain", "tty"}) {
    const std::string shown = train(mode).err;
    EXPECT_THAT(shown, ContainsRegex("  Profile   .* a step, predicted .*, mean of steps 4 to 8\n"));
    EXPECT_THAT(shown, ContainsRegex("    cpu 1   forward of stage 1 \\(.*\\) +[0-9]+ .* %  "));
    EXPECT_THAT(shown, HasSubstr("    host    waiting for data "));
  }
  const std::string json = train("json").out;
  const size_t at = json.find(R"({"v":1,"t":"profile")");
  ASSERT_NE(at, std::string::npos) << json;
  const auto event = nlohmann::json::parse(json.substr(at, json.find('\n', at) - at));
  EXPECT_EQ(event.at("steps"), 5);
  std::set<std::string> sorts;
  for (const auto& row : event.at("rows")) {
    sorts.insert(row.at("sort"));
    EXPECT_GE(row.at("seconds").get<double>(), 0);
  }
  EXPECT_TRUE(sorts.contains("compute") && sorts.contains("idle"));
}

TEST_F(Command, MemoryInUseIsReportedNextToThePlan) {
  directory.write("tiny.xgraph", tiny_model());
  const auto result = run({"train", "tiny.xgraph", "--steps", "2", "--progress", "json"});
  ASSERT_EQ(result.exit, 0) << result.err;
  nlohmann::json start;
  nlohmann::json step;
  std::string line;
  for (std::istringstream in(result.out); std::getline(in, line);) {
    const auto event = nlohmann::json::parse(line);
    if (event.at("t") == "start") {
      start = event;
    } else if (event.at("t") == "step") {
      step = event;
    }
  }
  EXPECT_GE(start.at("memory_planned").get<int64_t>(), start.at("memory").get<int64_t>());
  EXPECT_GT(start.at("memory_usable").get<int64_t>(), start.at("memory_planned").get<int64_t>());
  EXPECT_GT(step.at("resident").get<int64_t>(), step.at("memory").get<int64_t>());
}

TEST_F(Command, ShortCommandsPrintNoProgress) {
  directory.write("tiny.xgraph", tiny_model());
  ASSERT_EQ(run({"train", "tiny.xgraph", "--progress", "none", "--steps", "1"}).exit, 0);
  for (const char* mode : {"auto", "plain", "none"}) {
    const auto eval = run({"eval", "tiny.xgraph", "ckpt/quick", "--progress", mode});
    EXPECT_EQ(eval.exit, 0);
    EXPECT_EQ(eval.err, "") << mode;
    const auto predict =
        run({"predict", "tiny.xgraph", "ckpt/quick", "--source", "test", "--rows", "0..2", "--progress", mode});
    EXPECT_EQ(predict.exit, 0);
    EXPECT_EQ(predict.err, "") << mode;
  }
}

TEST_F(Command, ResumingWithOtherKernelsIsReported) {
  directory.write("tiny.xgraph", tiny_model());
  const std::vector<std::string> words{"train", "tiny.xgraph", "--deterministic", "--progress", "json", "--steps"};
  const auto steps = [&](const char* count, const char* isa) {
    auto all = words;
    all.emplace_back(count);
    return run(all, {.environment = {{"XRUN_ISA", isa}}});
  };
  if (run({"doctor"}, {.environment = {{"XRUN_ISA", "avx512"}}}).exit != 0) {
    GTEST_SKIP() << "this processor has one instruction set only";
  }
  ASSERT_EQ(steps("2", "avx2").exit, 0);
  EXPECT_THAT(read_file(directory.path() + "/ckpt/quick/step-000002/manifest.json"), HasSubstr(R"("onednn": ")"));
  const auto same = steps("3", "avx2");
  EXPECT_THAT(same.out, Not(HasSubstr("XG0703")));
  const auto other = steps("4", "avx512");
  EXPECT_EQ(other.exit, 0) << other.err;
  EXPECT_THAT(other.out, HasSubstr("XG0703"));
  EXPECT_THAT(other.out, HasSubstr("kernels for avx2 (now avx512)"));
}

TEST_F(Command, DoctorReportsThisMachine) {
  const auto result = run({"doctor"});
  EXPECT_EQ(result.exit, 0);
  EXPECT_THAT(result.out, HasSubstr("cpu"));
  EXPECT_THAT(result.out, HasSubstr("isa"));
  EXPECT_THAT(result.out, HasSubstr("onednn "));
  EXPECT_THAT(result.out, HasSubstr("\n  gpu      "));
  EXPECT_THAT(result.out, HasSubstr("devices are CPU cores"));
  const auto json = nlohmann::json::parse(run({"doctor", "--format", "json"}).out);
  EXPECT_GE(json["cores"].get<int>(), 1);
  EXPECT_GT(json["memory_total"].get<int64_t>(), 0);
  EXPECT_THAT(json["libraries"]["onednn"].get<std::string>(), Not(::testing::IsEmpty()));
  EXPECT_EQ(json["compiler"].get<std::string>().empty(), json.contains("compiler_failure")) << json;
  EXPECT_EQ(json["gpus"].empty(), !json["cuda"]["error"].get<std::string>().empty()) << json;
}

TEST_F(Command, TrainWithFormatJsonPrintsItsEvents) {
  directory.write("tiny.xgraph", tiny_model());
  const auto result = run({"train", "tiny.xgraph", "--steps", "1", "--format", "json"});
  ASSERT_EQ(result.exit, 0) << result.err;
  EXPECT_FALSE(digest(result).empty());
}

}  // namespace
}  // namespace xrun::testing
