// Texts as users of Python, PyTorch, Keras, YAML or C write them at first. Each text gets one error, and its edits lead
// to the intended text.
#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/op.h"
#include "tests/lang/checked.h"

namespace xrun::lang {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kText = R"(
model m {
  input image: f32[N, 3, 16, 16]

  x       = image -> conv(8, 3) -> relu -> flatten
  feature = x -> linear(8)
  output feature

  head id = cosine_classifier(feature, 10)
}

data d {
  source train = folder("pictures")

  image = file -> decode(16) -> random_flip
  label = label -> as_index(10)
}

train t {
  batch     = 32
  epochs    = 2
  loss      = softmax_ce(id, label, scale=16)
  optimizer = sgd(momentum=0.9)
  lr        = 0.1
}
)";

Checked check(const std::string& text) { return Checked(text, {.ops = &ops::registry()}); }

std::string edited(std::string text, std::vector<Edit> edits) {
  std::ranges::sort(edits, [](const Edit& a, const Edit& b) { return a.span.begin > b.span.begin; });
  const auto before = static_cast<uint32_t>(std::string_view("xgraph 1\n").size());
  for (const Edit& edit : edits) {
    text.replace(edit.span.begin - before, edit.span.end - edit.span.begin, edit.text);
  }
  return text;
}

// Applies the edits of the first error, and repeats this until no error has edits.
std::string mended(std::string text) {
  for (int round = 0; round < 10; ++round) {
    const Checked checked = check(text);
    const auto& all = checked.diagnostics.all();
    const auto wrong = std::ranges::find_if(all, [](const Diagnostic& d) {
      return d.severity == Severity::kError && !d.fixes.empty() && !d.fixes[0].edits.empty();
    });
    if (wrong == all.end()) {
      return text;
    }
    text = edited(text, wrong->fixes[0].edits);
  }
  return text;
}

struct Slip {
  const char* from;   // the part of kText that is replaced
  const char* wrong;  // the mistake that replaces it
  const char* right;  // the part after the edits
};

