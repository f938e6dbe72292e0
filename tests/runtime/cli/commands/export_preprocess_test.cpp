// `xrun export --preprocess`: exported files compute the results of `xrun predict`; other stages are rejected.
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/runtime/cli/commands/onnx_python.h"
#include "tests/support/command.h"

namespace xrun::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr const char* kNoOnnxruntime =
    "no Python here has onnxruntime: set XRUN_ONNX_PYTHON, or let `make test` install it";

class Preprocess : public ::testing::Test {
 protected:
  CommandResult run(const std::vector<std::string>& words) { return run_xrun(words, {.directory = directory_.path()}); }

  void train(const std::string& text) {
    directory_.write("m.xgraph", text);
    const auto trained = run({"train", "m.xgraph", "--progress", "none"});
    ASSERT_EQ(trained.exit, 0) << trained.err;
  }

  // A picture of random pixels, whose neighbours differ as much as they can.
  std::string write_picture(const std::string& name, int height, int width, uint32_t seed) {
    std::string text = fmt::format("P6 {} {} 255\n", width, height);
    std::mt19937 random(seed);
    for (int i = 0; i < height * width * 3; ++i) {
      text += static_cast<char>(random() % 256);
    }
    fs::create_directories(fs::path(directory_.path() + "/" + name).parent_path());
    directory_.write(name, text);
    return name;
  }

  // Runs a program of Python in the directory, and returns its last line as JSON.
  Json python(const std::string& python, const std::string& program) {
    directory_.write("program.py", program);
    const std::string words = fmt::format("cd '{}' && '{}' program.py >out.txt 2>err.txt", directory_.path(), python);
    EXPECT_EQ(std::system(words.c_str()), 0) << read_file(directory_.path() + "/err.txt");
    return Json::parse(read_file(directory_.path() + "/out.txt"), nullptr, false);
  }

  TemporaryDirectory directory_;
};

constexpr const char* kTraining = R"(
train t {
  batch     = 4
  norm_rows = 4
  steps     = 2
  loss      = softmax_ce(id, label)
  optimizer = sgd
  lr        = 0.01
}
)";

std::string picture_model(int channels, const std::string& stages) {
  return fmt::format(R"(xgraph 1

model m {{
  input image: f32[N, {}, 24, 24]

  feature = image -> conv(8, 3, stride=2) -> bn -> relu -> flatten -> linear(16)
  output feature

  head id = classifier(feature, 2)
}}

data d {{
  source train = folder("pictures")

  image = file -> {}
  label = label -> as_index(2)
}}
)",
                     channels, stages) +
         kTraining;
}

struct Chain {
  const char* name;
  int channels;
  const char* stages;
};

const Chain kChains[] = {
    {"Decoded", 3,
     "decode(24) -> random_flip -> normalize(mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375])"},
    {"ShorterSide", 3, "decode -> resize(shorter=31) -> center_crop(24) -> scale(1 / 255) -> random_erasing(0.25)"},
    {"BicubicBytes", 1,
     "decode(channels=1) -> resize([30, 26], filter=\"bicubic\") -> center_crop(24) -> scale(1 / 64)"},
    {"BicubicFloats", 3,
     "decode -> scale(1 / 255) -> resize([24, 24], filter=\"bicubic\") -> normalize(mean=0.5, std=0.25)"},
    {"BicubicAfterTraining", 3,
     "decode -> color_jitter(brightness=0.2) -> resize([30, 26], filter=\"bicubic\") -> center_crop(24) -> scale(1 / "
     "64)"},
    {"NoAntialias", 3, "decode -> center_crop(33) -> resize(24, antialias=false) -> scale(1 / 255)"},
    {"LargestSquare", 3, "decode -> random_resized_crop(24) -> rand_augment -> scale(1 / 255)"},
    {"Padded", 3, "decode -> random_crop(71, pad=20) -> resize(24) -> scale(1 / 255)"},
};

class Pictures : public Preprocess, public ::testing::WithParamInterface<Chain> {};

