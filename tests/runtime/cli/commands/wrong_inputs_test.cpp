// Wrong inputs of every kind: each gives the right exit code and a message with place, cause and fix, and loses
// nothing. Each row of the table is one fault.
#include <filesystem>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/runtime/data/data_files.h"
#include "tests/support/command.h"
#include "tests/support/tiny_model.h"

namespace xrun::testing {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// Returns the tiny model with one part of its text replaced.
std::string tiny_with(const std::string& from, const std::string& to) { return replaced(tiny_model(), from, to); }

struct Fault {
  std::string name;
  std::string model;  // text of m.xgraph
  std::vector<std::string> words;
  int exit = 0;
  std::string place;  // "m.xgraph:3:9" after the arrow; without an arrow: the file or flag in the first line
  std::string cause;  // text before the help
  std::string fix;    // text in the help
  std::function<void(const std::string& directory)> prepare = nullptr;
  CommandOptions options{};
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

// One error or warning on stderr.
struct Report {
  std::string message;  // first line of the report
  std::string arrow;    // "m.xgraph:3:9"; empty if no text is shown
  std::string cause;    // everything before the help
  std::string help;     // everything after the first "help: "
};

std::vector<Report> reports_of(const std::string& err) {
  std::vector<Report> reports;
  std::istringstream lines(err);
  bool helps = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("error", 0) == 0 || line.rfind("warning", 0) == 0) {
      reports.push_back({.message = line});
      helps = false;
    }
    if (reports.empty()) {
      continue;
    }
    Report& report = reports.back();
    const size_t arrow = line.find("--> ");
    if (!helps && arrow != std::string::npos && line.find_first_not_of(' ') == arrow && report.arrow.empty()) {
      report.arrow = line.substr(arrow + 4);
    }
    if (line.rfind("help: ", 0) == 0) {
      helps = true;
      line.erase(0, 6);
    }
    (helps ? report.help : report.cause) += line + "\n";
  }
  return reports;
}

class WrongInput : public ::testing::TestWithParam<Fault> {};

TEST_P(WrongInput, GivesTheExitCodeAndReportsPlaceCauseAndFix) {
  const Fault& fault = GetParam();
  if (fault.options.uid >= 0 && ::geteuid() != 0) {
    GTEST_SKIP() << "needs root to become another user";
  }
  const TemporaryDirectory directory;
  if (!fault.model.empty()) {
    directory.write("m.xgraph", fault.model);
  }
  if (fault.prepare) {
    fault.prepare(directory.path());
  }
  CommandOptions options = fault.options;
  options.directory = directory.path();
  options.timeout_s = 60;
  const CommandResult result = run_xrun(fault.words, options);
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit, fault.exit) << result.out << result.err;
  const std::vector<Report> reports = reports_of(result.err);
  ASSERT_FALSE(reports.empty()) << result.err;
  const Report& first = reports.front();
  if (first.arrow.empty()) {
    EXPECT_THAT(first.message, HasSubstr(fault.place));
  } else {
    EXPECT_EQ(first.arrow, fault.place) << result.err;
  }
  EXPECT_THAT(first.cause, HasSubstr(fault.cause));
  EXPECT_THAT(first.help, HasSubstr(fault.fix));
  // The other reports must also have a fix.
  for (const Report& report : reports) {
    EXPECT_GT(report.help.size(), 5U) << report.message;
  }
}

void must(const CommandResult& result) { ASSERT_EQ(result.exit, 0) << result.out << result.err; }

void plan_in(const std::string& directory) { must(run_xrun({"plan", "m.xgraph"}, {.directory = directory})); }

void train_in(const std::string& directory, const std::string& steps = "3") {
  must(run_xrun({"train", "m.xgraph", "--steps", steps, "--progress", "none"}, {.directory = directory}));
}

void overwrite(const std::string& path, int64_t at, const std::string& bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  ASSERT_TRUE(file.good()) << path;
  file.seekp(at, at < 0 ? std::ios::end : std::ios::beg);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// Returns the only file below ckpt/quick/step-* whose name begins with `prefix`.
std::string checkpoint_file(const std::string& directory, const std::string& prefix) {
  for (const auto& entry : fs::recursive_directory_iterator(directory + "/ckpt/quick")) {
    if (entry.path().filename().string().rfind(prefix, 0) == 0) {
      return entry.path().string();
    }
  }
  ADD_FAILURE() << "no " << prefix << " in the checkpoint";
  return {};
}

std::string csv_model() {
  return R"(xgraph 1

model m {
  input x: f32[N, 4]

  logits = x -> linear(3)
  output logits
}

data d {
  source train = csv("d.csv", rows=0..64)

  x     = columns(0..4)
  label = column(4) -> as_index(3)
}

train t {
  batch     = 16
  norm_rows = 8
  epochs    = 1
  loss      = softmax_ce(logits, label)
  optimizer = sgd
  lr        = 0.1
}
)";
}