// Each slip is one error, unless `wrong` has several wrong characters.
const std::vector<Slip> kSlips{
    // Arrows.
    {"image -> conv(8, 3)", "image | conv(8, 3)", "image -> conv(8, 3)"},
    {"image -> conv(8, 3)", "image |> conv(8, 3)", "image -> conv(8, 3)"},
    {"image -> conv(8, 3)", "image >> conv(8, 3)", "image -> conv(8, 3)"},
    {"image -> conv(8, 3)", "image => conv(8, 3)", "image -> conv(8, 3)"},
    {"image -> conv(8, 3)", "image --> conv(8, 3)", "image -> conv(8, 3)"},
    {"image -> conv(8, 3)", "image \u21D2 conv(8, 3)", "image -> conv(8, 3)"},
    {"image -> conv(8, 3) -> relu -> flatten", "image.conv(8, 3).relu().flatten()",
     "image -> conv(8, 3) -> relu -> flatten"},
    // Loops and choices.
    {"x -> linear(8)", "x -> for i in 0..3 { linear(8) -> relu }", "x -> repeat 3 as i { linear(8) -> relu }"},
    {"x -> linear(8)", "x -> for _ in range(3) { linear(8) -> relu }", "x -> repeat 3 { linear(8) -> relu }"},
    {"x -> linear(8)", "x -> loop 3 { linear(8) -> relu }", "x -> repeat 3 { linear(8) -> relu }"},
    {"linear(8)", "linear(8 if true else 4)", "linear(if true { 8 } else { 4 })"},
    {"linear(8)", "linear(true ? 8 : 4)", "linear(if true { 8 } else { 4 })"},
    {"linear(8)", "linear(if true then 8 else 4)", "linear(if true { 8 } else { 4 })"},
    {"lr        = 0.1", "lr        = 0.1 if 1 == 1 else 0.2", "lr        = if 1 == 1 { 0.1 } else { 0.2 }"},
    // Quotes.
    {"folder(\"pictures\")", "folder(\"pictures)", "folder(\"pictures\")"},
    {"folder(\"pictures\")", "folder(pictures\")", "folder(\"pictures\")"},
    {"folder(\"pictures\")", "folder(\"pictures')", "folder(\"pictures\")"},
    {"folder(\"pictures\")", "folder(pictures)", "folder(\"pictures\")"},
    {"folder(\"pictures\")", "folder(data/pictures)", "folder(\"data/pictures\")"},
    {"folder(\"pictures\")", "folder(/data/pictures)", "folder(\"/data/pictures\")"},
    {"folder(\"pictures\")", "folder(../pictures)", "folder(\"../pictures\")"},
    {"folder(\"pictures\")", "folder(~/pictures)", "folder(\"~/pictures\")"},
    {"batch     = 32", "batch     = \"40\"", "batch     = 40"},
    {"lr        = 0.1", "lr        = \"0.1\"", "lr        = 0.1"},
    {"epochs    = 2", "epochs    = \"2\"", "epochs    = 2"},
    {"sgd(momentum=0.9)", "\"adam\"", "adam"},
    // Calls.
    {"x -> linear(8)", "concat([x, x], axis=1) -> linear(8)", "concat(x, x, axis=1) -> linear(8)"},
    {"x -> linear(8)", "[x, x] -> concat(axis=1) -> linear(8)", "(x, x) -> concat(axis=1) -> linear(8)"},
    {"x -> linear(8)", "add([x, x]) -> linear(8)", "add(x, x) -> linear(8)"},
    {"x -> linear(8)", "nn.Linear(8)(x)", "x -> linear(8)"},
    {"x -> linear(8)", "tf.keras.layers.Dense(8)(x)", "x -> linear(8)"},
    {"x -> linear(8)", "x -> nn.Identity() -> linear(8)", "x -> linear(8)"},
    {"x -> linear(8)", "identity(x) -> linear(8)", "x -> linear(8)"},
    {"-> random_flip", "-> random_flip(p=0.5)", "-> random_flip\n"},
    {"-> random_flip", "-> RandomHorizontalFlip(p=0.5)", "-> random_flip\n"},
    {"-> random_flip", "-> random_crop(16, padding=2)", "-> random_crop(16, pad=2)"},
    {"-> random_flip", "-> random_affine(degrees=10)", "-> random_affine(rotate=0.1745)"},
    {"-> random_flip", "-> random_affine(rotate=10 deg)", "-> random_affine(rotate=0.1745)"},
    {"-> random_flip", "-> random_affine(rotate=10deg)", "-> random_affine(rotate=0.1745)"},
    {"-> random_flip", "-> random_affine(rotate=10\u00B0)", "-> random_affine(rotate=0.1745)"},
    {"sgd(momentum=0.9)", "adam(betas=(0.9, 0.99))", "adam(beta1=0.9, beta2=0.99)"},
    {"sgd(momentum=0.9)", "torch.optim.SGD(momentum=0.9)", "sgd(momentum=0.9)"},
    {"scale=16", "scale: 16", "scale=16"},
    {"label = label ->", "label = class ->", "label = label ->"},
    // Comments.
    {"x -> linear(8)", "x -> linear(8) // the feature", "x -> linear(8) # the feature"},
    {"x -> linear(8)", "x -> linear(8) -- the feature", "x -> linear(8) # the feature"},
    {"  output feature", "  // what is compared\n  output feature", "  # what is compared\n  output feature"},
    {"  output feature", "  /* what is\n     compared */\n  output feature",
     "  # what is\n  # compared\n  output feature"},
    {"  output feature", "  % compared\n  output feature", "  # compared\n  output feature"},
    {"lr        = 0.1", "lr        = 0.1 // 1", "lr        = 0.1 // 1"},
    {"lr        = 0.1", "lr        = 0.1 // rate", "lr        = 0.1 # rate"},
    {"data d {", "// data\ndata d {", "# data\ndata d {"},
    {"data d {", "\"\"\"data\"\"\"\ndata d {", "# data\ndata d {"},
    // Types.
    {"f32[N, 3, 16, 16]", "float32[N, 3, 16, 16]", "f32[N, 3, 16, 16]"},
    {"f32[N, 3, 16, 16]", "float[N, 3, 16, 16]", "f32[N, 3, 16, 16]"},
    {"f32[N, 3, 16, 16]", "Tensor[N, 3, 16, 16]", "f32[N, 3, 16, 16]"},
    {"f32[N, 3, 16, 16]", "f32[None, 3, 16, 16]", "f32[N, 3, 16, 16]"},
    {"f32[N, 3, 16, 16]", "f32[-1, 3, 16, 16]", "f32[N, 3, 16, 16]"},
    {"f32[N, 3, 16, 16]", "f32[?, 3, 16, 16]", "f32[N, 3, 16, 16]"},
    {"f32[N, 3, 16, 16]", "f32[batch_size, 3, 16, 16]", "f32[N, 3, 16, 16]"},
    // Statements and settings.
    {"batch     = 32", "batch: 32", "batch = 32"},
    {"batch     = 32", "batch     = 32,", "batch     = 32"},
    {"batch     = 32", "batch     = 32;", "batch     = 32"},
    {"batch     = 32", "batch     = 32 samples", "batch     = 32"},
    {"epochs    = 2", "epochs    = 30 epochs", "epochs    = 30"},
    {"epochs    = 2", "epochs    = 30epochs", "epochs    = 30"},
    {"epochs    = 2", "epochs    = 300 steps", "steps     = 300"},
    {"x       = image", "let x = image", "x = image"},
    {"model m {", "model m:", "model m {"},
    {"model m {", "network m {", "model m {"},
    {"data d {", "dataset d {", "data d {"},
    // Settings of other tools.
    {"epochs    = 2", "num_train_epochs = 2", "epochs           = 2"},
    {"batch     = 32", "per_device_train_batch_size = 32", "batch                       = 32"},
    {"lr        = 0.1", "lr = 0.1\n  fp16 = true", "precision = mixed(f16)"},
    {"lr        = 0.1", "lr = 0.1\n  max_grad_norm = 5", "clip = norm(5)"},
    {"lr        = 0.1", "lr = 0.1\n  sample_rate = 1.0", "active_classes = all"},
    {"lr        = 0.1", "lr = 0.1\n  precision = \"16-mixed\"", "precision = mixed(f16)"},
    {"lr        = 0.1", "lr = 0.1\n  class_weights = balanced", "class_weights = inverse_frequency"},
    {"lr        = 0.1", "lr = 0.1\n  class_weight = \"balanced\"", "class_weights = inverse_frequency"},
    {"lr        = 0.1", "lr = 0.1\n  init = None", "init = seed"},
    {"lr        = 0.1", "lr = 0.1\n  init = null", "init = seed"},
    {"lr        = 0.1", "lr = 0.1\n  clip = None", "clip = none"},
    {"lr        = 0.1", "lr = 0.1\n  clip = 1.0", "clip = norm(1.0)"},
    // Characters.
    {"output feature", "output fe\u0430ture", "output feature"},
    {"output feature", "output feat\u03C5re", "output feature"},
    {"output feature", "output fea\u200Bture", "output feature"},
    {"output feature", "\uFEFFoutput feature", "output feature"},
    {"linear(8)", "linear\uFF088\uFF09", "linear(8)"},
    {"batch     = 32", "batch\u00A0= 32", "batch = 32"},
};