// Pictures of several sizes, which are larger and smaller than what the stages ask for.
TEST_P(Pictures, GiveTheNumbersOfPredictInEverySize) {
  const std::string onnxruntime = find_onnxruntime();
  if (onnxruntime.empty()) {
    GTEST_SKIP() << kNoOnnxruntime;
  }
  const std::pair<int, int> sizes[] = {{61, 47}, {46, 61}, {90, 121}, {64, 64}, {40, 40}, {35, 71}};
  std::vector<std::string> predict{"predict", "ckpt/t"};
  uint32_t seed = 1;
  for (const auto& [height, width] : sizes) {
    predict.push_back(write_picture(fmt::format("pictures/{}/{}.ppm", seed % 2, seed), height, width, seed));
    ++seed;
  }
  train(picture_model(GetParam().channels, GetParam().stages));
  const auto exported =
      run({"export", "ckpt/t", "-o", "m.onnx", "--preprocess", "--python", onnxruntime, "--format", "json"});
  ASSERT_EQ(exported.exit, 0) << exported.err;
  const Json json = Json::parse(exported.out);
  EXPECT_EQ(json.at("opset"), 18);
  EXPECT_EQ(json.at("inputs").at(0).at("shape"), (std::vector<int64_t>{-1, -1, -1, GetParam().channels}));
  const Json& compared = json.at("compared").at("outputs").at(0);
  EXPECT_LE(compared.at("largest_difference").get<double>(), 2e-5 * std::max(1.0, compared.at("scale").get<double>()))
      << exported.out;
  predict.insert(predict.end(), {"--embedding", "-o", "ours.npy"});
  const auto predicted = run(predict);
  ASSERT_EQ(predicted.exit, 0) << predicted.err;
  const Json result = python(onnxruntime, R"(
import glob, json, re
import numpy as np, onnx, onnxruntime
onnx.checker.check_model("m.onnx", full_check=True)
session = onnxruntime.InferenceSession("m.onnx", providers=["CPUExecutionProvider"])
channels = session.get_inputs()[0].shape[3]
ours, theirs = np.load("ours.npy"), []
for i in range(len(ours)):
    text = open(glob.glob(f"pictures/*/{i + 1}.ppm")[0], "rb").read()
    width, height = map(int, re.match(rb"P6 (\d+) (\d+) 255\n", text).groups())
    picture = np.frombuffer(text[-height * width * 3:], np.uint8).reshape(1, height, width, 3)
    if channels == 1:  # grey as Pillow weighs it
        weights = np.array([19595, 38470, 7471])
        picture = ((picture.astype(np.int64) @ weights + 0x8000) >> 16).astype(np.uint8)[..., None]
    theirs.append(session.run(None, {"image": picture})[0][0])
theirs = np.array(theirs)
print(json.dumps({"rows": len(theirs), "scale": float(np.abs(ours).max()),
                  "difference": float(np.abs(ours - theirs).max())}))
)");
  ASSERT_TRUE(result.is_object());
  EXPECT_EQ(result.at("rows"), std::size(sizes));
  EXPECT_LE(result.at("difference").get<double>(), 5e-5 * std::max(1.0, result.at("scale").get<double>()))
      << result.dump();
}

INSTANTIATE_TEST_SUITE_P(All, Pictures, ::testing::ValuesIn(kChains),
                         [](const auto& chain) { return std::string(chain.param.name); });