std::string csv_rows(int rows, const std::string& bad = "") {
  std::string text;
  for (int i = 0; i < rows; ++i) {
    text += bad.empty() || i != 5 ? "1,2,3,4," + std::to_string(i % 3) + "\n" : bad + "\n";
  }
  return text;
}

void write(const std::string& path, const std::string& content) { std::ofstream(path, std::ios::binary) << content; }

std::string picture_model(const std::string& reader) {
  return R"(xgraph 1

model m {
  input x: f32[N, 1, 8, 8]

  logits = x -> flatten -> linear(10)
  output logits
}

data d {
  source train = )" +
         reader + R"(

  x = pixels -> scale(1 / 255)
}

train t {
  batch     = 16
  norm_rows = 8
  epochs    = 1
  loss      = softmax_ce(logits, label)
  optimizer = sgd
  lr        = 0.1
}
)";
}

std::vector<Fault> model_faults() {
  const std::vector<std::string> check{"check", "m.xgraph"};
  std::string deep = "xgraph 1\nlet a = ";
  deep += std::string(200, '(') + "1" + std::string(200, ')') + "\n";
  return {
      {"missing_file", "", {"check", "none.xgraph"}, 1, "`none.xgraph`", "no file", "check the path"},
      {"directory_for_a_file", "", {"check", "."}, 1, "`.`", "is a directory", "name the .xgraph file"},
      {"empty_file", "\n", check, 1, "m.xgraph:2:1", "does not start with `xgraph 1`", "1 ~ xgraph 1"},
      {"unknown_edition", "xgraph 9\n", check, 1, "m.xgraph:1:1", "edition `xgraph 9` is not known", "1 ~ xgraph 1"},
      {"tab", "xgraph 1\n\nlet a =\t1\n", check, 1, "m.xgraph:3:8", "XG0103]: a tab", "3 ~ let a =  1"},
      {"unterminated_string", "xgraph 1\n\nlet a = \"abc\n", check, 1, "m.xgraph:3:9", "not closed on its line",
       "3 ~ let a = \"abc\""},
      {"not_utf8", std::string("xgraph 1\n\nlet a = \"\xff\xfe\"\n"), check, 1, "m.xgraph:3:10", "not UTF-8",
       "iconv -f LATIN1"},
      {"unknown_declaration", "xgraph 1\n\nmodle m {\n}\n", check, 1, "m.xgraph:3:1",
       "no declaration starts with `modle`", "3 ~ model m {"},
      {"unknown_setting", tiny_with("batch     = 32", "batchsize = 32"), check, 1, "m.xgraph:24:3",
       "XG0210]: unknown setting `batchsize`", "24 ~   batch     = 32"},
      {"unknown_argument", tiny_with("margin=0.05", "margn=0.05"), check, 1, "m.xgraph:27:34",
       "XG0203]: `cosface` has no argument named `margn`",
       "27 ~   loss      = cosface(id, label, margin=0.05, scale=12)"},
      {"unknown_name", tiny_with("relu(a + b)", "relu(a + c)"), check, 1, "m.xgraph:10:22", "there is no `c` here",
       "known here: a, b, classes, x"},
      {"unknown_operator", tiny_with("linear(24)", "liner(24)"), check, 1, "m.xgraph:10:28",
       "no operator or block `liner`", "10 ~   feature = relu(a + b) -> linear(24) -> bn"},
      {"shapes_that_differ", tiny_with("b       = a -> linear(32)", "b       = a -> linear(31)"), check, 1,
       "m.xgraph:10:20", "32 and 31 in dimension 1", "`linear(32)` on the right side"},
      {"fraction_as_dimension", tiny_with("linear(24)", "linear(7 / 2)"), check, 1, "m.xgraph:10:35",
       "not a whole number: 7/2", "linear(ceil(7 / 2))"},
      {"softmax_of_a_sharded_head",
       tiny_with("head id = cosine_classifier(feature, classes)",
                 "head id = cosine_classifier(feature, classes)\n  prob = softmax(id)\n  output prob"),
       check, 1, "m.xgraph:14:10", "XG0305]: this would gather 4.6 KiB", "14 ~   prob = topk(id, 10)"},
      {"mathematics_in_schedule", tiny_model() + "\nschedule s {\n  active_classes = all\n}\n", check, 1,
       "m.xgraph:38:3", "XG0503]: a schedule cannot change what is learned",
       "move the line to `train quick` (line 23)"},
      {"setting_without_unit", tiny_model() + "\ncluster c {\n  node {\n    memory = 4\n  }\n}\n", check, 1,
       "m.xgraph:39:14", "XG0107]: `memory` expects a size, but 4 has no unit", "memory = 4GiB"},
      {"row_blocks_that_do_not_divide", tiny_with("norm_rows = 8", "norm_rows = 9"), check, 1, "m.xgraph:26:15",
       "XG0507]: row blocks of 9 samples", "one of 2, 4, 8, 16, 32"},
      {"curve_that_leaves_a_gap",
       tiny_with("cosine(1e-2 .. 0)]", "cosine(1e-2 .. 0, 5 steps)]"),
       {"train", "m.xgraph", "--progress", "none"},
       1,
       "m.xgraph:30:45",
       "XG0506]: the curves cover 15 steps, but the run has 60",
       "leave out the span of the last curve"},
      {"failed_expectation", tiny_with("37 * 24\n}", "37 * 25\n}"), check, 1, "m.xgraph:34:10", "3_456 == 3_493",
       "34 ~   expect params(tiny) == 3_456"},
      {"import_of_nothing", "xgraph 1\n\nimport \"none.xgraph\" as n\n", check, 1, "m.xgraph:3:8",
       "cannot read `none.xgraph`: No such file", "check the path"},
      {"import_cycle", "xgraph 1\n\nimport \"m.xgraph\" as n\n", check, 1, "m.xgraph:3:8",
       "XG0206]: `m.xgraph` imports itself", "remove this import"},
      {"block_that_calls_itself",
       tiny_with("linear(24)", "f -> linear(24)") + "\nblock f(x: [N, C]) {\n  return x -> f\n}\n", check, 1,
       "m.xgraph:38:15", "`f` contains itself", "-> repeat n"},
      {"deep_nesting", deep, check, 1, "m.xgraph:2:73", "more than 64 levels deep",
       "give an inner part a name of its own"},
      {"giant_file", "xgraph 1\n" + std::string(5 << 20, '\n'), check, 1, "m.xgraph:1:1",
       "the file is larger than 4 MiB", "divide it: `import`"},
      {"endless_repeat", tiny_with("a       = x -> linear(32)", "a       = x -> repeat 100M { relu } -> linear(32)"),
       check, 1, "m.xgraph:5:7", "operators, tensors and parameters or more: the limit is 1 000 000",
       "`repeat` count that is too large"},
      {"link_not_yet",
       tiny_model() + "\ncluster c {\n  node {\n    gpu  = h100_80g\n    link = nvlink(450GB/s)\n  }\n}\n",
       {"plan", "m.xgraph"},
       1,
       "m.xgraph:40:5",
       "XG0199]: `node.link` is not available yet",
       "leave it out: plans take the published rate of NVLink"},
      {"more_devices_than_gpus",
       tiny_model() + "\ncluster c {\n  node {\n    gpu = h100\n  }\n}\n",
       {"plan", "m.xgraph", "--devices", "2"},
       2,
       "--devices 2",
       "XG0636]: `--devices 2` asks for more GPUs than the 1 of the cluster",
       "give at most --devices 1"},
      {"active_classes_on_a_gpu",
       tiny_with("batch     = 32", "batch     = 8\n  active_classes = sample(34)") +
           "\ncluster c {\n  node {\n    gpu = h100\n  }\n}\n",
       {"plan", "m.xgraph"},
       1,
       "m.xgraph:25:20",
       "XG0634]: GPUs cannot run heads with sampled active classes",
       "leave `active_classes` out"},
      {"too_few_active_classes",
       tiny_with("batch     = 32", "batch     = 32\n  active_classes = sample(2)"),
       {"train", "m.xgraph"},
       1,
       "m.xgraph:25:20",
       "XG0214]: 2 of the 37 classes of `id` are active, but a step of 32 samples may have 32 labels",
       "write a share or a number that makes 32 classes or more"},
      {"no_train",
       tiny_model().substr(0, tiny_model().find("train quick")),
       {"train", "m.xgraph"},
       1,
       "m.xgraph",
       "has no `train`",
       "train name { ... }"},
      {"set_of_an_unknown_key",
       tiny_model(),
       {"check", "m.xgraph", "--set", "train.bach=3"},
       1,
       "--set train.bach:1:1",
       "unknown setting `bach` in `train`",
       "did you mean `batch`?"},
      {"strict_makes_warnings_fatal",
       tiny_with("output feature\n", "output feature\n  unused = feature -> relu\n"),
       {"check", "m.xgraph", "--strict"},
       1,
       "m.xgraph:9:18",
       "XG0225]: `linear` has no label",
       "linear(32) as linear_2"},
      {"unreadable_file",
       tiny_model(),
       check,
       4,
       "`m.xgraph`",
       "permission denied",
       "the right to read it",
       [](const std::string& d) {
         ::chmod((d + "/m.xgraph").c_str(), 0);
         ::chmod(d.c_str(), 0755);
       },
       {.uid = 65534}},
  };
}