TEST(OtherLanguages, EditsLeadToTheIntendedText) {
  for (const Slip& slip : kSlips) {
    SCOPED_TRACE(slip.wrong);
    const std::string text = mended(replaced(kText, slip.from, slip.wrong));
    EXPECT_THAT(text, HasSubstr(slip.right)) << check(replaced(kText, slip.from, slip.wrong)).rendered();
    EXPECT_FALSE(check(text).diagnostics.has_errors()) << text << check(text).rendered();
  }
}

TEST(OtherLanguages, EachSlipCausesOneError) {
  for (const Slip& slip : kSlips) {
    SCOPED_TRACE(slip.wrong);
    const Checked checked = check(replaced(kText, slip.from, slip.wrong));
    const bool has_two_signs = std::string_view(slip.wrong).find("\uFF08") != std::string_view::npos;
    EXPECT_LE(checked.diagnostics.error_count(), has_two_signs ? 2 : 1) << checked.rendered();
  }
}

TEST(OtherLanguages, TheTextHasNoMistakes) { EXPECT_THAT(check(kText).codes(), IsEmpty()) << check(kText).rendered(); }

// If a fix has no edit, its text describes what to write.
TEST(OtherLanguages, ForeignConstructsWithoutAnEditAreExplained) {
  const auto of = [](const char* from, const std::string& to) { return check(replaced(kText, from, to)).rendered(); };
  EXPECT_THAT(of("  output", "  for i in 0..3 {\n    y = x -> relu\n  }\n  output"),
              HasSubstr("help: repeat stages: y = x -> repeat 3 as i { linear(64) -> relu }"));
  EXPECT_THAT(of("  output", "  while true {\n    y = x -> relu\n  }\n  output"), HasSubstr("a body has no loops"));
  EXPECT_THAT(of("  output", "  if true:\n    y = x -> relu\n  output"), HasSubstr("no statement starts with `if`"));
  EXPECT_THAT(of("  output", "  x += 1\n  output"), HasSubstr("x2 = x + 1"));
  EXPECT_THAT(of("  output", "  x -> relu\n  output"), HasSubstr("y = x -> relu"));
  EXPECT_THAT(of("model m {", "import torch\n\nmodel m {"),
              HasSubstr("operators, losses and optimizers need no import"));
  EXPECT_THAT(of("model m {", "def f(x):\n  return x\n\nmodel m {"), HasSubstr("a function of numbers is fn f(x)"));
  EXPECT_THAT(of("model m {", "class Net(nn.Module):\n  def f(self):\n    pass\n\nmodel m {"),
              HasSubstr("a network is model NAME { ... }"));
  EXPECT_THAT(of("softmax_ce(id, label, scale=16)", "focal(id, label)"),
              HasSubstr("class_weights = inverse_frequency"));
  EXPECT_THAT(of("softmax_ce(id, label, scale=16)", "triplet_loss(id, label)"), HasSubstr("arcface"));
  EXPECT_THAT(of("lr        = 0.1", "lr = 0.1\n  metrics = [f1(id, label)]"), HasSubstr("xrun eval"));
  EXPECT_THAT(of("lr        = 0.1", "lr = 0.1\n  warmup_epochs = 2"), HasSubstr("lr = [warmup(0 .. 0.1, 2 epochs), "));
  EXPECT_THAT(of("lr        = 0.1", "lr = 0.1\n  num_workers = 2"), HasSubstr("--threads on the command line"));
  EXPECT_THAT(of("  output", "  h = one_hot(label, 10)\n  output"), HasSubstr("the class number itself"));
  EXPECT_THAT(of("-> random_flip", "-> random_affine(rotate=10)"), HasSubstr("10 degrees are 0.1745"));
}

