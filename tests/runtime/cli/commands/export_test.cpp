// `xrun export`: files that onnxruntime computes like the model, and what is refused.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/formats/tensors/safetensors.h"
#include "tests/runtime/cli/commands/onnx_python.h"
#include "tests/support/command.h"

namespace xrun::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

class Export : public ::testing::Test {
 protected:
  CommandResult run(const std::vector<std::string>& words) { return run_xrun(words, {.directory = directory_.path()}); }
  void train(const std::string& text) {
    directory_.write("m.xgraph", text);
    const auto trained = run({"train", "m.xgraph", "--progress", "none"});
    ASSERT_EQ(trained.exit, 0) << trained.err;
  }
  std::string path(const std::string& name) const { return directory_.path() + "/" + name; }

  TemporaryDirectory directory_;
};

constexpr const char* kPictures = R"(
data d {{
  source train = synthetic([4, 16, 16], 10, 80)
  x     = pixels
  label = label
}}
train t {{
  batch     = 20
  norm_rows = 10
  epochs    = 3
  loss      = {}
  optimizer = sgd
  lr        = 0.01
}}
)";

// A network of pictures x: f32[N, 4, 16, 16], from `body`, which binds `feature`, to the end of the file.
std::string picture_model(const std::string& before, const std::string& body,
                          const std::string& loss = "softmax_ce(id, label)",
                          const std::string& head = "classifier(feature, 10)") {
  return "xgraph 1\n" + before + "model m {\n  input x: f32[N, 4, 16, 16]\n" + body +
         "  output feature\n  head id = " + head + "\n}\n" + fmt::format(fmt::runtime(kPictures), loss);
}

struct Network {
  const char* name;
  const char* before;
  const char* body;
};

const Network kNetworks[] = {
    {"Convolutions", "",
     "  a = x -> conv(8, [3, 1], stride=[2, 1], pad=[1, 0], bias=true) -> bn -> prelu\n"
     "  b = a -> conv(8, 3, groups=2, dilation=2, pad=2) -> relu -> dwconv(3) -> deconv(6, 2, stride=2)\n"
     "  feature = b -> max_pool(3, stride=2) -> avg_pool(3, stride=2, pad=1) -> group_norm(3) -> global_avg_pool\n"},
    {"Parts", "",
     "  (a, b) = x -> split(2)\n"
     "  c = concat(b, a, x -> slice(1, 1, 3), axis=1) -> pad(2) -> slice(2, 1, 19)\n"
     "  feature = c -> reshape([N, 60, 36]) -> transpose(1, 2) -> flatten -> linear(7)\n"},
    {"Functions", "fn steep(v: float, w: float) = if v < w { v * 2 } else { w ^ 2 + v }\n",
     "  a = x -> flatten -> linear(12) -> gelu\n"
     "  b = x -> flatten -> linear(12) -> silu -> sigmoid\n"
     "  c = sqrt(abs(a) + 1) / (1 + exp(-b)) - tanh(a) * log(b + 2)\n"
     "  feature = where(a - 0.1, c, b) -> clamp(-1, 0.75) -> dropout(0.2) -> bn\n"},
    {"Sequences", "",
     "  s = x -> reshape([N, 16, 64]) -> linear(16) -> class_token -> position_embedding -> layer_norm\n"
     "  a = s + (s -> attention(4)) -> rms_norm\n"
     "  b = a -> attention(2, qkv_bias=false, causal=true)\n"
     "  feature = (b -> take(0)) + (a -> mean(1)) + (a -> max(1)) * (s -> sum(1, keep=true) -> flatten -> l2norm)\n"},
    {"Windows", "",
     "  s = x -> conv(16, 2, stride=2, pad=0) -> flatten(2) -> transpose(1, 2)\n"
     "  a = s -> attention(4, window=4, relative=true)\n"
     "  b = a -> attention(2, window=4, shift=2, relative=true) -> layer_norm\n"
     "  feature = b -> mean(1)\n"},
    {"Products", "",
     "  s = x -> reshape([N, 16, 64]) -> linear(8)\n"
     "  p = matmul(s, s -> transpose(1, 2)) -> softmax\n"
     "  q = einsum(p, s, \"nij,njd->nid\")\n"
     "  feature = q -> flatten -> linear(6, bias=false) -> l2norm\n"},
};

