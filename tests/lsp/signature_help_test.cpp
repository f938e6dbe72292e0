// Signature help: the parameters of the call at the cursor.
#include <gmock/gmock.h>

#include "tests/lsp/client.h"

namespace xrun::lsp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kBefore = R"(xgraph 1

## Two convolutions.
block unit(x: [N, C, H, W], width: int, stride: int = 1) -> [N, width, H, W] {
  return x -> conv(width, 3)
}

fn twice(n: int) = 2 * n

model m {
  input image: f32[N, 3, 8, 8]

  y = )";
const std::string kAfter = R"(
  output y
}

data d {
  source train = synthetic([8], 4, 160)

  x = pixels
}

train t {
  batch          = 8
  lr             = 0.1
}
)";

// Returns the signature that is shown for the `|` in the text.
Json help_in(const std::string& marked) {
  TestClient client;
  std::string text = marked;
  const size_t at = text.find('|');
  text.erase(at, 1);
  client.open(text);
  return client.result("textDocument/signatureHelp", {{"textDocument", {{"uri", kUri}}},
                                                      {"position", LineMap(text).position(static_cast<uint32_t>(at))}});
}

// Returns the label and the marked parameter, like "conv(...) width: int".
std::string shown(const std::string& marked) {
  const Json help = help_in(marked);
  if (help.is_null()) {
    return "";
  }
  const Json& one = help["signatures"][0];
  const size_t active = one["activeParameter"];
  const std::string label = one["label"];
  return label.substr(0, label.find('(')) + " " +
         (active < one["parameters"].size() ? one["parameters"][active]["label"].get<std::string>() : "none");
}

std::string shown_in_model(const std::string& call) { return shown(kBefore + call + kAfter); }

TEST(SignatureHelp, MarksTheParameterThatIsWritten) {
  const std::string before = "image -> ";
  EXPECT_EQ(shown_in_model(before + "conv(|"), "conv width: int");
  EXPECT_EQ(shown_in_model(before + "conv(|)"), "conv width: int");
  EXPECT_THAT(shown_in_model(before + "conv(64, |"), StartsWith("conv k: "));
  EXPECT_THAT(shown_in_model(before + "conv(64, stride=|2)"), StartsWith("conv stride: "));
  EXPECT_EQ(shown_in_model("conv(image, |"), "conv width: int");
  EXPECT_EQ(shown_in_model("conv(|image, 3)"), "conv x: [N, C, H, W]");
  EXPECT_EQ(shown_in_model(before + "conv(64, 3) |"), "");
  EXPECT_EQ(shown_in_model("(|"), "");
}

TEST(SignatureHelp, ShowsTheInnermostCall) {
  EXPECT_EQ(shown_in_model("image -> conv(twice(|"), "twice n: int");
  EXPECT_EQ(shown_in_model("image -> conv(twice(4), |3)").substr(0, 6), "conv k");
  EXPECT_EQ(shown_in_model("image -> reshape([N, |"), shown_in_model("image -> reshape(|"));
  EXPECT_THAT(shown_in_model("image -> conv(\n    64,\n    |"), StartsWith("conv k: "));
}

TEST(SignatureHelp, ShowsBlocksReadersStagesCurvesAndWordsOfSettings) {
  EXPECT_EQ(shown_in_model("image -> unit(|"), "unit width: int");
  EXPECT_EQ(shown_in_model("image -> unit(8, stride=|"), "unit stride: int = 1");
  EXPECT_EQ(shown_in_model("image -> leaky_relu(|"), "leaky_relu slope = 0.01");
  const auto in = [](std::string from, const std::string& to) {
    std::string text = kBefore + "image" + kAfter;
    return shown(text.replace(text.find(from), from.size(), to));
  };
  EXPECT_THAT(in("synthetic([8], 4, 160)", "synthetic([8], |"), StartsWith("synthetic classes"));
  EXPECT_THAT(in("x = pixels", "x = pixels -> random_crop(|"), StartsWith("random_crop "));
  EXPECT_EQ(in("= 0.1", "= warmup(0 .. 0.1, |"), "warmup span: span");
  EXPECT_EQ(in("lr             = 0.1", "active_classes = knn(neighbours=4, active=|"), "knn active: float");
  EXPECT_EQ(in("lr             = 0.1", "optimizer = sgd(|"), "sgd momentum: float = 0");
}

TEST(SignatureHelp, HasTheWholeSignatureAndItsText) {
  const Json help = help_in(kBefore + "image -> unit(|" + kAfter);
  EXPECT_EQ(help["signatures"][0]["label"], "unit(x: [N, C, H, W], width: int, stride: int = 1)");
  EXPECT_THAT(help["signatures"][0]["documentation"].get<std::string>(), HasSubstr("Two convolutions."));
  EXPECT_EQ(help["activeParameter"], 1);
}

TEST(SignatureHelp, IsEmptyOutsideOfKnownCalls) {
  EXPECT_EQ(shown_in_model("image -> konv(|"), "");
  EXPECT_EQ(shown(kBefore + "image" + kAfter + "|"), "");
  EXPECT_EQ(shown("|"), "");
  EXPECT_EQ(shown(")))((( ,,, |"), "");
}

TEST(Hover, ShowsTheWholeFunctionOfNumbers) {
  TestClient client;
  const std::string text = R"(xgraph 1

pointwise bent(x, slope = 0.1) = if x > 0 { x } else { slope * x }

fn half(n: int) = if n > 1 { n / 2 } else { 1 }

block unit(x: [N, D]) -> [N, D] {
  return x -> bent -> leaky_relu(0.2)
}
)";
  client.open(text);
  const auto hover = [&](std::string_view word, int nth) {
    return client.ask("textDocument/hover", text, word, nth)["contents"]["value"].get<std::string>();
  };
  EXPECT_THAT(hover("bent", 1), HasSubstr("= if x > 0 { x } else { slope * x }\n```"));
  EXPECT_THAT(hover("half", 0), HasSubstr("{ n / 2 } else { 1 }\n```"));
  EXPECT_THAT(hover("leaky_relu", 0), HasSubstr("if x > 0 { x } else { slope * x }\n```"));
  EXPECT_THAT(hover("unit", 0), HasSubstr("block unit(x: [N, D]) -> [N, D]\n```"));
}

// Operators of metrics are shown as declared, without the inputs that the compiler adds to them.
TEST(Hover, ShowsTheInputsOfAMetric) {
  TestClient client;
  const std::string text = kBefore + "image -> flatten" + kAfter + R"(
train t {
  metrics = [recall_at(y, label)]
}
)";
  client.open(text);
  const auto hover = client.ask("textDocument/hover", text, "recall_at", 0)["contents"]["value"].get<std::string>();
  EXPECT_THAT(hover, HasSubstr("recall_at(feature: [N, D], label: index(C)[N], k: int = 1, source: source = none)"));
  EXPECT_THAT(hover, Not(HasSubstr("gather")));
}

}  // namespace
}  // namespace xrun::lsp
