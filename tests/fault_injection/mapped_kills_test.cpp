// Runs whose class rows are in a file. They are killed at random times and resumed until they end, and must then have
// the weights of an undisturbed run whose rows were in memory.
#include <filesystem>

#include "tests/fault_injection/runs.h"
#include "tests/fault_injection/tiny_runs.h"

namespace xrun::testing {
namespace {

constexpr int64_t kKills = 200;
constexpr int kSteps = 16;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

class MappedKills : public TinyRuns {
 protected:
  // The tiny model with a head of some megabytes, large enough to have its rows in a file.
  void SetUp() override {
    std::string text = replaced(tiny_model(), "int = 37", "int = 262_400");
    text = replaced(text, "linear(24)", "linear(8)");
    text = replaced(text, "  optimizer = adamw\n",
                    "  optimizer = sgd(momentum=0.9)\n  active_classes = sample(900)\n  deterministic = true\n"
                    "  groups {\n    id {\n      weights = fp8\n      states = bf16\n    }\n  }\n");
    text = replaced(text, "  metrics   = [accuracy(id, label)]\n", "");
    text = text.substr(0, text.find("test \"size\""));
    directory.write("tiny.xgraph", text);
  }

  Words train(const std::string& checkpoints, const std::string& rows) const {
    Words words = train_to(kSteps);
    words.insert(words.end(), {"--set", "train.checkpoint.every=2 steps", "--set", "train.log.every=1 steps", "--set",
                               "train.groups.id.rows=" + rows, "-C", checkpoints});
    return words;
  }
};

TEST_F(MappedKills, AKilledRunResumesAndEndsWithTheSameWeights) {
  const auto unbroken = run(train("unbroken", "memory"));
  ASSERT_EQ(unbroken.exit, 0) << unbroken.err;
  const std::string weights = weights_of(unbroken);
  ASSERT_NE(weights, "");
  const auto mapped = run(train("mapped", "mapped"));
  ASSERT_EQ(mapped.exit, 0) << mapped.err;
  ASSERT_EQ(weights_of(mapped), weights);
  EXPECT_TRUE(std::filesystem::exists(directory.path() + "/mapped/ckpt/quick/rows.id"));

  const int64_t kills = fault_runs(3, kKills);
  std::mt19937_64 random(fault_seed());
  int courses = 0;
  int reached = 0;
  int64_t undone = 0;  // number of kills after which the file had rows of a later step than the checkpoint
  for (int64_t kill = 0; kill < kills;) {
    const std::string checkpoints = "course" + std::to_string(courses);
    // Kills right after a save, or in the steps that follow.
    CommandOptions options{.signal = SIGKILL};
    const int saved = reached + 2 * (1 + static_cast<int>(random() % 3));
    options.signal_on = random() % 2 == 0 ? " checkpoint step=" + std::to_string(saved) + " "
                                          : " step=" + std::to_string(saved + 1) + " ";
    const auto result = run(train(checkpoints, "mapped"), options);
    ASSERT_FALSE(result.timed_out);
    if (result.exit != 128 + SIGKILL) {
      ASSERT_EQ(result.exit, 0) << result.err;
      EXPECT_EQ(weights_of(result), weights);
      std::filesystem::remove_all(directory.path() + "/" + checkpoints);
      ++courses;
      reached = 0;
      continue;
    }
    ++kill;
    reached = std::max(reached, saved_step(result));
    std::error_code error;
    for (std::filesystem::directory_iterator at(directory.path() + "/" + checkpoints + "/ckpt/quick", error), end;
         !error && at != end; at.increment(error)) {
      const bool is_log = at->path().filename().string().starts_with("rows.id.undo-");
      undone += is_log && at->file_size() > 4096 ? 1 : 0;
    }
  }
  const auto last = run(train("course" + std::to_string(courses), "mapped"));
  ASSERT_EQ(last.exit, 0) << last.err;
  EXPECT_EQ(weights_of(last), weights);
  std::cout << kills << " kills, " << undone << " of them with rows to be written back; " << courses + 1
            << " runs went on to their end\n";
}

}  // namespace
}  // namespace xrun::testing