class ExportedNetworks : public Export, public ::testing::WithParamInterface<Network> {};

TEST_P(ExportedNetworks, GiveTheSameNumbersInOnnxruntime) {
  const std::string python = find_onnxruntime();
  if (python.empty()) {
    GTEST_SKIP() << "no Python here has onnxruntime: set XRUN_ONNX_PYTHON, or let `make test` install it";
  }
  train(picture_model(GetParam().before, GetParam().body));
  const auto result =
      run({"export", "ckpt/t", "-o", "m.onnx", "--with-head", "id", "--python", python, "--format", "json"});
  ASSERT_EQ(result.exit, 0) << result.err;
  const std::string check =
      "'" + python + "' -c 'import onnx; onnx.checker.check_model(\"" + path("m.onnx") + "\", full_check=True)'";
  EXPECT_EQ(std::system(check.c_str()), 0) << "the checker of the Python package rejects the file";
  const auto json = nlohmann::json::parse(result.out);
  ASSERT_EQ(json.at("compared").at("outputs").size(), 2U) << result.out;
  for (const auto& output : json.at("compared").at("outputs")) {
    EXPECT_LE(output.at("largest_difference").get<double>(), 1e-5 * std::max(1.0, output.at("scale").get<double>()))
        << result.out;
    EXPECT_EQ(output.value("equal_first_classes", 16), 16) << result.out;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ExportedNetworks, ::testing::ValuesIn(kNetworks),
                         [](const auto& network) { return std::string(network.param.name); });

TEST_F(Export, BestClassesOfACosineHeadAreFurtherOutputs) {
  train(picture_model("", "  feature = x -> conv(8, 3) -> bn -> relu -> global_avg_pool\n", "arcface(id, label)",
                      "cosine_classifier(feature, 10)"));
  const auto result = run(with_onnxruntime({"export", "ckpt/t", "-o", "m.onnx", "--with-head", "id", "--topk", "3"}));
  ASSERT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("outputs feature[N,8] id_classes[N,3] id_logits[N,3]"));
  if (!find_onnxruntime().empty()) {
    EXPECT_THAT(result.out, HasSubstr("16 of 16 first classes are equal"));
  }
  EXPECT_FALSE(fs::exists(path("m.onnx.data")));
  for (const auto& entry : fs::directory_iterator(directory_.path())) {
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("tmp")));
  }
}

TEST_F(Export, TablesOfNgramsAreSummedWithoutTheirPadding) {
  const std::string python = find_onnxruntime();
  if (python.empty()) {
    GTEST_SKIP() << "no Python here has onnxruntime: set XRUN_ONNX_PYTHON, or let `make test` install it";
  }
  std::string lines;
  for (int i = 0; i < 80; ++i) {
    lines +=
        fmt::format("{}\t{}\n", i % 10, std::string(static_cast<size_t>(1 + i % 7), static_cast<char>('a' + i % 10)));
  }
  directory_.write("train.tsv", lines);
  train(R"(xgraph 1

model m {
  input ids: index(64)[N, 12]

  feature = concat(ids -> embed_bag(64, 8) as averaged, ids -> embed_bag(64, 8, mean=false, padding=3) as summed, axis=1)
  output feature

  head id = cosine_classifier(feature, 10)
}

data d {
  source train = text("train.tsv")

  ids   = text -> ngrams(64, 12, chars=[1, 3])
  label = label -> as_index(10)
}

train t {
  batch     = 20
  norm_rows = 10
  epochs    = 3
  loss      = softmax_ce(id, label)
  optimizer = sgd
  lr        = 0.01
}
)");
  const auto result =
      run({"export", "ckpt/t", "-o", "m.onnx", "--with-head", "id", "--python", python, "--format", "json"});
  ASSERT_EQ(result.exit, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  for (const auto& output : json.at("compared").at("outputs")) {
    EXPECT_LE(output.at("largest_difference").get<double>(), 1e-5 * std::max(1.0, output.at("scale").get<double>()))
        << result.out;
  }
}

TEST_F(Export, AModelInMixedPrecisionIsExportedInF32) {
  train(picture_model("", "  feature = x -> conv(8, 3) -> bn -> relu -> global_avg_pool\n",
                      "softmax_ce(id, label)\n"
                      "  precision = mixed(bf16)"));
  const auto result = run({"export", "ckpt/t", "-o", "m.onnx"});
  ASSERT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("head `id` is left out; with it, the file has 360 B more: --with-head id"));
}