std::vector<Fault> flag_faults() {
  const std::string m = tiny_model();
  return {
      {"no_command",
       "",
       {},
       2,
       "`xrun`",
       "needs a command",
       "new, check, fmt, fix, explain, lsp, plan, simulate, show"},
      {"unknown_command", "", {"trian", "m.xgraph"}, 2, "`trian`", "there is no command", "did you mean `train`?"},
      {"unknown_flag",
       m,
       {"check", "m.xgraph", "--stric"},
       2,
       "`--stric`",
       "`xrun check` does not know",
       "did you mean `--strict`?"},
      {"setting_as_a_flag",
       m,
       {"train", "m.xgraph", "--epochs", "3"},
       2,
       "`--epochs`",
       "`xrun train` does not know",
       "did you mean `--set train.epochs=3`?"},
      {"setting_as_a_flag_with_its_value",
       m,
       {"train", "m.xgraph", "--batch-size=32"},
       2,
       "`--batch-size=32`",
       "`xrun train` does not know",
       "did you mean `--set train.batch=32`?"},
      {"setting_without_its_declaration",
       m,
       {"plan", "m.xgraph", "--set", "stages=2"},
       1,
       "--set stages:1:1",
       "XG0201]: the file has no option `stages`",
       "did you mean `--set schedule.stages=2`?"},
      {"curve_as_a_flag",
       m,
       {"check", "m.xgraph", "--lr", "cosine(0.1 .. 0)"},
       2,
       "`--lr`",
       "`xrun check` does not know",
       "did you mean `--set 'train.lr=cosine(0.1 .. 0)'`?"},
      {"dry_run_with_an_output",
       m,
       {"plan", "m.xgraph", "--dry-run", "-o", "a.xplan"},
       2,
       "`--dry-run`",
       "XG0907]: `--dry-run` writes nothing",
       "leave `-o` out"},
      {"no_file", "", {"check"}, 2, "`xrun check`", "files is required", "xrun check --help"},
      {"zero_devices",
       m,
       {"plan", "m.xgraph", "--devices", "0"},
       2,
       "`--devices 0`",
       "not a number of devices",
       "--devices 2"},
      {"devices_of_another_name",
       m,
       {"plan", "m.xgraph", "--devices", "gpu:0"},
       2,
       "`--devices gpu:0`",
       "is not a number of devices from 1 to 1024, and names no GPUs",
       "did you mean `--devices cuda:0`?"},
      {"fewer_threads_than_devices",
       m,
       {"plan", "m.xgraph", "--threads", "1", "--devices", "2"},
       2,
       "`--threads 1`",
       "too few threads for `--devices 2`",
       "--threads 2"},
      {"threads_in_words",
       m,
       {"plan", "m.xgraph", "--threads", "two"},
       2,
       "--threads",
       "`two` is not a whole number",
       "xrun plan --help"},
      {"set_without_value",
       m,
       {"plan", "m.xgraph", "--set", "train.batch"},
       2,
       "`--set train.batch`",
       "has no `=`",
       "PATH=VALUE"},
      {"wrong_environment",
       m,
       {"plan", "m.xgraph"},
       2,
       "`XRUN_THREADS=many` in the environment",
       "`many` is not a whole number",
       "unset the variable",
       nullptr,
       {.environment = {{"XRUN_THREADS", "many"}}}},
      {"wrong_flag_in_the_environment",
       m,
       {"plan", "m.xgraph"},
       2,
       "`XRUN_DRY_RUN=maybe` in the environment",
       "--dry-run",
       "unset the variable",
       nullptr,
       {.environment = {{"XRUN_DRY_RUN", "maybe"}}}},
      {"wrong_setting_in_the_environment",
       m,
       {"plan", "m.xgraph"},
       2,
       "`XRUN_SET=train.batch` in the environment",
       "has no `=`",
       "PATH=VALUE",
       nullptr,
       {.environment = {{"XRUN_SET", "train.batch"}}}},
      {"wrong_devices_in_the_environment",
       m,
       {"plan", "m.xgraph"},
       2,
       "`XRUN_DEVICES=0` in the environment",
       "not a number of devices",
       "--devices 2",
       nullptr,
       {.environment = {{"XRUN_DEVICES", "0"}}}},
      {"wrong_key_in_the_environment",
       m,
       {"plan", "m.xgraph"},
       2,
       "`me`",
       "XG0908",
       "from the environment: XRUN_WHY=me",
       nullptr,
       {.environment = {{"XRUN_WHY", "me"}}}},
      {"wrong_flag_beside_a_wrong_variable",
       m,
       {"plan", "m.xgraph", "--threads", "two"},
       2,
       "--threads",
       "`two` is not a whole number",
       "xrun plan --help",
       nullptr,
       {.environment = {{"XRUN_THREADS", "many"}}}},
      {"unknown_format",
       m,
       {"plan", "m.xgraph", "--format", "yaml"},
       2,
       "--format",
       "yaml not in {text,json,md,sarif,html,csv,perfetto}",
       "xrun plan --help"},
      {"predict_without_pictures",
       m,
       {"predict", "m.xgraph", "ckpt"},
       2,
       "`xrun predict`",
       "nothing to predict",
       "--source NAME --rows a..b"},
      {"rows_in_words",
       m,
       {"predict", "m.xgraph", "ckpt/quick/latest", "--source", "test", "--rows", "some"},
       2,
       "`--rows some`",
       "not a range a..b within 0..500",
       "--rows 0..8",
       [](const std::string& d) { train_in(d); }},
      {"settings_for_a_plan",
       m,
       {"train", "m.xplan", "--set", "train.epochs=2"},
       2,
       "`m.xplan`",
       "`--set` (or its XRUN_ variable) has no effect",
       "plan again with --set",
       plan_in},
  };
}

