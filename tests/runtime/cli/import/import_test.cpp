// `xrun import`: the numbers that imported networks compute, what the command prints, and what it refuses.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "runtime/formats/tensors/safetensors.h"
#include "tests/support/command.h"
#include "tests/support/golden.h"

namespace xrun::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

// The numbers of tests/runtime/interchange/nets/values.py: multiples of 2^-24 from low to high, which depend on the
// name and the element.
std::vector<float> values_of(const std::string& name, size_t count, double low, double high) {
  uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  }
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    uint64_t z = hash + i * 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    z ^= z >> 31U;
    values[i] = static_cast<float>(low + (high - low) * (static_cast<double>(z >> 40U) / 16777216.0));
  }
  return values;
}

size_t count_of(const std::vector<int64_t>& shape) {
  size_t count = 1;
  for (const int64_t dim : shape) {
    count *= static_cast<size_t>(dim);
  }
  return count;
}

struct Tensor {
  std::vector<int64_t> shape;
  double low = -0.5;
  double high = 0.5;
};

// Writes a safetensors file. Tensor values depend on names and ranges alone.
void write_weights(const std::string& path, const std::map<std::string, Tensor>& tensors) {
  std::vector<runtime::SafeTensor> layout;
  for (const auto& [name, tensor] : tensors) {
    layout.push_back({.name = name, .dtype = "F32", .shape = tensor.shape});
  }
  runtime::lay_out(layout);
  auto writer = runtime::SafetensorsWriter::create(path, layout, {});
  ASSERT_TRUE(writer.ok()) << writer.error().message;
  for (const runtime::SafeTensor& one : layout) {
    const Tensor& tensor = tensors.at(one.name);
    const auto values = values_of(one.name, count_of(tensor.shape), tensor.low, tensor.high);
    ASSERT_TRUE(writer->write(std::as_bytes(std::span(values))).ok());
  }
  ASSERT_TRUE(writer->finish().ok());
}

// Writes numbers as an array of NumPy.
std::string npy_of(const std::string& type, const std::vector<int64_t>& shape, const void* data, size_t bytes) {
  std::string dims;
  for (const int64_t dim : shape) {
    dims += std::to_string(dim) + ", ";
  }
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type, dims);
  header.resize((header.size() + 10 + 64) / 64 * 64 - 11, ' ');
  header += '\n';
  std::string text = "\x93NUMPY";
  text += '\x01';
  text += '\0';
  text += static_cast<char>(header.size() & 0xFFU);
  text += static_cast<char>(header.size() >> 8U);
  return text + header + std::string(static_cast<const char*>(data), bytes);
}

class Import : public ::testing::Test {
 protected:
  CommandResult run(const std::vector<std::string>& words, CommandOptions options = {}) {
    options.directory = directory_.path();
    return run_xrun(words, options);
  }
  std::string path(const std::string& name) const { return directory_.path() + "/" + name; }
  void write(const std::string& name, const std::map<std::string, Tensor>& tensors) {
    fs::remove(path(name));
    write_weights(path(name), tensors);
  }
  // The numbers of an array of f32 that xrun wrote.
  std::vector<float> read_npy(const std::string& name) const {
    const std::string bytes = read_file(path(name));
    const size_t begin = 10 + static_cast<unsigned char>(bytes[8]) + 256U * static_cast<unsigned char>(bytes[9]);
    std::vector<float> values((bytes.size() - begin) / sizeof(float));
    std::memcpy(values.data(), bytes.data() + begin, values.size() * sizeof(float));
    return values;
  }

  TemporaryDirectory directory_;
};

// A network of PyTorch with its results, which tests/runtime/interchange/nets/make_goldens.py wrote.
class PublishedNets : public Import, public ::testing::WithParamInterface<const char*> {};