// A Python without onnxruntime that is named on the command line is an error before the work, and without the flag a
// note.
TEST_F(Export, ANamedPythonMustHaveOnnxruntime) {
  train(picture_model("", "  feature = x -> conv(8, 3) -> relu -> global_avg_pool\n"));
  directory_.write("bare", "#!/bin/sh\nexit 1\n");
  fs::permissions(path("bare"), fs::perms::owner_all);
  for (const auto& [python, message] :
       {std::pair<std::string, std::string>{"no-such-python", "`--python no-such-python` cannot be started"},
        {"./bare", "`--python ./bare` has no onnxruntime or no NumPy"}}) {
    const auto refused = run({"export", "ckpt/t", "-o", "m.onnx", "--python", python});
    EXPECT_EQ(refused.exit, 2) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr(message));
    EXPECT_FALSE(fs::exists(path("m.onnx")));
  }
  fs::rename(path("bare"), path("python3"));
  const auto result =
      run_xrun({"export", "ckpt/t", "-o", "m.onnx"},
               {.directory = directory_.path(), .environment = {{"PATH", directory_.path() + ":/usr/bin:/bin"}}});
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("not run in onnxruntime"));
  const auto weights = run({"export", "ckpt/t", "-o", "m.safetensors", "--python", "python3"});
  EXPECT_EQ(weights.exit, 2);
  EXPECT_THAT(weights.err, HasSubstr("but m.safetensors holds only weights"));
}

// An onnxruntime of a few lines, which a real Python imports.
class FakeOnnxruntime : public Export {
 protected:
  // `load`: the statement of Python that loads a file.
  CommandResult run_with(const std::string& load) {
    directory_.write("fake/numpy.py", R"(
class Array:
    def reshape(self, shape):
        return self
    def tofile(self, path):
        open(path, "wb").close()
def fromfile(path, dtype):
    return Array()
def ascontiguousarray(array):
    return array
)");
    directory_.write("fake/onnxruntime.py", R"(
import numpy, os
__version__ = "1.13.1"
class InferenceSession:
    def __init__(self, model, providers):
        )" + load + R"(
    def run(self, outputs, feed):
        return [numpy.Array()]
)");
    fs::remove(path("m.onnx"));
    return run_xrun({"export", "ckpt/t", "-o", "m.onnx"},
                    {.directory = directory_.path(),
                     .environment = {{"PYTHONPATH", path("fake")}, {"PYTHONDONTWRITEBYTECODE", "1"}}});
  }
};

TEST_F(FakeOnnxruntime, FilesThatItCannotRunAreWritten) {
  if (!fs::exists("/usr/bin/python3")) {
    GTEST_SKIP() << "no /usr/bin/python3 here";
  }
  train(picture_model("", "  feature = x -> conv(8, 3) -> relu -> global_avg_pool\n"));
  const std::string old = "not run in onnxruntime: onnxruntime 1.13.1 is too old for this file\n";
  for (const auto& [load, text] : std::vector<std::pair<std::string, std::string>>{
           {"raise RuntimeError('Unsupported model IR version: 9, max supported IR version: 8')", old},
           {"raise RuntimeError('Opset 18 is under development and support for this is limited')", old},
           {"raise RuntimeError('[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : Resize(18)')", old},
           {"os.kill(os.getpid(), 9)",
            "not run in onnxruntime: `python3` was ended by a signal, perhaps for lack of memory\n"}}) {
    const auto result = run_with(load);
    EXPECT_EQ(result.exit, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr(text));
    EXPECT_TRUE(fs::exists(path("m.onnx")));
  }
}