std::vector<Fault> plan_faults() {
  const std::string m = tiny_model();
  return {
      {"micro_batches_that_cut_row_blocks",
       m,
       {"plan", "m.xgraph", "--set", "schedule.micro_batches=8"},
       1,
       "--set schedule.micro_batches:1:1",
       "XG0605]: micro-batches of 4 rows cannot hold row blocks of 8",
       "1 micro_batches = 4      in the schedule"},
      {"more_stages_than_devices",
       m,
       {"plan", "m.xgraph", "--devices", "2", "--set", "schedule.stages=3"},
       1,
       "--set schedule.stages:1:1",
       "XG0602]: 3 stages need as many devices, but there are only 2",
       "stages = 1 .. 2, or --devices 3"},
      {"memory_that_is_too_small",
       m,
       {"plan", "m.xgraph", "--set", "schedule.memory_limit=10KiB"},
       3,
       "--set schedule.memory_limit:1:1",
       "XG0601]: does not fit: the smallest plan found needs",
       "no smaller batch and no smaller row block fits either"},
      {"truncated_plan",
       m,
       {"train", "m.xplan"},
       1,
       "`m.xplan`",
       "truncated or damaged",
       "xrun plan",
       [](const std::string& d) {
         plan_in(d);
         fs::resize_file(d + "/m.xplan", 100);
       }},
      {"flipped_byte_in_plan",
       m,
       {"train", "m.xplan"},
       1,
       "`m.xplan`",
       "its SHA-256 does not match",
       "xrun plan",
       [](const std::string& d) {
         plan_in(d);
         overwrite(d + "/m.xplan", 200, "\xff\x00\xff");
       }},
      {"empty_plan",
       "",
       {"train", "m.xplan"},
       1,
       "`m.xplan`",
       "is not a plan file",
       "xrun plan",
       [](const std::string& d) { write(d + "/m.xplan", ""); }},
      {"missing_plan",
       "",
       {"train", "m.xplan"},
       1,
       "`m.xplan`",
       "No such file or directory",
       "xrun plan MODEL.xgraph -o m.xplan"},
      {"stale_plan",
       m,
       {"train", "m.xplan"},
       1,
       "m.xgraph`",
       "has changed since plan",
       "xrun plan",
       [](const std::string& d) {
         plan_in(d);
         write(d + "/m.xgraph", tiny_with("dropout(0.1)", "dropout(0.2)"));
       }},
      {"plan_without_its_model",
       m,
       {"train", "m.xplan"},
       1,
       "`m.xplan` was made from",
       "m.xgraph`, which does not exist",
       "restore the model",
       [](const std::string& d) {
         plan_in(d);
         fs::remove(d + "/m.xgraph");
       }},
      {"plan_into_no_directory",
       m,
       {"plan", "m.xgraph", "-o", "none/m.xplan"},
       4,
       "`none/m.xplan`",
       "there is no directory `none`",
       "choose another place with `-o`"},
      {"plan_on_a_full_disk",
       m,
       {"plan", "m.xgraph", "-o", "m.xplan"},
       4,
       "`m.xplan`",
       "File too large",
       "free some space",
       nullptr,
       {.file_size_limit = 512}},
      {"why_of_no_decision",
       m,
       {"plan", "m.xgraph", "--why", "stage"},
       2,
       "`stage`",
       "XG0908",
       "one of: stages, replicas, micro_batches, shards id, recompute"},
      {"exit_code_of_nothing",
       m,
       {"plan", "m.xgraph", "--exit-code"},
       2,
       "`--exit-code`",
       "XG0907",
       "--diff old.xplan"},
      {"two_questions",
       m,
       {"plan", "m.xgraph", "--why", "stages", "--diff", "m.xplan"},
       2,
       "--why",
       "XG0907",
       "ask for one of them",
       plan_in},
      {"diff_with_no_plan", m, {"plan", "m.xgraph", "--diff", "old.xplan"}, 1, "`old.xplan`", "XG0621", "xrun plan"},
      {"text_of_a_plan",
       m,
       {"show", "m.xplan", "--emit", "ast"},
       2,
       "`m.xplan`",
       "does not hold what `--emit ast` prints",
       "give the model file",
       plan_in},
      {"cost_of_a_plan",
       m,
       {"train", "m.xplan", "--cost", "measured"},
       2,
       "`m.xplan`",
       "`--cost` (or its XRUN_ variable) has no effect",
       "plan again with --cost",
       plan_in},
  };
}