// If a network of the library is not imported, the fix adds the import.
TEST(OtherLanguages, FixesImportNetworksOfTheLibrary) {
  const auto of = [](const std::string& net) {
    return replaced(kText, "image -> conv(8, 3) -> relu -> flatten", "image -> " + net);
  };
  EXPECT_THAT(mended(of("resnet18")), HasSubstr("from \"std/nets\" use basic_resnet\n"));
  EXPECT_THAT(mended(of("resnet18")), HasSubstr("image -> basic_resnet([2, 2, 2, 2])\n"));
  EXPECT_THAT(mended(of("ResNet50()")), HasSubstr("image -> resnet([3, 4, 6, 3])\n"));
  EXPECT_THAT(mended(of("efficientnet_b0")), HasSubstr("from \"std/nets\" use efficientnet_b0\n"));
  EXPECT_THAT(mended(of("conv_bn_relu(8) -> flatten")), HasSubstr("from \"std/vision\" use conv_bn_relu\n"));
  for (const char* net : {"resnet18", "ResNet50()", "efficientnet_b0", "conv_bn_relu(8) -> flatten"}) {
    const std::string text = mended(of(net));
    EXPECT_FALSE(check(text).diagnostics.has_errors()) << text << check(text).rendered();
  }
}

// If a network is imported by the name of another framework, the edits first correct the import and then the calls.
TEST(OtherLanguages, FixesCorrectImportsByNamesOfOtherFrameworks) {
  const std::string line = "from \"std/nets\" use ";
  const std::string text =
      line + "resnet18\n" + replaced(kText, "image -> conv(8, 3) -> relu -> flatten", "image -> resnet18");
  EXPECT_THAT(check(text).rendered(), HasSubstr("help: write basic_resnet, and call basic_resnet([2, 2, 2, 2])"));
  EXPECT_THAT(mended(text), HasSubstr(line + "basic_resnet\n"));
  const std::string called = mended(mended(text));
  EXPECT_THAT(called, HasSubstr("image -> basic_resnet([2, 2, 2, 2])\n"));
  EXPECT_EQ(called.find(line), called.rfind(line)) << called;
  EXPECT_FALSE(check(called).diagnostics.has_errors()) << called << check(called).rendered();
}