TEST_F(FakeOnnxruntime, FilesThatItRejectsOrComputesOtherwiseAreNotWritten) {
  if (!fs::exists("/usr/bin/python3")) {
    GTEST_SKIP() << "no /usr/bin/python3 here";
  }
  train(picture_model("", "  feature = x -> conv(8, 3) -> relu -> global_avg_pool\n"));
  const auto rejected = run_with("raise RuntimeError('a bad node')");
  EXPECT_EQ(rejected.exit, 1);
  EXPECT_THAT(rejected.err, HasSubstr("error[XG0932]: onnxruntime rejects the model: RuntimeError: a bad node\n"
                                      "help: no file was written; please report this with the model"));
  EXPECT_FALSE(fs::exists(path("m.onnx")));
  const auto other = run_with("pass");
  EXPECT_EQ(other.exit, 1);
  EXPECT_THAT(other.err,
              HasSubstr("error[XG0932]: `feature`: the results of onnxruntime and xrun differ by up to inf, and "));
  EXPECT_THAT(other.err, HasSubstr(" is accepted; the largest value is "));
  EXPECT_THAT(other.err, HasSubstr("help: no file was written; please report this with the model"));
  EXPECT_FALSE(fs::exists(path("m.onnx")));
}

// The Python that compares the file sends the signal, and does not end on its own.
TEST_F(Export, ASignalEndsItWithoutAFile) {
  train(picture_model("", "  feature = x -> conv(8, 3) -> relu -> global_avg_pool\n"));
  for (const std::string signal : {"INT", "TERM"}) {
    directory_.write(
        "python", "#!/bin/sh\ncase \"$2\" in *InferenceSession*) kill -" + signal + " $PPID; exec sleep 600 ;; esac\n");
    fs::permissions(path("python"), fs::perms::owner_all);
    const auto stopped = run({"export", "ckpt/t", "-o", "m.onnx", "--python", "./python"});
    EXPECT_EQ(stopped.exit, 75) << stopped.err;
    EXPECT_THAT(stopped.err, HasSubstr("stopped before it was done"));
    for (const auto& entry : fs::directory_iterator(directory_.path())) {
      EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("m.onnx")));
    }
  }
}

TEST_F(Export, InputsOfTwoBytesAreExportedInF32) {
  const std::string python = find_onnxruntime();
  for (const std::string type : {"bf16", "f16"}) {
    std::string text = picture_model("", "  feature = x -> conv(8, 3) -> relu -> global_avg_pool\n",
                                     "softmax_ce(id, label)\n  precision = mixed(" + type + ")");
    text.replace(text.find("f32[N, 4"), 3, type);
    train(text);
    const auto result = run(with_onnxruntime({"export", "ckpt/t", "-o", "m.onnx"}));
    EXPECT_EQ(result.exit, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr(python.empty() ? "not run in onnxruntime" : "compared on 16 random inputs"));
    const auto named = run({"export", "m.xgraph", "ckpt/t", "-o", "m.safetensors"});
    EXPECT_EQ(named.exit, 0) << "the file has the model of the checkpoint\n" << named.err;
    fs::remove_all(path("ckpt"));
  }
}

// Class rows in fp8 become f32, which every runtime reads, or stay in fp8, which takes a quarter of the bytes.
TEST_F(Export, ClassRowsInFp8AreExportedInF32OrInFp8) {
  const std::string python = find_onnxruntime();
  if (python.empty()) {
    GTEST_SKIP() << "no Python here has onnxruntime: set XRUN_ONNX_PYTHON, or let `make test` install it";
  }
  const std::string groups = "\n  groups {\n    id {\n      weights = fp8\n    }\n  }";
  for (const char* head : {"cosine_classifier(feature, 10)", "classifier(feature, 10)"}) {
    train(picture_model("", "  feature = x -> conv(64, 3, stride=2) -> bn -> relu -> global_avg_pool\n",
                        "softmax_ce(id, label)" + groups, head));
    std::map<bool, uintmax_t> bytes;
    for (const bool fp8 : {false, true}) {
      std::vector<std::string> words{"export", "ckpt/t", "-o", "m.onnx", "--with-head", "id", "--python", python};
      words.insert(words.end(), {"--format", "json"});
      if (fp8) {
        words.emplace_back("--fp8-rows");
      }
      const auto result = run(words);
      ASSERT_EQ(result.exit, 0) << result.err;
      const auto json = nlohmann::json::parse(result.out);
      EXPECT_EQ(json.at("opset"), fp8 ? 19 : 17);
      EXPECT_EQ(json.at("ir"), fp8 ? 9 : 8);
      for (const auto& output : json.at("compared").at("outputs")) {
        EXPECT_LE(output.at("largest_difference").get<double>(), 1e-5 * std::max(1.0, output.at("scale").get<double>()))
            << result.out;
        EXPECT_EQ(output.value("equal_first_classes", 16), 16) << result.out;
      }
      const std::string check = "'" + python + "' -c 'import onnx; m = onnx.load(\"" + path("m.onnx") +
                                "\"); onnx.checker.check_model(m, full_check=True); "
                                "assert (17 in [t.data_type for t in m.graph.initializer]) == " +
                                (fp8 ? "True'" : "False'");
      EXPECT_EQ(std::system(check.c_str()), 0) << "the checker of the Python package rejects the file";
      bytes[fp8] = fs::file_size(path("m.onnx"));
    }
    EXPECT_LT(bytes[true], bytes[false]) << head;
    fs::remove_all(path("ckpt"));
  }
}