std::vector<Fault> data_faults() {
  const std::string other_classes =
      replaced(replaced(picture_model("folder([\"pictures\"])\n  source test = folder([\"others\"])"), "pixels ->",
                        "file -> decode(8, channels=1) ->"),
               "optimizer = sgd", "metrics = [accuracy(logits, label)]\n  optimizer = sgd");
  const std::vector<std::string> train{"train", "m.xgraph", "--progress", "none"};
  return {
      {"rows_of_pictures",
       picture_model("idx(\"i\", \"l\")"),
       {"predict", "m.xgraph", "ckpt", "a.png", "--rows", "0..3"},
       2,
       "",
       "`--rows` selects rows of a table or a source",
       "--source NAME"},
      {"several_tables",
       csv_model(),
       {"predict", "m.xgraph", "ckpt", "a.csv", "b.csv"},
       2,
       "",
       "2 tables are named, but only one can be predicted at a time",
       "name one of them"},
      {"missing_csv", csv_model(), train, 1, "m.xgraph:11:18", "cannot read d.csv: No such file", "check the path"},
      {"word_in_csv", csv_model(), train, 1, "", "d.csv:6 of source `train`: column 1 is \"abc\", not a number",
       "raise `max_bad` in `data`", [](const std::string& d) { write(d + "/d.csv", csv_rows(64, "1,abc,3,4,0")); }},
      {"short_csv", csv_model(), train, 1, "m.xgraph:11:18", "`rows` is 0..64, but d.csv has 10 rows", "keep to 0..10",
       [](const std::string& d) { write(d + "/d.csv", csv_rows(10)); }},
      {"label_beyond_the_head", csv_model(), train, 1, "m.xgraph:6:24", "d.csv:6 of source",
       "fix d.csv:6, or give the head more classes",
       [](const std::string& d) { write(d + "/d.csv", csv_rows(64, "1,2,3,4,7")); }},
      {"more_classes_than_the_head", tiny_with("synthetic([16], classes, 640)", "synthetic([16], 50, 640)"), train, 1,
       "m.xgraph:3:23", "XG0402]: label 49 does not fit a head with 37 classes", "3 ~ option classes: int = 50"},
      {"idx_of_another_kind", picture_model("idx(\"i\", \"l\")"), train, 1, "m.xgraph:11:18", "i: not an IDX file",
       "get the file again",
       [](const std::string& d) {
         write(d + "/i", "hello world, no idx");
         write(d + "/l", "hello");
       }},
      {"other_classes_when_data_is_checked",
       other_classes,
       {"check", "m.xgraph", "--data", "-q"},
       1,
       "m.xgraph:12:17",
       "XG0402]: `c`, a class of `label` in the source `test`, is not a class of training",
       "they are a and b; correct the name, or train with it",
       [](const std::string& d) {
         for (const char* name : {"/pictures/a/1.png", "/pictures/b/1.png", "/others/c/1.png"}) {
           const fs::path file = d + name;
           fs::create_directories(file.parent_path());
           write(file.string(), runtime::testing::png(8, 100));
         }
       }},
      {"evaluation_of_other_classes", other_classes, train, 1, "m.xgraph:12:17",
       "XG0402]: `c`, a class of `label` in the source `test`, is not a class of training",
       "they are a and b; correct the name, or train with it",
       [](const std::string& d) {
         for (const char* file : {"/pictures/a/1.png", "/pictures/b/1.png", "/others/c/1.png"}) {
           fs::create_directories(fs::path(d + file).parent_path());
           write(d + file, "no picture is needed to see it");
         }
       }},
      {"truncated_idx", picture_model("idx(\"i\", \"l\")"), train, 1, "m.xgraph:11:18",
       "i: holds 2045 bytes less than its header says", "get the file again",
       [](const std::string& d) {
         write(d + "/i", std::string("\0\0\x08\x03\0\0\0\x20\0\0\0\x08\0\0\0\x08", 16) + "abc");
         write(d + "/l", std::string("\0\0\x08\x01\0\0\0\x20", 8) + std::string(32, '\0'));
       }},
      {"header_in_csv_of_a_plan",
       csv_model(),
       {"plan", "m.xgraph"},
       1,
       "m.xgraph:13:11",
       "d.csv:1: column 0 is \"a\", not a number",
       "say `header=true`",
       [](const std::string& d) { write(d + "/d.csv", "a,b,c,d,kind\n" + csv_rows(64)); }},
      {"curve_of_a_plan_that_leaves_a_gap",
       tiny_with("cosine(1e-2 .. 0)]", "cosine(1e-2 .. 0, 5 steps)]"),
       {"plan", "m.xgraph"},
       1,
       "m.xgraph:30:45",
       "XG0506",
       "span"},
      {"unreadable_data_of_a_plan",
       csv_model(),
       {"plan", "m.xgraph", "--dry-run"},
       4,
       "m.xgraph:11:18",
       "Permission denied",
       "right to read",
       [](const std::string& d) {
         write(d + "/d.csv", csv_rows(64));
         ::chmod((d + "/d.csv").c_str(), 0);
         ::chmod(d.c_str(), 0755);
       },
       {.uid = 65534}},
      {"missing_folder",
       replaced(picture_model("folder([\"pictures\"])"), "pixels ->", "file -> decode(8, channels=1) ->"), train, 1,
       "m.xgraph:11:18", "cannot read pictures: No such file", "check the path"},
      {"missing_font", picture_model("glyphs([\"no-such-font\"], 0x4E00..0x4E0A, size=8, em=8)"), train, 4,
       "m.xgraph:11:18", "XG0411]: the font \"no-such-font\" is not installed", "install the font"},
      {"unreadable_data_directory",
       replaced(picture_model("folder([\"pictures\"])"), "pixels ->", "file -> decode(8, channels=1) ->"),
       train,
       4,
       "m.xgraph:11:18",
       "cannot read pictures: Permission denied",
       "the right to read it",
       [](const std::string& d) {
         fs::create_directories(d + "/pictures/a");
         ::chmod((d + "/pictures").c_str(), 0);
         ::chmod(d.c_str(), 0777);
       },
       {.uid = 65534}},
  };
}

