// `xrun train` with `checkpoint { copy }`: runs that resume from second copies, and copies that fail.
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/command.h"

namespace xrun::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Words = std::vector<std::string>;

class SecondCopyCommands : public ::testing::Test {
 protected:
  // Writes a model whose run has 40 steps and saves a checkpoint every 10 steps.
  void SetUp() override {
    directory.write("m.xgraph", R"(xgraph 1

model m {
  input x: f32[N, 6]

  logits = x -> linear(12) -> relu -> linear(5) as fc
  output logits
}

data d {
  source train = synthetic([6], 5, 640)

  x     = pixels
  label = label -> as_index(5)
}

train t {
  batch      = 32
  norm_rows  = 8
  epochs     = 2
  loss       = softmax_ce(logits, label)
  optimizer  = adamw
  lr         = 0.01
  checkpoint {
    every = 10 steps
    keep  = 2
  }
}
)");
  }
  CommandResult train(const std::string& place, const std::string& copy, const Words& more = {},
                      const std::string& progress = "json") const {
    Words words{"train", "m.xgraph", "--deterministic", "--progress", progress, "-C", place};
    if (!copy.empty()) {
      words.insert(words.end(), {"--set", "train.checkpoint.copy=\"" + copy + "\""});
    }
    words.insert(words.end(), more.begin(), more.end());
    return run_xrun(words, {.directory = directory.path()});
  }
  std::string at(const std::string& name) const { return directory.path() + "/" + name; }
  static std::vector<nlohmann::json> values(const CommandResult& result, const std::string& kind,
                                            const std::string& key) {
    std::vector<nlohmann::json> all;
    std::string line;
    for (std::istringstream in(result.out); std::getline(in, line);) {
      const auto event = nlohmann::json::parse(line, nullptr, false);
      if (event.is_object() && event.value("t", "") == kind) {
        all.push_back(event.value(key, nlohmann::json()));
      }
    }
    return all;
  }

  // Returns only the warnings about checkpoints, since others depend on the load of the machine.
  static std::vector<std::string> warnings(const CommandResult& result, const std::string& key) {
    std::vector<std::string> all;
    const auto codes = values(result, "warn", "code");
    const auto wanted = values(result, "warn", key);
    for (size_t i = 0; i < codes.size(); ++i) {
      if (codes[i].get<std::string>().starts_with("XG07") || codes[i] == "XG0823") {
        all.push_back(wanted[i].get<std::string>());
      }
    }
    return all;
  }

  TemporaryDirectory directory;
};

TEST_F(SecondCopyCommands, ARunResumedFromCopiesEndsWithTheSameWeights) {
  const auto whole = train("whole", "");
  ASSERT_EQ(whole.exit, 0) << whole.err;
  EXPECT_THAT(values(whole, "copy", "step"), IsEmpty());
  for (const bool in_background : {false, true}) {
    const Words how{"--set", std::string("train.checkpoint.async=") + (in_background ? "true" : "false")};
    const auto begin = [&] {
      for (const char* place : {"run", "copies"}) {
        fs::remove_all(at(place));
      }
      Words first = how;
      first.insert(first.end(), {"--steps", "20"});
      const auto part = train("run", at("copies"), first);
      ASSERT_EQ(part.exit, 0) << part.err;
      ASSERT_THAT(values(part, "copy", "step"), Not(IsEmpty()));
      EXPECT_EQ(values(part, "copy", "step").back(), 20);
      EXPECT_EQ(values(part, "copy", "path").back(), at("copies/step-000020"));
      EXPECT_THAT(warnings(part, "code"), IsEmpty());
    };
    const std::string step = at("run/ckpt/t/step-000020");
    for (const std::string damage : {"bit", "shard", "manifest", "step", "all"}) {
      ASSERT_NO_FATAL_FAILURE(begin());
      if (damage == "bit") {
        std::fstream file(step + "/trunk.safetensors", std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(-3, std::ios::end);
        file.put('x');
      } else {
        fs::remove_all(damage == "shard"      ? step + "/trunk.optim.safetensors"
                       : damage == "manifest" ? step + "/manifest.json"
                       : damage == "step"     ? step
                                              : at("run"));
      }
      if (damage != "all") {
        EXPECT_EQ(train("run", "", how).exit, 1) << damage << " is not seen without copies";
      }
      const auto rest = train("run", at("copies"), how);
      ASSERT_EQ(rest.exit, 0) << damage << ": " << rest.err;
      EXPECT_THAT(values(rest, "resume", "step"), ElementsAre(20)) << damage;
      EXPECT_EQ(values(rest, "end", "weights"), values(whole, "end", "weights")) << damage;
      EXPECT_THAT(warnings(rest, "code"), ElementsAre("XG0721")) << damage;
      EXPECT_EQ(values(rest, "copy", "step").back(), 40) << damage;
    }
  }
}

TEST_F(SecondCopyCommands, DamagedCopiesDoNotHideTheErrorOfTheCheckpoint) {
  ASSERT_EQ(train("run", at("copies"), {"--steps", "20"}).exit, 0);
  for (const std::string& place : {at("run/ckpt/t"), at("copies")}) {
    fs::resize_file(place + "/step-000020/trunk.safetensors", 50);
  }
  const auto refused = train("run", at("copies"));
  EXPECT_EQ(refused.exit, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("error[XG0710]: run/ckpt/t/step-000020/trunk.safetensors has 50 bytes"),
                                 HasSubstr("note: no complete second copy was found in " + at("copies")),
                                 HasSubstr("help: continue from an older one: --resume run/ckpt/t/step-000010")));
}