TEST_F(Export, WeightsAreWrittenUnderTheirPathsAndReadBack) {
  train(picture_model("", "  feature = x -> conv(8, 3) as stem -> bn -> relu -> global_avg_pool\n"));
  const auto alone = run({"export", "ckpt/t", "-o", "m.safetensors"});
  ASSERT_EQ(alone.exit, 0) << alone.err;
  EXPECT_THAT(alone.out, HasSubstr("m.safetensors   5 tensors, f32"));
  EXPECT_THAT(alone.out, HasSubstr("head `id` is left out; with it, the file has 360 B more: --with-head id"));
  const auto result = run({"export", "ckpt/t", "-o", "m.safetensors", "--with-head", "id", "--format", "json"});
  ASSERT_EQ(result.exit, 0) << result.err << "a file that xrun exported is replaced";
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json.at("bytes").get<uintmax_t>(), fs::file_size(path("m.safetensors")));
  const auto file = runtime::SafetensorsFile::open(path("m.safetensors"));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->header().metadata.at("format"), "pt");
  EXPECT_EQ(file->header().metadata.at("xrun.checkpoint_step"), "12");
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const runtime::SafeTensor& tensor : file->header().tensors) {
    EXPECT_EQ(tensor.dtype, "F32");
    shapes[tensor.name] = tensor.shape;
  }
  EXPECT_THAT(shapes, ::testing::UnorderedElementsAre(
                          Pair("stem.weight", ElementsAre(8, 4, 3, 3)), Pair("bn.weight", ElementsAre(8)),
                          Pair("bn.bias", ElementsAre(8)), Pair("bn.running_mean", ElementsAre(8)),
                          Pair("bn.running_var", ElementsAre(8)), Pair("id.weight", ElementsAre(10, 8)),
                          Pair("id.bias", ElementsAre(10))));
  // The values are those of the checkpoint.
  const auto stored = runtime::SafetensorsFile::open(path("ckpt/t/step-000012/trunk.safetensors"));
  ASSERT_TRUE(stored.ok());
  for (const runtime::SafeTensor& tensor : stored->header().tensors) {
    std::vector<std::byte> ours(static_cast<size_t>(tensor.end - tensor.begin)), theirs(ours.size());
    ASSERT_TRUE(stored->read(tensor, 0, theirs).ok());
    ASSERT_TRUE(file->read(*file->header().find(tensor.name), 0, ours).ok());
    EXPECT_EQ(ours, theirs) << tensor.name;
  }
  const auto full = run_xrun({"export", "ckpt/t", "-o", "full.safetensors"},
                             {.directory = directory_.path(), .file_size_limit = 512});
  EXPECT_EQ(full.exit, 4) << full.err;
  for (const auto& entry : fs::directory_iterator(directory_.path())) {
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("full")));
  }
}