std::vector<Fault> checkpoint_faults() {
  const std::string m = tiny_model();
  const std::vector<std::string> eval{"eval", "m.xgraph", "ckpt/quick/latest"};
  return {
      {"missing_checkpoint",
       m,
       {"eval", "m.xgraph", "none"},
       1,
       "none",
       "no checkpoint at none",
       "name a step directory"},
      {"manifest_of_garbage", m, eval, 1, "manifest.json", "is not a JSON object", "use an older one",
       [](const std::string& d) {
         train_in(d);
         write(checkpoint_file(d, "manifest"), "{]");
       }},
      {"flipped_byte_in_weights", m, eval, 1, "trunk.safetensors", "does not match its digest", "use an older one",
       [](const std::string& d) {
         train_in(d);
         overwrite(checkpoint_file(d, "trunk.safetensors"), -9, "\x55");
       }},
      {"schedule_of_a_checkpoint",
       m,
       {"show", "ckpt/quick/latest", "--gantt"},
       2,
       "`ckpt/quick/latest`",
       "it has nothing for `--gantt`",
       "leave `--gantt` out",
       [](const std::string& d) { train_in(d); }},
      {"settings_of_a_checkpoint",
       m,
       {"show", "ckpt/quick/latest", "--set", "train.lr=1"},
       2,
       "`ckpt/quick/latest`",
       "`--set` (or its XRUN_ variable) has no effect on the checkpoint",
       "leave `--set` out",
       [](const std::string& d) { train_in(d); }},
      {"truncated_weights", m, eval, 1, "head.id", "bytes, not", "use an older one",
       [](const std::string& d) {
         train_in(d);
         const std::string f = checkpoint_file(d, "head.id");
         fs::resize_file(f, fs::file_size(f) / 2);
       }},
      {"lost_file", m, eval, 1, "trunk.safetensors", "is missing", "use an older one",
       [](const std::string& d) {
         train_in(d);
         fs::remove(checkpoint_file(d, "trunk.safetensors"));
       }},
      {"directory_without_checkpoints",
       m,
       {"eval", "m.xgraph", "empty"},
       1,
       "empty",
       "no checkpoint at empty",
       "name a step directory",
       [](const std::string& d) { fs::create_directories(d + "/empty"); }},
      {"other_shapes",
       m,
       {"eval", "m.xgraph", "ckpt/quick/latest"},
       1,
       "m.xgraph:10:42",
       "XG0702]: `bn_3.bias` has 25 rows in the model, but 24",
       "the model of this checkpoint",
       [](const std::string& d) {
         train_in(d);
         const std::string changed = tiny_with("linear(24)", "linear(25)");
         write(d + "/m.xgraph", changed.substr(0, changed.find("test \"size\"")));
       }},
      {"other_mathematics",
       m,
       {"train", "m.xgraph", "--set", "train.seed=2", "--progress", "none"},
       1,
       "ckpt/quick/step-000003",
       "XG0701]",
       "-C",
       [](const std::string& d) { train_in(d); }},
      {"full_disk",
       m,
       {"train", "m.xgraph", "--steps", "2", "--progress", "none"},
       4,
       "ckpt/quick",
       "File too large",
       "free some space",
       nullptr,
       {.file_size_limit = 4096}},
      {"read_only_output",
       m,
       {"train", "m.xgraph", "--steps", "2", "--progress", "none", "-C", "out"},
       4,
       "out/ckpt/quick",
       "Permission denied",
       "choose another directory with -C",
       [](const std::string& d) {
         fs::create_directories(d + "/out");
         ::chmod((d + "/out").c_str(), 0555);
         ::chmod(d.c_str(), 0755);
       },
       {.uid = 65534}},
      {"diverging_run",
       tiny_with("[warmup(0 .. 1e-2, 10 steps), cosine(1e-2 .. 0)]", "1e30"),
       {"train", "m.xgraph", "--progress", "none"},
       5,
       "m.xgraph:8:32",
       "XG0810]: `bn` (bn) gives a value that is not finite",
       "lower `train.lr`"},
  };
}