TEST_P(PublishedNets, ComputeTheNumbersOfPyTorch) {
  const json golden = json::parse(test::read_source_file(fmt::format("tests/golden/import/{}.json", GetParam())));
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, one] : golden.at("tensors").items()) {
    tensors[name] = {one.at(0).get<std::vector<int64_t>>(), one.at(1).get<double>(), one.at(2).get<double>()};
  }
  write("weights.safetensors", tensors);
  directory_.write("m.xgraph", golden.at("model").get<std::string>());
  const auto shape = golden.at("pictures").get<std::vector<int64_t>>();
  const auto pictures = values_of("x", count_of(shape), -1.0, 1.0);
  directory_.write("x.npy", npy_of("<f4", shape, pictures.data(), pictures.size() * sizeof(float)));
  const std::vector<int64_t> labels{0, 1};
  directory_.write("labels.npy", npy_of("<i8", {2}, labels.data(), 16));

  const auto imported =
      run({"import", "weights.safetensors", "--into", "m.xgraph", "-o", "ckpt/start", "--format", "json"});
  ASSERT_EQ(imported.exit, 0) << imported.err;
  const json report = json::parse(imported.out);
  EXPECT_TRUE(report.at("left_over").empty()) << imported.out;
  EXPECT_EQ(report.at("ignored").size() + report.at("fits").size(), tensors.size());
  const auto predicted =
      run({"predict", "ckpt/start", "--source", "test", "--embedding", "-o", "e.npy", "--progress", "none"});
  ASSERT_EQ(predicted.exit, 0) << predicted.err;
  const auto got = read_npy("e.npy");
  const auto rows = golden.at("y").get<std::vector<std::vector<double>>>();
  ASSERT_EQ(got.size(), rows.size() * rows[0].size());
  double largest = 0;
  double difference = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double wanted = rows[i / rows[0].size()][i % rows[0].size()];
    largest = std::max(largest, std::fabs(wanted));
    difference = std::max(difference, std::fabs(wanted - static_cast<double>(got[i])));
  }
  EXPECT_LE(difference, 1e-5 * largest);
}

INSTANTIATE_TEST_SUITE_P(All, PublishedNets,
                         ::testing::Values("bottlenecks", "basic_units", "iresnet", "mobilefacenet", "mbf", "vit",
                                           "timm_efficientnet", "torchvision_efficientnet"),
                         [](const auto& name) { return std::string(name.param); });

constexpr const char* kModel = R"(xgraph 1

model m {
  input x: f32[N, 6]

  feature = x -> linear(4) as first -> bn -> relu -> linear(3, bias=false) as second
  output feature
  head id = classifier(feature, 5)
}

data d {
  source train = synthetic([6], 5, 40)
  source test  = synthetic([6], 5, 20)

  x     = pixels
  label = label
}

train t {
  batch     = 10
  steps     = 4
  loss      = softmax_ce(id, label)
  optimizer = sgd(momentum=0.9)
  lr        = 0.01
}
)";

constexpr const char* kNames = R"(names 1
title "mine"
note "a note of the table"
drop module
ignore *.step
lin1.kernel -> first.weight transposed
lin1.bias   -> first.bias
norm        -> bn
a, b        -> second
fc          -> <classes>
)";

class ImportCommand : public Import {
 protected:
  ImportCommand() {
    directory_.write("m.xgraph", kModel);
    directory_.write("t.names", kNames);
    tensors_ = {{"module.lin1.kernel", {{6, 4}}},
                {"module.lin1.bias", {{4}}},
                {"module.norm.weight", {{4}}},
                {"module.norm.bias", {{4}}},
                {"module.norm.running_mean", {{4}}},
                {"module.norm.running_var", {{4}, 0.5, 1.5}},
                {"module.norm.step", {{}}},
                {"a.weight", {{1, 4}}},
                {"b.weight", {{2, 4}}},
                {"fc.weight", {{5, 3}}},
                {"extra", {{7}}}};
  }
  CommandResult import(std::vector<std::string> more = {}, const CommandOptions& options = {}) {
    write("w.safetensors", tensors_);
    std::vector<std::string> words{"import", "w.safetensors", "--into", "m.xgraph", "-o", "ckpt/start"};
    if (std::ranges::find(more, "--names") == more.end()) {
      words.insert(words.end(), {"--names", "t.names"});
    }
    words.insert(words.end(), more.begin(), more.end());
    return run(words, options);
  }
  std::map<std::string, Tensor> tensors_;
};

