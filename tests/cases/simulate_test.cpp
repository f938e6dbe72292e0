// `xrun simulate`: plans for machines, settings and sizes that need not exist. No driver and no data are there.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/cases/lab_cluster.h"
#include "tests/support/command.h"
#include "tests/support/golden.h"
#include "tests/support/tiny_model.h"

namespace xrun::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

constexpr const char* kGpus = R"(xgraph 1

cluster rack {
  nodes   = 2
  network = infiniband(400Gbit/s)
  reserve = 1GiB
  node {
    cores  = 8
    memory = 64GiB
    gpu    = h100
    gpus   = 4
  }
}
)";

class Simulate : public ::testing::Test {
 protected:
  Simulate() {
    const std::string model = tiny_model();
    at.write("m.xgraph", model.substr(0, model.find("\ntest ")));  // the test of the file counts its 37 classes
    at.write("lab.xgraph", kLabCluster);
    at.write("gpus.xgraph", kGpus);
  }
  CommandResult run(Words words) const {
    return run_xrun(words, {.directory = at.path(), .environment = {{"XRUN_ISA", "avx2"}}});
  }
  CommandResult simulate(const Words& flags, const std::string& cluster = "lab.xgraph") const {
    Words words{"simulate", "m.xgraph", "--cluster", cluster};
    words.insert(words.end(), flags.begin(), flags.end());
    return run(words);
  }
  // Returns the document of a simulation.
  Json document(Words flags, const std::string& cluster = "lab.xgraph") const {
    flags.insert(flags.end(), {"--format", "json"});
    const CommandResult result = simulate(flags, cluster);
    EXPECT_EQ(result.exit, 0) << result.err;
    return result.exit == 0 ? Json::parse(result.out) : Json();
  }
  // Expects that the command ends with this exit code and a message that has these parts.
  void refused(const Words& flags, int exit, const Words& parts, const std::string& cluster = "lab.xgraph") const {
    const CommandResult result = simulate(flags, cluster);
    EXPECT_EQ(result.exit, exit) << result.out << result.err;
    EXPECT_EQ(result.out, "");
    for (const std::string& part : parts) {
      EXPECT_THAT(result.err, HasSubstr(part));
    }
  }

  TemporaryDirectory at;
};

TEST_F(Simulate, TextJsonAndCsvHaveTheSamePoints) {
  const Words sweep{"--sweep", "nodes=1,2,4", "--sweep", "stages=1,2,8"};
  const CommandResult text = simulate(sweep);
  EXPECT_EQ(text.exit, 0) << text.err;
  EXPECT_TRUE(test::matches_golden(text.out, "simulate/nodes_and_stages.txt"));
  Words csv = sweep;
  csv.insert(csv.end(), {"--format", "csv"});
  EXPECT_TRUE(test::matches_golden(simulate(csv).out, "simulate/nodes_and_stages.csv"));
  auto json = nlohmann::ordered_json::parse(simulate({"--sweep", "nodes=1,4", "--format", "json"}).out);
  for (auto& point : json["points"]) {
    point["plan"].erase("plan");  // the digest of the plan
  }
  EXPECT_TRUE(test::matches_golden(json.dump(2) + "\n", "simulate/nodes.json"));
}

TEST_F(Simulate, ACalibrationIsNamedAsTheSourceOfCosts) {
  at.write("here.xgraph", R"(xgraph 1

cluster here {
  node {
    cpu    = "some processor"
    cores  = 2
    memory = 16GiB
    calibration {
      instructions = avx2
      update       = 14GB/s
    }
  }
}
)");
  const CommandResult result = simulate({}, "here.xgraph");
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("times measured by a calibration of some processor, avx2"));
}

TEST_F(Simulate, OnePlanShowsWhereItsStepGoes) {
  const CommandResult text = simulate({});
  EXPECT_EQ(text.exit, 0) << text.err;
  EXPECT_TRUE(test::matches_golden(text.out, "simulate/one_plan_of_tiny.txt"));
}

// Each point is what `xrun plan` with the same flags plans.
TEST_F(Simulate, PointsAreThePlansOfTheCommandPlan) {
  for (const std::string cluster : {"lab.xgraph", "gpus.xgraph"}) {
    const Json all = document({"--sweep", "nodes=1,2,4", "--sweep", "classes=37,5000"}, cluster);
    ASSERT_EQ(all["points"].size(), 6U);
    for (const Json& point : all["points"]) {
      const CommandResult plan =
          run({"plan", "m.xgraph", "--cluster", cluster, "--dry-run", "--format", "json", "--set",
               fmt::format("cluster.nodes={}", point["values"]["cluster.nodes"].get<std::string>()), "--set",
               fmt::format("classes={}", point["values"]["classes"].get<std::string>())});
      ASSERT_EQ(plan.exit, 0) << plan.err;
      const Json made = Json::parse(plan.out);
      EXPECT_EQ(point["plan"]["plan"], made["plan"]);
      EXPECT_EQ(point["plan"]["step_seconds"], made["predicted"]["step_seconds"]);
      EXPECT_EQ(point["plan"]["samples"], made["data"]["samples"]);
    }
  }
}