TEST_F(Export, WeightsThatOnlyTheLossReadsAreNamedAsLeftOut) {
  train(picture_model("",
                      "  pooled = x -> conv(8, 3) as stem -> relu -> global_avg_pool\n"
                      "  early = pooled -> linear(10) as side\n"
                      "  feature = pooled -> linear(6) as last\n",
                      "softmax_ce(id, label) + 0.5 * softmax_ce(early, label)"));
  const auto text = run({"export", "ckpt/t", "-o", "m.safetensors"});
  ASSERT_EQ(text.exit, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("  2 tensors that only training uses are left out: side."));
  const auto result = run({"export", "ckpt/t", "-o", "m.safetensors", "--with-head", "id", "--format", "json"});
  ASSERT_EQ(result.exit, 0) << result.err;
  const auto names = nlohmann::json::parse(result.out).at("only_in_training").get<std::vector<std::string>>();
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("side.weight", "side.bias"));
}

TEST_F(Export, APlanFileIsRefusedByName) {
  train(picture_model("", "  feature = x -> global_avg_pool -> linear(4)\n"));
  ASSERT_EQ(run({"plan", "m.xgraph", "-o", "m.xplan"}).exit, 0);
  const auto result = run({"export", "m.xplan", "ckpt/t", "-o", "m.onnx"});
  EXPECT_EQ(result.exit, 2);
  EXPECT_THAT(result.err, HasSubstr("error[XG0620]: `m.xplan` is a plan, which fixes the precision, but an export "
                                    "computes in f32\nhelp: give the model file instead, or only the checkpoint, which "
                                    "holds its model: xrun export ckpt/t -o m.onnx"));
  EXPECT_FALSE(fs::exists(path("m.onnx")));
}

TEST_F(Export, WrongNamesAreRefusedBeforeAnythingIsWritten) {
  train(picture_model("", "  feature = x -> global_avg_pool -> linear(4)\n"));
  directory_.write("foreign.onnx", "another program wrote this");
  directory_.write("foreign.safetensors", "another program wrote this");
  struct Case {
    std::vector<std::string> words;
    int exit;
    const char* text;
  };
  for (const Case& c : std::vector<Case>{
           {{"-o", "m.pb"}, 2, "error[XG0905]: `-o m.pb` ends neither in .onnx nor in .safetensors"},
           {{"-o", "m.onnx", "--topk", "2"}, 2, "error[XG0905]: `--topk` selects the classes of a head"},
           {{"-o", "m.onnx", "--with-head", "di"},
            1,
            "error[XG0930]: the model has no head `di`\nhelp: the nearest is `id`"},
           {{"-o", "m.onnx", "--only", "features"},
            1,
            "error[XG0930]: the model has no output `features`\nhelp: the nearest is `feature`"},
           {{"-o", "m.onnx", "--with-head", "id", "--topk", "11"}, 1, "error[XG0930]: --topk 11 is more than the 10"},
           {{"-o", "m.onnx", "--with-head", "id", "--fp8-rows"},
            2,
            "error[XG0905]: `--fp8-rows` keeps class rows in fp8, but no exported head has such rows"},
           {{"-o", "m.safetensors", "--only", "feature"},
            2,
            "error[XG0905]: `--only` selects what an ONNX file computes"},
           {{"-o", "m.safetensors", "--with-head", "di"},
            1,
            "error[XG0930]: the model has no head `di`\nhelp: the nearest is `id`"},
           {{"-o", "foreign.safetensors"},
            2,
            "error[XG0901]: `foreign.safetensors` exists and is not a file of weights that xrun exported"},
           {{"-o", "foreign.onnx"}, 2, "error[XG0901]: `foreign.onnx` exists and is not a model of xrun in ONNX"},
           {{"-o", "nowhere/m.onnx"},
            4,
            "error[XG0901]: cannot write `nowhere/m.onnx`: there is no directory `nowhere`"},
           {{"-o", "nowhere/m.safetensors"}, 4, "there is no directory `nowhere`"}}) {
    std::vector<std::string> words{"export", "ckpt/t"};
    words.insert(words.end(), c.words.begin(), c.words.end());
    const auto result = run(words);
    EXPECT_EQ(result.exit, c.exit) << result.err;
    EXPECT_THAT(result.err, HasSubstr(c.text));
    EXPECT_FALSE(fs::exists(path("m.onnx")));
  }
  EXPECT_EQ(read_file(path("foreign.onnx")), "another program wrote this");
}

}  // namespace
}  // namespace xrun::testing