// Files exist with the names of the copies of steps 20 and 40, so these copies cannot be published. That of step 20 may
// also be left out before.
TEST_F(SecondCopyCommands, FailedCopiesAreWarnedOfOnceAndCountedAtTheEnd) {
  fs::create_directories(at("copies"));
  directory.write("copies/step-000020", "mine");
  directory.write("copies/step-000040", "mine");
  const auto result = train("run", at("copies"));
  ASSERT_EQ(result.exit, 0) << result.err;
  ASSERT_THAT(warnings(result, "code"), ElementsAre("XG0823", "XG0823"));
  const auto messages = warnings(result, "message");
  EXPECT_THAT(messages[0], HasSubstr("the checkpoint itself is complete, and the run continues"));
  EXPECT_THAT(messages[1],
              AllOf(HasSubstr(" checkpoints of this run have no second copy, the last of them " + at("copies")),
                    HasSubstr("cannot write")));
  EXPECT_TRUE(fs::exists(at("run/ckpt/t/step-000040/manifest.json")));
  EXPECT_TRUE(fs::is_regular_file(at("copies/step-000040")));
  for (const auto& entry : fs::directory_iterator(at("copies"))) {
    EXPECT_EQ(entry.path().filename().string().find(".tmp-"), std::string::npos) << entry.path();
  }
}

TEST_F(SecondCopyCommands, UnsuitableDirectoriesAreRefusedAtTheStart) {
  const auto relative = train("run", "copies");
  EXPECT_EQ(relative.exit, 1);
  EXPECT_THAT(relative.err, AllOf(HasSubstr("error[XG0214]"), HasSubstr("not an absolute path")));
  const auto inside = train("run", at("run/ckpt/t/copies"));
  EXPECT_EQ(inside.exit, 1);
  EXPECT_THAT(inside.err, AllOf(HasSubstr("error[XG0720]"), HasSubstr("help: name a directory on another disk")));
  const auto no_directory = train("run", at("m.xgraph/copies"));
  EXPECT_EQ(no_directory.exit, 4);
  EXPECT_THAT(no_directory.err, AllOf(HasSubstr("error[XG0720]"), HasSubstr("cannot write")));
}

TEST_F(SecondCopyCommands, AreAlsoReportedInPlainOutput) {
  const auto result = train("run", at("copies"), {"--steps", "10"}, "plain");
  ASSERT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.out + result.err, HasSubstr(" copy step=10 path=" + at("copies/step-000010") + " mib="));
}

}  // namespace
}  // namespace xrun::testing
