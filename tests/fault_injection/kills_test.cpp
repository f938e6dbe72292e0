// Runs that save after every step, between steps or in the background. They are killed at random times and resumed
// until they end, and must then have the weights of an undisturbed run.
#include <filesystem>

#include "tests/fault_injection/runs.h"
#include "tests/fault_injection/tiny_runs.h"

namespace xrun::testing {
namespace {

constexpr int64_t kKills = 200;
constexpr int kSteps = 40;

class Kills : public TinyRuns {
 protected:
  Words train(const std::string& checkpoints, bool in_background = false) const {
    Words words = train_to(kSteps);
    words.insert(words.end(),
                 {"--set", "train.checkpoint.every=1 steps", "--set",
                  std::string("train.checkpoint.async=") + (in_background ? "true" : "false"), "-C", checkpoints});
    return words;
  }
};

TEST_F(Kills, AKilledRunResumesAndEndsWithTheSameWeights) {
  const auto unbroken = run(train("unbroken"));
  ASSERT_EQ(unbroken.exit, 0) << unbroken.err;
  const std::string weights = weights_of(unbroken);
  ASSERT_NE(weights, "");
  const int64_t kills = fault_runs(10, kKills);
  std::mt19937_64 random(fault_seed());
  int courses = 0;
  int reached = 0;
  int64_t in_training = 0;
  for (int64_t kill = 0; kill < kills;) {
    const std::string checkpoints = "course" + std::to_string(courses);
    // Kills at a random time within one second, or right after a save.
    CommandOptions options;
    if (random() % 2 == 0) {
      options.kill_after_s = static_cast<double>(random() % 1000) / 1000;
    } else {
      options.signal = SIGKILL;
      options.signal_on = "checkpoint step=" + std::to_string(reached + 1 + static_cast<int>(random() % 8)) + " ";
    }
    const auto result = run(train(checkpoints, random() % 2 == 0), options);
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
    in_training += saved_step(result) > 0 ? 1 : 0;
    reached = std::max(reached, saved_step(result));
    const auto shown = run({"show", checkpoints + "/ckpt/quick", "--format", "json"});
    if (reached > 0) {
      ASSERT_EQ(shown.exit, 0) << shown.err;
      const size_t at = shown.out.find("\"step\":");
      EXPECT_GE(std::stoi(shown.out.substr(at + 7)), reached) << "a step that was saved is lost";
    }
  }
  const auto last = run(train("course" + std::to_string(courses)));
  ASSERT_EQ(last.exit, 0) << last.err;
  EXPECT_EQ(weights_of(last), weights);
  EXPECT_GT(in_training, 0);
  std::cout << kills << " kills, " << in_training << " of them while steps were saved; " << courses + 1
            << " runs went on to their end\n";
}

}  // namespace
}  // namespace xrun::testing