TEST_F(ImportCommand, ListsWhatFitsIsLeftOverAndIsMissing) {
  tensors_.erase("a.weight");
  tensors_.erase("b.weight");
  const auto result = import();
  ASSERT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("ckpt/start   step 0 of `m`, 9 tensors"));
  EXPECT_THAT(result.out, HasSubstr("w.safetensors   safetensors"));
  EXPECT_THAT(result.out, HasSubstr("  names      mine\n"));
  EXPECT_THAT(result.out, HasSubstr("  fits       7 tensors\n"));
  EXPECT_THAT(result.out, HasSubstr("  ignored    1 tensor of the file\n"));
  EXPECT_THAT(result.out, HasSubstr("  left over  1 tensor of the file: extra\n"));
  EXPECT_THAT(result.out, HasSubstr("of the model, with initial values of seed 1: second.weight, id.bias"));
  EXPECT_THAT(result.out, HasSubstr("  note       a note of the table\n"));
  const auto again = import({"--overwrite", "-v"});
  ASSERT_EQ(again.exit, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("first.weight = module.lin1.kernel"));
  EXPECT_THAT(again.out, HasSubstr("extra (no line of the name table matches it)"));
  EXPECT_TRUE(fs::exists(path("ckpt/start.1/step-000000/manifest.json"))) << "the earlier checkpoint was not kept";
}

TEST_F(ImportCommand, TheReportAsJsonHasAllNames) {
  const auto result = import({"--format", "json"});
  ASSERT_EQ(result.exit, 0) << result.err;
  const json report = json::parse(result.out);
  EXPECT_EQ(report.at("names"), "t.names");
  EXPECT_EQ(report.at("place"), "");
  EXPECT_EQ(report.at("fits").size(), 8U);
  const auto second =
      std::ranges::find_if(report.at("fits"), [](const json& one) { return one.at("tensor") == "second.weight"; });
  EXPECT_EQ(second->at("from"), json({"a.weight", "b.weight"}));
  EXPECT_EQ(report.at("left_over")[0].at("tensor"), "extra");
  EXPECT_EQ(report.at("ignored"), json({"module.norm.step"}));
  EXPECT_EQ(report.at("files")[0].at("tensors"), 11);
}

// The tensors in the checkpoint are those of the file: rows joined, and columns transposed.
TEST_F(ImportCommand, ARunStartsFromTheValuesOfTheFile) {
  ASSERT_EQ(import().exit, 0);
  const auto trained = run({"train", "m.xgraph", "--set", "train.init=checkpoint(\"ckpt/start\")", "--set",
                            "train.lr=0", "--progress", "none"});
  ASSERT_EQ(trained.exit, 0) << trained.err;
  const auto file = runtime::SafetensorsFile::open(path("ckpt/t/step-000004/trunk.safetensors"));
  ASSERT_TRUE(file.ok()) << file.error().message;
  const auto stored = [&](const std::string& name) {
    const runtime::SafeTensor* const tensor = file->header().find(name);
    EXPECT_NE(tensor, nullptr) << name;
    std::vector<float> values(static_cast<size_t>(tensor->end - tensor->begin) / sizeof(float));
    EXPECT_TRUE(file->read(*tensor, 0, std::as_writable_bytes(std::span(values))).ok());
    return values;
  };
  auto joined = values_of("a.weight", 4, -0.5, 0.5);
  const auto rest = values_of("b.weight", 8, -0.5, 0.5);
  joined.insert(joined.end(), rest.begin(), rest.end());
  EXPECT_EQ(stored("second.weight"), joined);
  const auto kernel = values_of("module.lin1.kernel", 24, -0.5, 0.5);
  const auto first = stored("first.weight");
  for (size_t out = 0; out < 4; ++out) {
    for (size_t in = 0; in < 6; ++in) {
      EXPECT_EQ(first[out * 6 + in], kernel[in * 4 + out]);
    }
  }
}

// The model is in another directory than the one in which the command is typed.
TEST_F(ImportCommand, APathInSetStartsAtTheWorkingDirectory) {
  ASSERT_EQ(import().exit, 0);
  fs::create_directories(path("models"));
  fs::create_directories(path("elsewhere"));
  fs::rename(path("m.xgraph"), path("models/m.xgraph"));
  const std::vector<std::string> start{"--set", "train.init=checkpoint(\"ckpt/start\")", "--progress", "none"};
  std::vector<std::string> words{"plan", "models/m.xgraph", "-o", "m.xplan"};
  words.insert(words.end(), start.begin(), start.end());
  const auto planned = run(words);
  ASSERT_EQ(planned.exit, 0) << planned.err;
  words = {"train", "models/m.xgraph", "--steps", "1", "-C", "out"};
  words.insert(words.end(), start.begin(), start.end());
  const auto trained = run(words);
  EXPECT_EQ(trained.exit, 0) << trained.err;
  const auto from_plan =
      run_xrun({"train", path("m.xplan"), "--steps", "1", "--progress", "none"}, {.directory = path("elsewhere")});
  EXPECT_EQ(from_plan.exit, 0) << "the plan keeps the directory of the flag\n" << from_plan.err;
}