TEST_F(Simulate, DevicesKindsOfGpusAndNetworksAreSwept) {
  const Json devices = document({"--sweep", "devices=2,4..6"});
  ASSERT_EQ(devices["points"].size(), 4U);
  EXPECT_EQ(devices["points"][3]["plan"]["devices"], 6);
  const Json gpus = document(
      {"--sweep", "gpu=h100,h200", "--sweep", "network=ethernet(10Gbit/s, 50us),infiniband(1Gbit/s)"}, "gpus.xgraph");
  ASSERT_EQ(gpus["points"].size(), 4U);
  EXPECT_EQ(gpus["keys"], Json({"cluster.node.gpu", "cluster.network"}));
  EXPECT_EQ(gpus["points"][1]["values"]["cluster.network"], "infiniband(1Gbit/s)");
  EXPECT_THAT(gpus["points"][2]["plan"]["machine"].get<std::string>(), HasSubstr("8 x h200 on 2 nodes"));
  EXPECT_THAT(gpus["costs"].get<std::string>(), AllOf(HasSubstr("rates of h100"), HasSubstr("ethernet 10 Gbit/s")));
}

TEST_F(Simulate, PointsWithoutAPlanSayWhy) {
  const Json all = document({"--sweep", "stages=1,64", "--sweep", "memory_limit=1KiB,1GiB"});
  EXPECT_EQ(all["points"][0]["error"]["code"], "XG0601");
  EXPECT_TRUE(all["points"][1].contains("plan"));
  EXPECT_EQ(all["points"][3]["error"]["code"], "XG0602");
  EXPECT_THAT(all["points"][3]["error"]["message"].get<std::string>(), HasSubstr("64 stages need as many devices"));
}

TEST_F(Simulate, NothingThatFitsIsTheErrorOfTheFirstPoint) {
  refused({"--sweep", "memory_limit=1KiB,2KiB"}, 3, {"error[XG0601]", "memory_limit is 1.0 KiB"});
  refused({"--sweep", "stages=64,65"}, 1, {"error[XG0602]", "--set schedule.stages"});
  refused({"--set", "schedule.memory_limit=1KiB"}, 3, {"error[XG0601]"});
}

TEST_F(Simulate, KeysThatAreUnknownOrAmbiguousListTheNearestOnes) {
  refused({"--sweep", "nods=1,2"}, 2,
          {"error[XG0639]: `--sweep nods` is neither an option of the file nor a setting of `cluster`, `schedule` or "
           "`train`",
           "nodes"});
  refused({"--sweep", "every=1"}, 2,
          {"error[XG0639]: `--sweep every` may mean several keys", "train.checkpoint.every"});
  refused({"--sweep", "cluster.nods=1"}, 2, {"error[XG0639]", "cluster.nodes"});
  refused({"--fit", "clases"}, 2, {"error[XG0639]: `--fit clases` is neither", "classes"});
  refused({"--sweep", "nodes=1", "--sweep", "cluster.nodes=2"}, 2,
          {"error[XG0639]: `--sweep cluster.nodes` is there twice"});
  EXPECT_EQ(document({"--sweep", "over=1,2"})["keys"], Json({"schedule.shard.id.over"}));
  EXPECT_EQ(document({"--sweep", "train.groups.id.lr=0.5,1"})["points"].size(), 2U);
}

TEST_F(Simulate, FlagsOfAnotherFormSayWhatToWrite) {
  refused({"--sweep", "nodes"}, 2, {"error[XG0639]: `--sweep nodes` has no `=` after a key", "--sweep nodes=8,16,32"});
  refused({"--sweep", "nodes="}, 2, {"error[XG0639]: `--sweep nodes=` lacks a value"});
  refused({"--sweep", "nodes=1,,2"}, 2, {"error[XG0639]", "lacks a value before or after a comma"});
  refused({"--sweep", "nodes=4,4"}, 2, {"error[XG0639]: `--sweep nodes` has the value `4` twice"});
  refused({"--sweep", "nodes=8..1"}, 2, {"error[XG0639]: `8..1` is no range"});
  refused({"--sweep", "nodes=1..8*1"}, 2, {"error[XG0639]: `1..8*1` is no range"});
  refused({"--sweep", "batch=1..1000"}, 2, {"error[XG0640]: `1..1000` has more than 256 values"});
  refused({"--sweep", "nodes=1..20", "--sweep", "batch=1..20"}, 2,
          {"error[XG0640]: the values of all keys together are 400 points, and a sweep has at most 256"});
  refused({"--fit", "batch=x"}, 2, {"error[XG0639]: `--fit batch=x` is neither a key nor a key with a range"});
  refused({"--fit", "batch", "--sweep", "nodes=1"}, 2, {"error[XG0639]: `--fit` and `--sweep` exclude one another"});
  refused({"--devices", "cuda"}, 2, {"error[XG0636]: `--devices cuda` names GPUs of this machine", "cluster.node.gpu"});
  EXPECT_THAT(run({"simulate", "m.xplan"}).err, HasSubstr("error[XG0620]"));
  EXPECT_THAT(run({"plan", "m.xgraph", "--format", "html"}).err, HasSubstr("only `xrun show` writes"));
  EXPECT_THAT(simulate({"--format", "perfetto"}).err, HasSubstr("only `xrun show` writes"));
}