// A stage that only training has makes f32 of bytes, also in an evaluation, and a bicubic `resize` of f32 cuts off no
// overshoot: its two passes are one node without `Clip`.
TEST_F(Preprocess, ABicubicResizeAfterAStageThatOnlyTrainsKeepsItsOvershoot) {
  for (int i = 0; i < 4; ++i) {
    write_picture(fmt::format("pictures/{}/{}.ppm", i % 2, i), 50, 60, 1);
  }
  std::vector<int> nodes;
  for (const std::string before : {"", "random_flip -> ", "color_jitter(brightness=0.2) -> ", "rand_augment -> "}) {
    train(picture_model(3, "decode -> " + before + "resize([24, 24], filter=\"bicubic\") -> scale(1 / 255)"));
    const auto exported =
        run(with_onnxruntime({"export", "ckpt/t", "-o", "m.onnx", "--preprocess", "--format", "json"}));
    ASSERT_EQ(exported.exit, 0) << exported.err;
    nodes.push_back(Json::parse(exported.out).at("nodes").get<int>());
    fs::remove_all(directory_.path() + "/ckpt");
  }
  EXPECT_EQ(nodes[1], nodes[0]);
  EXPECT_LT(nodes[2], nodes[0]);
  EXPECT_EQ(nodes[3], nodes[2]);
}

TEST_F(Preprocess, APictureThatIsTooSmallForACropFailsInTheRuntime) {
  const std::string onnxruntime = find_onnxruntime();
  if (onnxruntime.empty()) {
    GTEST_SKIP() << kNoOnnxruntime;
  }
  for (int i = 0; i < 4; ++i) {
    write_picture(fmt::format("pictures/{}/{}.ppm", i % 2, i), 50, 60, 1);
  }
  train(picture_model(3, "decode -> center_crop(40) -> resize(24) -> scale(1 / 255)"));
  const auto exported = run({"export", "ckpt/t", "-o", "m.onnx", "--preprocess", "--python", onnxruntime});
  ASSERT_EQ(exported.exit, 0) << exported.err;
  EXPECT_THAT(exported.out, HasSubstr("opset 18, IR 8"));
  EXPECT_THAT(exported.out, HasSubstr("input image[N,H,W,3], output feature[N,16]"));
  EXPECT_THAT(exported.out, HasSubstr("  image takes u8 pictures as decoded: center_crop -> resize -> scale\n"));
  const Json result = python(onnxruntime, R"(
import json
import numpy as np, onnxruntime
session = onnxruntime.InferenceSession("m.onnx", providers=["CPUExecutionProvider"])
rows = len(session.run(None, {"image": np.zeros((3, 40, 41, 3), np.uint8)})[0])
try:
    session.run(None, {"image": np.zeros((1, 41, 39, 3), np.uint8)})
    print(json.dumps({"rows": rows, "refused": False}))
except Exception:
    print(json.dumps({"rows": rows, "refused": True}))
)");
  EXPECT_EQ(result.dump(), R"({"refused":true,"rows":3})");
}

// After `resize(shorter=24)`, only square pictures have the sides of the input. The file must refuse all others, and
// not read the pixels of 24 x 32 as those of 32 x 24.
TEST_F(Preprocess, APictureWithOtherSidesFailsInTheRuntime) {
  const std::string onnxruntime = find_onnxruntime();
  if (onnxruntime.empty()) {
    GTEST_SKIP() << kNoOnnxruntime;
  }
  for (int i = 0; i < 4; ++i) {
    write_picture(fmt::format("pictures/{}/{}.ppm", i % 2, i), 50, 50, 1);
  }
  train(picture_model(3, "decode -> resize(shorter=24) -> scale(1 / 255)"));
  const auto exported = run({"export", "ckpt/t", "-o", "m.onnx", "--preprocess", "--python", onnxruntime});
  ASSERT_EQ(exported.exit, 0) << exported.err;
  const Json result = python(onnxruntime, R"(
import json
import numpy as np, onnxruntime
session = onnxruntime.InferenceSession("m.onnx", providers=["CPUExecutionProvider"])
def runs(height, width):
    try:
        return len(session.run(None, {"image": np.zeros((1, height, width, 3), np.uint8)})[0])
    except Exception:
        return 0
print(json.dumps([runs(50, 50), runs(24, 24), runs(30, 40), runs(40, 30), session.get_inputs()[0].shape]))
)");
  EXPECT_EQ(result.dump(), R"([1,1,0,0,["N","image_height","image_width",3]])");
}