TEST_F(ImportCommand, NoRunContinuesFromAnImportedCheckpoint) {
  write("w.safetensors", tensors_);
  ASSERT_EQ(run({"import", "w.safetensors", "--into", "m.xgraph", "-o", "ckpt/t", "--names", "t.names"}).exit, 0);
  const auto resumed = run({"train", "m.xgraph", "--progress", "none"});
  EXPECT_EQ(resumed.exit, 1);
  EXPECT_THAT(resumed.err, HasSubstr("XG0701"));
  const auto predicted = run({"predict", "ckpt/t", "--source", "test", "--rows", "0..2"});
  EXPECT_EQ(predicted.exit, 0) << predicted.err;
}

TEST_F(ImportCommand, AnotherShapeIsAnErrorUnlessItIsSkipped) {
  tensors_["fc.weight"] = {{9, 3}};
  tensors_["module.lin1.bias"] = {{6}};
  const auto result = import();
  EXPECT_EQ(result.exit, 1);
  EXPECT_THAT(result.err, HasSubstr("error[XG0942]: 2 tensors of w.safetensors do not fit m.xgraph"));
  EXPECT_THAT(result.err, HasSubstr("`fc.weight` is [9, 3], but `id.weight` of the model is [5, 3]"));
  EXPECT_THAT(result.err, HasSubstr("`module.lin1.bias` is [6], but `first.bias` of the model is [4]"));
  EXPECT_FALSE(fs::exists(path("ckpt")));
  const auto skipped = import({"--skip", "id", "first.bias"});
  EXPECT_EQ(skipped.exit, 0) << skipped.err;
  EXPECT_THAT(skipped.out, HasSubstr("  skipped    2 tensors of the file\n"));
  EXPECT_THAT(skipped.out, HasSubstr("first.bias"));
}

TEST_F(ImportCommand, NumbersThatAreNotFiniteLeaveNoCheckpoint) {
  tensors_["fc.weight"] = {{5, 3}, 0, 1e39};
  const auto result = import();
  EXPECT_EQ(result.exit, 1);
  EXPECT_THAT(result.err, HasSubstr("`fc.weight` has a number that is not finite"));
  EXPECT_FALSE(fs::exists(path("ckpt/start")));
}

TEST_F(ImportCommand, AnEarlierCheckpointKeepsItsPlaceIfOverwritingFails) {
  ASSERT_EQ(import().exit, 0);
  const std::string manifest = read_file(path("ckpt/start/step-000000/manifest.json"));
  tensors_["fc.weight"] = {{5, 3}, 0, 1e39};
  const auto result = import({"--overwrite"});
  EXPECT_EQ(result.exit, 1);
  EXPECT_THAT(result.err, HasSubstr("`fc.weight` has a number that is not finite"));
  EXPECT_EQ(read_file(path("ckpt/start/step-000000/manifest.json")), manifest);
  EXPECT_FALSE(fs::exists(path("ckpt/start.1")));
}