std::string name_of_fault(const ::testing::TestParamInfo<Fault>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Model, WrongInput, ::testing::ValuesIn(model_faults()), name_of_fault);
INSTANTIATE_TEST_SUITE_P(Flags, WrongInput, ::testing::ValuesIn(flag_faults()), name_of_fault);
INSTANTIATE_TEST_SUITE_P(Plan, WrongInput, ::testing::ValuesIn(plan_faults()), name_of_fault);
INSTANTIATE_TEST_SUITE_P(Data, WrongInput, ::testing::ValuesIn(data_faults()), name_of_fault);
INSTANTIATE_TEST_SUITE_P(Checkpoint, WrongInput, ::testing::ValuesIn(checkpoint_faults()), name_of_fault);

// A plan can be made without the data (docs/decisions/0011).
TEST(WrongInput, MissingDataIsOnlyAWarningOfPlan) {
  const TemporaryDirectory directory;
  const CommandOptions options{.directory = directory.path()};
  directory.write("m.xgraph", csv_model());
  const auto without = run_xrun({"plan", "m.xgraph"}, options);
  EXPECT_EQ(without.exit, 0) << without.err;
  for (const char* text :
       {"warning[XG0401]", "d.csv", "m.xgraph:11", "times of an epoch are not known", "check the path"}) {
    EXPECT_THAT(without.err, HasSubstr(text));
  }
  EXPECT_THAT(without.out, HasSubstr("wrote m.xplan"));
  EXPECT_THAT(without.out, ::testing::Not(HasSubstr("epoch")));
  directory.write("d.csv", csv_rows(64));
  const auto with = run_xrun({"plan", "m.xgraph"}, options);
  EXPECT_EQ(with.err, "");
  EXPECT_THAT(with.out, HasSubstr("     epoch "));
  EXPECT_THAT(run_xrun({"show", "m.xplan"}, options).out, HasSubstr("     epoch "));
}