TEST_F(Simulate, ValuesThatAKeyDoesNotAllowEndTheCommandWithTheLegalOnes) {
  refused({"--sweep", "gpu=h100,b300"}, 1, {"--set cluster.node.gpu", "h100"}, "gpus.xgraph");
  refused({"--sweep", "nodes=1,0"}, 1, {"error[XG0214]", "--set cluster.nodes"});
  refused({"--sweep", "pipeline=gpipe,zigzag"}, 1, {"--set schedule.pipeline", "gpipe"});
  refused({"--sweep", "nodes=1,two"}, 1, {"--set cluster.nodes"});
  refused({"--sweep", "devices=1,0"}, 2, {"error[XG0214]: `devices` is `0`, and a plan has 1 to 1024 devices"});
}

TEST_F(Simulate, ActiveClassesOnGpusArePlannedByCostFormsAndNamed) {
  const Json all = document({"--sweep", "active_classes=all,sample(10%)", "--set", "classes=200_000"}, "gpus.xgraph");
  ASSERT_EQ(all["points"].size(), 2U);
  EXPECT_FALSE(all["points"][0]["plan"].contains("not_run"));
  ASSERT_TRUE(all["points"][1].contains("plan")) << all.dump(1);
  EXPECT_THAT(all["not_run"][0].get<std::string>(),
              HasSubstr("GPUs cannot run heads with sampled active classes (XG0634): planned by cost forms"));
  EXPECT_EQ(all["points"][1]["plan"]["not_run"], all["not_run"]);
  EXPECT_THAT(all["costs"].get<std::string>(), HasSubstr("drawn at the speed of one core"));
  // Other commands still refuse it.
  const CommandResult plan = run({"plan", "m.xgraph", "--cluster", "gpus.xgraph", "--dry-run", "--set",
                                  "train.active_classes=sample(10%)", "--set", "classes=200_000"});
  EXPECT_EQ(plan.exit, 1);
  EXPECT_THAT(plan.err, HasSubstr("error[XG0634]"));
}

TEST_F(Simulate, TheLargestValueIsTheLastOneWithAPlan) {
  const Json all = document({"--fit", "nodes=1..9", "--devices", "6"});
  const Json& fit = all["fit"];
  EXPECT_EQ(all["points"][fit["largest"].get<size_t>()]["values"]["cluster.nodes"], "6");
  EXPECT_EQ(all["points"][fit["next"].get<size_t>()]["values"]["cluster.nodes"], "7");
  EXPECT_EQ(all["points"][fit["next"].get<size_t>()]["error"]["code"], "XG0832");
  const Json batch = document({"--fit", "batch=8..4096", "--set", "schedule.memory_limit=128KiB"});
  EXPECT_THAT(batch["fit"]["text"].get<std::string>(),
              AllOf(HasSubstr("the largest batch with a plan is 96, bound by memory: "),
                    HasSubstr("; 104 has none: XG0601"), HasSubstr("values between them are not legal (XG0507)")));
  // All values are rows, in ascending order.
  int64_t before = 0;
  for (const Json& point : batch["points"]) {
    const int64_t value = std::stoll(point["values"]["train.batch"].get<std::string>());
    EXPECT_GT(value, before);
    before = value;
  }
  const Json whole = document({"--fit", "seed=1..4"});
  EXPECT_TRUE(whole["fit"]["next"].is_null());
  EXPECT_THAT(whole["fit"]["text"].get<std::string>(), HasSubstr("no larger value was tried"));
  refused({"--fit", "stages=64..128"}, 1, {"error[XG0602]"});
}

TEST_F(Simulate, ClassesOfAHeadAreThoseOfTheCommandPlan) {
  const CommandResult here = simulate({"--fit", "classes", "--set", "schedule.memory_limit=256KiB"});
  EXPECT_EQ(here.exit, 0) << here.err;
  EXPECT_EQ(here.out, run({"plan", "m.xgraph", "--cluster", "lab.xgraph", "--fit", "classes", "--set",
                           "schedule.memory_limit=256KiB"})
                          .out);
  EXPECT_EQ(document({"--fit", "classes=10..20"})["keys"], Json({"classes"}));
  refused({"--fit", "classes", "--format", "csv"}, 2, {"error[XG0639]", "--fit classes=1000..1_000_000"});
}

