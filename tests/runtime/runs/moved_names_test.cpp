// `moved`: after parts of a model were renamed, its checkpoints can still be resumed, used to start a run, and
// evaluated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/command.h"

namespace xrun::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class MovedNames : public ::testing::Test {
 protected:
  void SetUp() override { write("embed", "id"); }

  // Returns a model with a dropout, so that the random numbers of steps depend on the name of an operator.
  static std::string model_of(const std::string& layer, const std::string& head) {
    std::string text = R"(xgraph 1

model m {
  input x: f32[N, 8]

  feature = x -> linear(12) as LAYER -> relu -> dropout(0.3) as LAYER_drop -> linear(6) as out
  output feature

  head HEAD = cosine_classifier(feature, 10)
}

data d {
  source train = synthetic([8], 10, samples=200)
  source test  = synthetic([8], 10, samples=50, seed=2)

  x = pixels
}

train t {
  batch     = 20
  epochs    = 2
  loss      = softmax_ce(HEAD, label, scale=8)
  metrics   = [accuracy(HEAD, label)]
  optimizer = adamw
  lr        = 0.01
}
)";
    for (const auto& [word, name] : {std::pair("LAYER", layer), std::pair("HEAD", head)}) {
      for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at)) {
        text.replace(at, std::string(word).size(), name);
      }
    }
    return text;
  }
  void write(const std::string& layer, const std::string& head, const std::string& more = {}) {
    directory.write("m.xgraph", model_of(layer, head) + more);
  }
  CommandResult run(std::vector<std::string> words) { return run_xrun(words, {.directory = directory.path()}); }
  CommandResult train(const std::string& where, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{"train", "m.xgraph", "-C", where, "--devices", "1", "--progress", "json"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  static nlohmann::json end_of(const CommandResult& result) {
    nlohmann::json last;
    std::string line;
    for (std::istringstream in(result.out); std::getline(in, line);) {
      const auto event = nlohmann::json::parse(line);
      last = event.at("t") == "end" ? event : last;
    }
    EXPECT_TRUE(last.is_object()) << result.err;
    return last;
  }
  TemporaryDirectory directory;
};

// The new names have the order of the old ones, so the digest of the weights does not change.
const char* const kMoves =
    "\nmoved \"embed\" -> \"embedding\"\nmoved \"embed_drop\" -> \"embedding_drop\"\nmoved \"id\" -> \"identity\"\n";

TEST_F(MovedNames, AResumedRunHasTheBitsOfARunWithoutRenaming) {
  const auto whole = end_of(train("whole"));
  ASSERT_EQ(train("part", {"--steps", "7"}).exit, 0);
  write("embedding", "identity", kMoves);
  const auto resumed = train("part");
  ASSERT_EQ(resumed.exit, 0) << resumed.err;
  const auto end = end_of(resumed);
  EXPECT_EQ(end["step"], 20);
  EXPECT_EQ(end["weights"], whole["weights"]);
  EXPECT_EQ(end["loss"], whole["loss"]);
  // The checkpoint has the new names now. A second rename makes a chain.
  EXPECT_THAT(run({"show", "part/ckpt/t"}).out, HasSubstr("embedding.weight"));
  // A run that starts under the new names draws the same random numbers as the first run.
  const auto fresh = end_of(train("fresh"));
  EXPECT_EQ(fresh["weights"], whole["weights"]);
}

TEST_F(MovedNames, ChainsLeadFromEveryEarlierName) {
  ASSERT_EQ(train("first").exit, 0);
  write("embedding", "identity", kMoves);
  ASSERT_EQ(train("second").exit, 0);
  write("features", "identity",
        std::string(kMoves) +
            "moved \"embedding\" -> \"features\"\n"
            "moved \"embedding_drop\" -> \"features_drop\"\n");
  for (const char* where : {"first/ckpt/t", "second/ckpt/t"}) {
    const auto measured = run({"eval", "m.xgraph", where, "--format", "json"});
    EXPECT_EQ(measured.exit, 0) << measured.err;
    const auto predicted = run({"predict", "m.xgraph", where, "--source", "test", "--rows", "0..4"});
    EXPECT_EQ(predicted.exit, 0) << predicted.err;
  }
  const auto begun = train("third", {"--steps", "0", "--set", "train.init=checkpoint(\"first/ckpt/t\")"});
  EXPECT_EQ(begun.exit, 0) << begun.err;
}

TEST_F(MovedNames, TheMessageProposesAMissingLine) {
  ASSERT_EQ(train("run").exit, 0);
  write("embedding", "id");
  const auto refused = run({"eval", "m.xgraph", "run/ckpt/t"});
  EXPECT_EQ(refused.exit, 1);
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("error[XG0702]"), HasSubstr("add this to the model: moved \"embed\" -> \"embedding\"")));
}

TEST_F(MovedNames, ACheckpointWithBothNamesIsRefused) {
  ASSERT_EQ(train("run").exit, 0);
  // The first layer gets the name that the last layer had.
  std::string text = model_of("out", "id");
  text.replace(text.find("linear(6) as out"), 16, "linear(6) as last");
  directory.write("m.xgraph", text + "\nmoved \"embed\" -> \"out\"\n");
  const auto refused = run({"eval", "m.xgraph", "run/ckpt/t"});
  EXPECT_EQ(refused.exit, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("error[XG0719]"), HasSubstr("has both `embed.bias` and `out.bias`"),
                                 HasSubstr("moved \"embed\" -> \"out\"")));
}

}  // namespace
}  // namespace xrun::testing
