// `predict` writes every output that `check` accepts, or rejects it with the reason: inputs without a change, operators
// that change nothing, and the logits of a head.
#include <algorithm>
#include <gmock/gmock.h>

#include "tests/support/command.h"

namespace xrun::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string model(const std::string& body, const std::string& logits = "logits") {
  return R"(xgraph 1

model m {
  input x: f32[N, 6]
)" + body +
         R"(}

data d {
  source train = synthetic([6], 5, 200)
  source test  = synthetic([6], 5, 40, seed=2)
  x = pixels
}

train t {
  batch     = 20
  norm_rows = 1
  epochs    = 1
  loss      = softmax_ce()" +
         logits + R"(, label)
  metrics   = [accuracy()" +
         logits + R"(, label)]
  optimizer = sgd
  lr        = 0.1
}
)";
}

class Outputs : public ::testing::Test {
 protected:
  CommandOptions here() const { return {.directory = at_.path()}; }
  void train(const std::string& text) {
    at_.write("m.xgraph", text);
    const auto trained = run_xrun({"train", "m.xgraph", "--progress", "none"}, here());
    ASSERT_EQ(trained.exit, 0) << trained.err;
  }
  // Returns the line that `predict --embedding` prints for the first sample of `test`, with the weights of the newest
  // training.
  CommandResult embedding(const std::string& text, const std::vector<std::string>& more = {}) {
    at_.write("m.xgraph", text);
    std::vector<std::string> words{"predict", "m.xgraph", "ckpt/t",   "--source",   "test",
                                   "--rows",  "0..1",     "--anyway", "--embedding"};
    words.insert(words.end(), more.begin(), more.end());
    return run_xrun(words, here());
  }

  TemporaryDirectory at_;
};

TEST_F(Outputs, EqualTheInputIfTheyAreAnInput) {
  const std::string rest = "  logits = x -> linear(8) -> relu -> linear(5)\n  output logits\n";
  const std::string raw = model("  raw = x\n  output raw\n" + rest);
  train(raw);
  // Multiplying by 1 gives the expected value with an operator.
  const auto wanted = embedding(model("  a = x * 1.0\n  output a\n" + rest));
  ASSERT_EQ(wanted.exit, 0) << wanted.err;
  ASSERT_THAT(wanted.out, StartsWith("synthetic sample 0 "));
  for (const char* body :
       {"  raw = x\n  output raw\n", "  output x\n", "  same = x -> dropout(0)\n  output same\n",
        "  flat = x -> flatten\n  output flat\n", "  a = x\n  b = x -> flatten\n  output a\n  output b\n"}) {
    const auto found = embedding(model(body + rest));
    EXPECT_EQ(found.exit, 0) << body << found.err;
    EXPECT_EQ(found.out, wanted.out) << body;
  }
  for (const char* setting : {"schedule.stages=2", "schedule.replicas=2", "train.precision=mixed(bf16)"}) {
    const auto found = embedding(raw, {"--devices", "2", "--set", setting});
    EXPECT_EQ(found.exit, 0) << setting << found.err;
    EXPECT_EQ(found.out, wanted.out) << setting;
  }
}

TEST_F(Outputs, MayBeInputsThatAMetricReads) {
  std::string text = model("  logits = x -> linear(5)\n  output logits\n");
  text.replace(text.find("accuracy(logits, label)"), 23, "recall_at(x, label, source=test)");
  train(text);
  const auto eval = run_xrun({"eval", "m.xgraph", "ckpt/t"}, here());
  EXPECT_EQ(eval.exit, 0) << eval.err;
  EXPECT_THAT(eval.out, HasSubstr("recall_at_test"));
}

TEST_F(Outputs, RefuseHeadsWhoseLogitsAreNotKept) {
  const std::string head = "  f = x -> linear(4)\n  head id = classifier(f, 5)\n  output id\n";
  train(model(head, "id"));
  const auto refused = embedding(model(head, "id"));
  EXPECT_EQ(refused.exit, 1) << refused.out;
  EXPECT_THAT(refused.err, HasSubstr("XG0903]: the output `id` is a head, whose logits are not kept"));
  // `predict` takes the next output that has real numbers.
  const auto both = embedding(model(head + "  output f\n", "id"));
  EXPECT_EQ(both.exit, 0) << both.err;
  EXPECT_EQ(std::count(both.out.begin(), both.out.end(), ' '), 2 + 4);
}

}  // namespace
}  // namespace xrun::testing