TEST_F(ImportCommand, WrongFilesModelsAndPlacesAreRefused) {
  const auto names = [&](const std::vector<std::string>& more, int exit, const char* message) {
    const auto result = import(more);
    EXPECT_EQ(result.exit, exit) << result.err;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_FALSE(fs::exists(path("ckpt/start")));
  };
  names({"--names", "none"}, 1, "XG0941]: `--names none` is neither a file nor a name table of xrun");
  names({"--names", "timm_vit"}, 1, "XG0941]: no name table explains the names in w.safetensors");
  names({"--skip", "ix"}, 2, "XG0942]: `--skip ix`: the model has no tensor at or below this path");
  names({"--at", "nowhere"}, 2, "XG0942]: `--at nowhere`");
  directory_.write("bad.names", "names 1\na b -> c\n");
  names({"--names", "bad.names"}, 1, "bad.names:2:3");
  directory_.write("text.pth", "no weights");
  const auto text = run({"import", "text.pth", "--into", "m.xgraph", "-o", "ckpt/start"});
  EXPECT_EQ(text.exit, 1) << text.err;
  const auto missing = run({"import", "none.pth", "--into", "m.xgraph", "-o", "ckpt/start"});
  EXPECT_EQ(missing.exit, 1);
  EXPECT_THAT(missing.err, HasSubstr("XG0401"));
  const auto model = run({"import", "w.safetensors", "--into", "none.xgraph", "-o", "ckpt/start"});
  EXPECT_EQ(model.exit, 1);
  EXPECT_THAT(model.err, HasSubstr("XG0121"));
  EXPECT_FALSE(fs::exists(path("ckpt")));
}

TEST_F(ImportCommand, FilesAtItsPlaceStay) {
  ASSERT_EQ(import().exit, 0);
  const auto again = import();
  EXPECT_EQ(again.exit, 2);
  EXPECT_THAT(again.err, HasSubstr("XG0901]: ckpt/start has a checkpoint already"));
  EXPECT_THAT(again.err, HasSubstr("--overwrite, which first moves it to ckpt/start.1"));
  directory_.write("file", "text");
  fs::create_directory(path("folder"));
  directory_.write("folder/text", "text");
  for (const char* place : {"file", "folder"}) {
    const auto result = run({"import", "w.safetensors", "--into", "m.xgraph", "--names", "t.names", "-o", place});
    EXPECT_EQ(result.exit, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr("XG0901"));
  }
  EXPECT_EQ(read_file(path("folder/text")), "text");
}

TEST_F(ImportCommand, AFullDiskLeavesNoCheckpoint) {
  const auto result = import({}, {.file_size_limit = 64});
  EXPECT_EQ(result.exit, 4) << result.err;
  EXPECT_THAT(result.err, HasSubstr("XG0711"));
  EXPECT_FALSE(fs::exists(path("ckpt/start")));
}

TEST_F(ImportCommand, ASignalLeavesNoCheckpoint) {
  std::string text = kModel;
  text.replace(text.find("linear(4)"), 0, "linear(3000) -> linear(3000) -> ");  // enough numbers to be interrupted
  directory_.write("m.xgraph", text);
  tensors_.erase("module.lin1.kernel");
  for (const int number : {SIGINT, SIGTERM}) {
    const auto stopped = import({"-v"}, {.signal = number, .signal_on = "read"});
    EXPECT_EQ(stopped.exit, 75) << stopped.err;
    EXPECT_THAT(stopped.err, HasSubstr("stopped before it was done"));
    EXPECT_FALSE(fs::exists(path("ckpt/start")));
  }
}

// The entries that a killed import leaves have the names of unfinished saves.
TEST_F(ImportCommand, AnImportFollowsOneThatWasKilled) {
  const std::string owner = ".tmp-f1980f37ef8347e68fe98f990d81fc8e.4026531836.24017.143264-0123456789abcdef";
  fs::create_directories(path("ckpt/start/step-000000" + owner));
  directory_.write("ckpt/start/latest" + owner, "step-000000\n");
  directory_.write("ckpt/start/lock", "");
  const auto again = import();
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_TRUE(fs::exists(path("ckpt/start/step-000000/manifest.json")));
}

TEST_F(ImportCommand, FilesOfRanksGiveTheirRowsOfTheHead) {
  directory_.write("ranks.names", "names 1\nlike insightface_iresnet\nfirst -> first\nsecond -> second\n");
  const std::map<std::string, Tensor> trunk{{"state_dict_backbone.first.weight", {{4, 6}}},
                                            {"state_dict_backbone.second.weight", {{3, 4}}}};
  for (int rank = 0; rank < 2; ++rank) {
    auto tensors = trunk;
    tensors["state_dict_softmax_fc.weight"] = {{3 - rank, 3}, rank - 0.5, rank + 0.5};
    write(fmt::format("checkpoint_gpu_{}.safetensors", rank), tensors);
  }
  std::vector<std::string> words{"import",
                                 "checkpoint_gpu_0.safetensors",
                                 "checkpoint_gpu_1.safetensors",
                                 "--into",
                                 "m.xgraph",
                                 "-o",
                                 "ckpt/start",
                                 "--names",
                                 "ranks.names"};
  const auto result = run(words);
  ASSERT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("  fits       3 tensors\n"));
  EXPECT_THAT(result.out, HasSubstr("  repeated   2 tensors of later files; those of the first are used\n"));
  std::swap(words[1], words[2]);
  words[6] = "ckpt/other";
  const auto swapped = run(words);
  EXPECT_EQ(swapped.exit, 1);
  EXPECT_THAT(swapped.err,
              HasSubstr("rank 0 of 2 should have 3 of the 5 rows; name the files of all ranks in their order"));
}