// If failures come every second on average, the run saves every few tenths of a second, however long an epoch is.
TEST(WrongInput, ARunWithAutomaticSavesResumesAfterAKill) {
  const TemporaryDirectory directory;
  directory.write("m.xgraph",
                  tiny_with("optimizer = adamw", "optimizer = adamw\n  checkpoint {\n    every = auto(mtbf=1s)\n  }"));
  CommandOptions options{.directory = directory.path(), .kill_after_s = 3};
  const auto killed = run_xrun({"train", "m.xgraph", "--set", "train.epochs=100000", "--progress", "json"}, options);
  EXPECT_EQ(killed.exit, 128 + 9) << killed.err;
  EXPECT_THAT(killed.out, HasSubstr("\"next_s\":"));
  ASSERT_TRUE(fs::exists(directory.path() + "/ckpt/quick/latest"));
  options.kill_after_s = -1;
  const auto more = run_xrun({"train", "m.xgraph", "--set", "train.epochs=100000", "--steps", "1"}, options);
  EXPECT_EQ(more.exit, 0) << more.err;
  EXPECT_THAT(more.err, HasSubstr("resume"));
}

// A run that is killed during its saves leaves a checkpoint that can be loaded and resumed.
TEST(WrongInput, AKillDuringASaveLosesNoCheckpoint) {
  const TemporaryDirectory directory;
  directory.write("m.xgraph",
                  tiny_with("optimizer = adamw", "optimizer = adamw\n  checkpoint {\n    every = 1 steps\n  }"));
  CommandOptions options{.directory = directory.path()};
  const auto saved = [&] { return fs::exists(directory.path() + "/ckpt/quick/latest"); };
  // Kills four times, and later if the machine is so busy that nothing has been saved until then.
  for (double after = 0.8; after < 1.4 || (!saved() && after < 60); after *= 1.2) {
    options.kill_after_s = after;
    const auto killed = run_xrun({"train", "m.xgraph", "--set", "train.epochs=100000", "--progress", "none"}, options);
    EXPECT_EQ(killed.exit, 128 + 9) << killed.err;
    options.kill_after_s = -1;
    if (saved()) {
      const auto eval = run_xrun({"eval", "m.xgraph", "ckpt/quick/latest"}, options);
      EXPECT_EQ(eval.exit, 0) << eval.err;
    }
  }
  EXPECT_TRUE(saved());
}

}  // namespace
}  // namespace xrun::testing