std::string table_model(const std::string& stages, int columns = 5) {
  return fmt::format(R"(xgraph 1

model m {{
  input x: f32[N, {}]

  feature = x -> linear(16) -> relu -> linear(8)
  output feature

  head id = classifier(feature, 2)
}}

data d {{
  source train = csv("t.csv")

  x     = {}
  label = column(5) -> as_index(2)
}}
)",
                     columns, stages) +
         kTraining;
}

TEST_F(Preprocess, ColumnsAreStandardizedInTheFile) {
  std::string rows;
  std::mt19937 random(1);
  for (int i = 0; i < 40; ++i) {
    rows += fmt::format("{},{},{},{},{},{}\n", 1'700'000'000 + random() % 1000, random() % 7,
                        i % 5 == 0 ? std::string() : std::to_string(random() % 100),
                        -0.001 * static_cast<double>(random() % 50), 3, i % 2);
  }
  directory_.write("t.csv", rows);
  train(table_model("columns(0..5) -> standardize -> fill_missing(0) -> scale(0.5)"));
  const std::string onnxruntime = find_onnxruntime();
  const auto exported = run(
      with_onnxruntime({"export", "ckpt/t", "-o", "m.onnx", "--preprocess", "--with-head", "id", "--format", "json"}));
  ASSERT_EQ(exported.exit, 0) << exported.err;
  const Json json = Json::parse(exported.out);
  EXPECT_EQ(json.at("inputs").at(0).at("name"), "x");
  EXPECT_EQ(json.at("inputs").at(0).at("shape"), (std::vector<int64_t>{-1, 5}));
  if (onnxruntime.empty()) {
    GTEST_SKIP() << kNoOnnxruntime;
  }
  for (const Json& output : json.at("compared").at("outputs")) {
    EXPECT_LE(output.at("largest_difference").get<double>(), 1e-5 * std::max(1.0, output.at("scale").get<double>()))
        << exported.out;
  }
  EXPECT_EQ(json.at("compared").at("outputs").at(1).at("equal_first_classes"), 16);
  const Json result = python(onnxruntime, R"(
import json
import onnx, onnxruntime
onnx.checker.check_model("m.onnx", full_check=True)
print(json.dumps(onnxruntime.InferenceSession("m.onnx").get_inputs()[0].type))
)");
  EXPECT_EQ(result, "tensor(double)") << "seconds since 1970 do not fit f32";
}

TEST_F(Preprocess, StagesWithoutAnExactFormAreRefusedByName) {
  std::string lines;
  for (int i = 0; i < 8; ++i) {
    lines += fmt::format("{}\tword{}\n", i % 2, i);
  }
  directory_.write("t.tsv", lines);
  train(R"(xgraph 1

model m {
  input ids: index(64)[N, 12]

  feature = ids -> embed_bag(64, 8)
  output feature

  head id = classifier(feature, 2)
}

data d {
  source train = text("t.tsv")

  ids   = text -> ngrams(64, 12, chars=[1, 3])
  label = label -> as_index(2)
}
)" + std::string(kTraining));
  const auto refused = run({"export", "ckpt/t", "-o", "m.onnx", "--preprocess"});
  EXPECT_EQ(refused.exit, 1);
  EXPECT_THAT(refused.err, HasSubstr("error[XG0930]: the stage `ngrams` of `ids` cannot be exported: it hashes the "
                                     "bytes of texts, and no operator of ONNX can do this"));
  EXPECT_THAT(refused.err, HasSubstr("help: export without --preprocess, and give the network what the stages make of "
                                     "`ids`"));
  EXPECT_FALSE(fs::exists(directory_.path() + "/m.onnx"));
  const auto weights = run({"export", "ckpt/t", "-o", "m.safetensors", "--preprocess"});
  EXPECT_EQ(weights.exit, 2);
  EXPECT_THAT(weights.err, HasSubstr("error[XG0905]: `--preprocess` selects what an ONNX file computes"));
}

}  // namespace
}  // namespace xrun::testing