// All ranks have equally many rows, so only the numbers of the files give their order. A shell puts 10 before 2.
TEST_F(ImportCommand, FilesOfRanksAreNamedInTheOrderOfTheirNumbers) {
  directory_.write("ranks.names", "names 1\nfc -> <classes> by rank\n{a} -> {a}\n");
  for (const int rank : {2, 10}) {
    write(fmt::format("rank_{}.safetensors", rank), {{"fc.weight", {{2, 3}}}, {"first.weight", {{4, 6}}}});
  }
  fs::create_symlink("rank_2.safetensors", path("rank_3.safetensors"));
  std::string text = kModel;
  for (const std::string five : {"feature, 5", "[6], 5, 40", "[6], 5, 20"}) {
    text[text.find(five) + five.find('5')] = '4';
  }
  directory_.write("m.xgraph", text);
  const auto import_two = [&](const std::string& first, const std::string& second) {
    return run({"import", first, second, "--into", "m.xgraph", "-o", "ckpt/start", "--names", "ranks.names"});
  };
  const auto shell = import_two("rank_10.safetensors", "rank_2.safetensors");
  EXPECT_EQ(shell.exit, 2) << shell.err;
  EXPECT_THAT(shell.err,
              HasSubstr("error[XG0942]: rank_10.safetensors is named before rank_2.safetensors, but the rows "
                        "of `fc.weight` are joined in the order of the ranks"));
  EXPECT_THAT(shell.err, HasSubstr("name the files in the order of their numbers, such as checkpoint_gpu_{0..15}.pt"));
  const auto twice = import_two("rank_2.safetensors", "rank_3.safetensors");
  EXPECT_EQ(twice.exit, 2) << twice.err;
  EXPECT_THAT(twice.err, HasSubstr("error[XG0942]: rank_2.safetensors and rank_3.safetensors are the same file"));
  EXPECT_FALSE(fs::exists(path("ckpt")));
  const auto numbers = import_two("rank_2.safetensors", "rank_10.safetensors");
  EXPECT_EQ(numbers.exit, 0) << numbers.err;
}

// `xrun export` writes the names of the model, so its files come back without a table.
TEST_F(ImportCommand, ExportedFilesComeBack) {
  ASSERT_EQ(run({"train", "m.xgraph", "--progress", "none"}).exit, 0);
  const auto embeddings = [&](const std::string& checkpoint, const std::string& name) {
    const auto predicted =
        run({"predict", checkpoint, "--source", "test", "--embedding", "-o", name, "--progress", "none"});
    EXPECT_EQ(predicted.exit, 0) << predicted.err;
    return read_npy(name);
  };
  const auto wanted = embeddings("ckpt/t", "t.npy");
  for (const std::string file : {"m.safetensors", "m.onnx"}) {
    const auto exported = run({"export", "ckpt/t", "-o", file, "--with-head", "id"});
    if (exported.exit != 0 && file.ends_with(".onnx")) {
      GTEST_SKIP() << "no module for ONNX files here: " << exported.err;
    }
    ASSERT_EQ(exported.exit, 0) << exported.err;
    const auto result = run({"import", file, "--into", "m.xgraph", "-o", "back/" + file, "--format", "json"});
    ASSERT_EQ(result.exit, 0) << result.err;
    const json report = json::parse(result.out);
    EXPECT_EQ(report.at("names"), "xrun");
    EXPECT_TRUE(report.at("missing").empty()) << result.out;
    EXPECT_TRUE(report.at("left_over").empty()) << result.out;
    EXPECT_EQ(embeddings("back/" + file, "back.npy"), wanted) << file;
  }
}

}  // namespace
}  // namespace xrun::testing