// A fault in a model is one error. The evaluations that name the model are still declared and give no further errors.
TEST(OtherLanguages, AFaultInAModelCausesNoErrorsInItsEvaluations) {
  const std::string eval =
      "lr = 0.1\n  eval {\n    test = accuracy(id, label, source=train)\n  }\n  checkpoint.best = highest(test, 3)\n"
      "  stop_when = plateau(test, 3 epochs)";
  const std::string text = replaced(kText, "lr        = 0.1", eval);
  EXPECT_THAT(check(text).codes(), IsEmpty()) << check(text).rendered();
  const auto codes = [&](const std::string& from, const std::string& to) {
    return check(replaced(text, from, to)).codes();
  };
  EXPECT_THAT(codes("linear(8)", "linaer(8)"), ElementsAre("XG0201"));
  EXPECT_THAT(codes("test = accuracy", "test = acuracy"), ElementsAre("XG0201"));
  EXPECT_THAT(codes("(id, label, source", "(ids, label, source"), ElementsAre("XG0201"));
  EXPECT_THAT(codes("label, source=train", "label source=train"), ElementsAre("XG0110"));
  EXPECT_THAT(codes("accuracy(id, label, source=train)", "3"), ElementsAre("XG0505"));
  EXPECT_THAT(codes("plateau(test", "plateau(tset"), ElementsAre("XG0201"));
  const std::string metrics = "lr = 0.1\n  metrics = [accuracy(id, label)]\n  stop_when = train >= 99%";
  EXPECT_THAT(check(replaced(replaced(kText, "lr        = 0.1", metrics), "linear(8)", "linaer(8)")).codes(),
              ElementsAre("XG0201"));
}

// For `embed(weight=tabel)`, the fix proposes the right name.
TEST(OtherLanguages, AMisspeltWeightIsCorrected) {
  const std::string text = R"(
model m {
  input word: index(100)[N]

  param table: [100, 8] = normal(0.02)
  feature = word -> embed(100, 8, weight=tabel)
  output feature
}
)";
  EXPECT_THAT(mended(text), HasSubstr("embed(100, 8, weight=table)"));
  EXPECT_FALSE(check(mended(text)).diagnostics.has_errors()) << check(mended(text)).rendered();
}

}  // namespace
}  // namespace xrun::lang
