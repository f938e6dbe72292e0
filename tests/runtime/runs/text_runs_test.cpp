// A model that reads texts as hashed n-grams: every plan and a resumed run give the bits of one device, a step changes
// only the rows of its n-grams, and the model finds the lemma of forms that it has not seen.
#include <cstring>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/command_runs.h"

namespace xrun::testing {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 2048;
constexpr int64_t kDim = 16;

constexpr const char* kModel = R"(xgraph 1

model words {
  input ids: index(2048)[N, 48]

  feature = ids -> embed_bag(2048, 16) as table -> linear(24) -> relu -> linear(16) -> bn
  output feature

  head lemma = cosine_classifier(feature, 12)
}

data forms {
  max_bad = 5%

  source train = text("train.tsv")
  source test  = text("test.tsv")

  ids   = text -> ngrams(2048, 48, chars=[2, 4], words=1, lower=true)
  label = label -> as_index(12)
}

train quick {
  batch     = 32
  epochs    = 12
  norm_rows = 4
  loss      = cosface(lemma, label, margin=0.1, scale=12)
  optimizer = adamw(weight_decay=0.3)
  clip      = norm(5)
  lr        = 0.01
  eval {
    test = accuracy(lemma, label, source=test)
  }
}
)";

// Forms that are made from roots and endings: each root has one ending that only the test set has.
class TextRuns : public CommandRuns {
 protected:
  void SetUp() override {
    const std::vector<std::string> roots{"walk", "talk", "jump", "climb", "paint", "Gr\xC3\xBC\xC3\x9F",
                                         "melt", "boil", "fold", "carve", "drift", "squeez"};
    const std::vector<std::string> endings{"", "s", "ed", "ing", "er", "ers", "able"};
    std::string train = "walk\n";  // a line without a text
    std::string test;
    for (size_t r = 0; r < roots.size(); ++r) {
      for (size_t e = 0; e < endings.size(); ++e) {
        (e == r % endings.size() ? test : train) += roots[r] + "\t" + roots[r] + endings[e] + "\n";
      }
    }
    directory.write("train.tsv", train);
    directory.write("test.tsv", test);
    write_model(kModel);
  }

  // The numbers of a tensor of the trunk in a checkpoint.
  std::vector<float> tensor(const std::string& checkpoint, const std::string& name) const {
    const std::string file = read_file(directory.path() + "/" + checkpoint + "/trunk.safetensors");
    uint64_t header = 0;
    std::memcpy(&header, file.data(), sizeof header);
    const auto json = nlohmann::json::parse(file.substr(8, header));
    const auto& offsets = json.at(name).at("data_offsets");
    const auto begin = offsets.at(0).get<size_t>();
    std::vector<float> numbers((offsets.at(1).get<size_t>() - begin) / sizeof(float));
    std::memcpy(numbers.data(), file.data() + 8 + header + begin, numbers.size() * sizeof(float));
    return numbers;
  }
  std::string latest(const std::string& out) const {
    const std::string name = read_file(directory.path() + "/" + out + "/ckpt/quick/latest");
    return out + "/ckpt/quick/" + name.substr(0, name.find('\n'));
  }
};

TEST_F(TextRuns, EveryPlanHasTheSameBits) { expect_one_result(); }

TEST_F(TextRuns, AStoppedRunResumesOnOtherDevices) {
  const std::string whole = weights("whole", {"--devices", "1"});
  weights("parts", {"--devices", "4", "--set", "schedule.replicas=4", "--steps", "11"});
  EXPECT_EQ(weights("parts", {"--devices", "2", "--resume", "auto"}), whole);
}

TEST_F(TextRuns, FindsTheLemmaOfUnseenForms) {
  const CommandResult trained = training("one", {});
  EXPECT_THAT(trained.out, HasSubstr("train.tsv:1")) << "the line without a text is named";
  const CommandResult measured = run({"eval", "one/ckpt/quick", "--format", "json"});
  ASSERT_EQ(measured.exit, 0) << measured.err;
  EXPECT_GE(nlohmann::json::parse(measured.out).at("metrics").at("test").get<double>(), 0.9) << measured.out;
}

// AdamW with weight decay changes every row of an ordinary table in each step.
TEST_F(TextRuns, OnlyRowsOfNgramsThatOccurChange) {
  training("few", {"--steps", "1"});
  training("more", {"--steps", "20"});
  const std::vector<float> few = tensor(latest("few"), "table.weight");
  const std::vector<float> more = tensor(latest("more"), "table.weight");
  ASSERT_EQ(few.size(), static_cast<size_t>(kRows * kDim));
  ASSERT_EQ(more.size(), few.size());
  int64_t kept = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    const auto at = static_cast<size_t>(row * kDim);
    const bool same = std::memcmp(&few[at], &more[at], kDim * sizeof(float)) == 0;
    kept += same ? 1 : 0;
    EXPECT_TRUE(same || row != 0) << "row 0 is padding";
  }
  EXPECT_GT(kept, kRows / 4);
  EXPECT_LT(kept, kRows);
}

TEST_F(TextRuns, TextsThatAreCutAreReported) {
  std::string text = kModel;
  for (const char* size : {"[N, 48]", "2048, 48, chars"}) {
    std::string shorter = size;
    shorter.replace(shorter.rfind("48"), 2, "12");
    text.replace(text.find(size), std::strlen(size), shorter);
  }
  write_model(text);
  const CommandResult checked = run({"check", "net.xgraph", "--data"});
  EXPECT_THAT(checked.out + checked.err, HasSubstr("XG0430"));
  EXPECT_THAT(checked.out + checked.err, HasSubstr("texts have more than 12 n-grams"));
  const CommandResult planned = run({"plan", "net.xgraph", "--dry-run"});
  EXPECT_EQ(planned.exit, 0) << planned.err;
  EXPECT_THAT(planned.err, HasSubstr("XG0430"));
}

}  // namespace
}  // namespace xrun::testing