TEST_F(Simulate, ResultsGoToAFileThatIsOfTheirKind) {
  const CommandResult first = simulate({"--sweep", "nodes=1,2", "--format", "csv", "-o", "nodes.csv"});
  EXPECT_EQ(first.exit, 0) << first.err;
  EXPECT_EQ(first.out, "");
  EXPECT_THAT(first.err, HasSubstr("wrote nodes.csv"));
  EXPECT_EQ(read_file(at.path() + "/nodes.csv"), simulate({"--sweep", "nodes=1,2", "--format", "csv"}).out);
  EXPECT_EQ(simulate({"--sweep", "stages=1,2", "--format", "csv", "-o", "nodes.csv"}).exit, 0) << "replaced";
  refused({"-o", "m.xgraph", "--format", "csv"}, 2, {"error[XG0901]: `m.xgraph` exists"});
  refused({"-o", "none/nodes.txt"}, 4, {"error[XG0901]"});
}

TEST_F(Simulate, MissingDataLeavesTheEpochOut) {
  at.write("elsewhere.xgraph", R"(xgraph 1

model far {
  input x: f32[N, 3, 16, 16]

  logits = x -> flatten -> linear(4)
  output logits
}

data rows {
  source train = webdataset("nowhere-{000..003}.tar")

  x     = jpg -> decode -> resize(16)
  label = cls -> as_index(4)
}

train quick {
  batch     = 32
  epochs    = 1
  loss      = softmax_ce(logits, label)
  optimizer = sgd
  lr        = 0.1
}
)");
  const CommandResult result = run({"simulate", "elsewhere.xgraph", "--devices", "1", "--format", "json"});
  ASSERT_EQ(result.exit, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_FALSE(Json::parse(result.out)["points"][0]["plan"].contains("epoch_seconds"));
}

// Returns the path of Chromium; empty if it is not installed. XRUN_BROWSER names another program with its flags.
std::string browser() {
  const char* named = std::getenv("XRUN_BROWSER");
  const std::string path = named != nullptr ? named : "/usr/bin/chromium";
  return std::filesystem::exists(path) ? path : "";
}

TEST_F(Simulate, PagesOpenInABrowserWithoutErrors) {
  const std::string chromium = browser();
  if (chromium.empty()) {
    GTEST_SKIP() << "Chromium is not installed (packages/dev.txt; XRUN_BROWSER names another program)";
  }
  for (const Words& flags : {Words{"--sweep", "nodes=1..3", "--sweep", "stages=1,16"},
                             Words{"--sweep", "gpu=h100,h200"}, Words{}, Words{"--fit", "nodes=1..5"}}) {
    Words words = flags;
    words.insert(words.end(), {"--format", "html"});
    const CommandResult html = simulate(words, "gpus.xgraph");
    ASSERT_EQ(html.exit, 0) << html.err;
    EXPECT_THAT(html.out, ::testing::StartsWith("<!DOCTYPE html>"));
    const std::string page = at.write("page.html", html.out);
    const std::string dom = at.path() + "/dom.html";
    const std::string log = at.path() + "/log.txt";
    const std::string command = "timeout 100 " + chromium +
                                " --headless --no-sandbox --disable-gpu --user-data-dir=" + at.path() +
                                "/profile --enable-logging=stderr --v=0 --virtual-time-budget=4000 --dump-dom file://" +
                                page + " > " + dom + " 2> " + log;
    ASSERT_EQ(std::system(command.c_str()), 0) << read_file(log);
    const std::string shown = read_file(dom);
    EXPECT_THAT(shown, HasSubstr("data-ready=")) << read_file(log);
    EXPECT_THAT(read_file(log), Not(HasSubstr("CONSOLE")));
    const Json all = document(flags, "gpus.xgraph");
    const Json& fastest = all["points"][all["fastest"].get<size_t>()]["plan"];
    for (const auto& [name, value] : {std::pair("Step", fastest["step_seconds"]),
                                      {"Samples a second", fastest["samples_per_second"]},
                                      {"Memory of a device", fastest["memory"]}}) {
      const size_t end = shown.find("\" data-name=\"" + std::string(name) + "\"");
      ASSERT_NE(end, std::string::npos) << name;
      const size_t begin = shown.rfind("data-value=\"", end) + 12;
      EXPECT_DOUBLE_EQ(std::stod(shown.substr(begin, end - begin)), value.get<double>()) << name;
    }
  }
}

}  // namespace
}  // namespace xrun::testing
