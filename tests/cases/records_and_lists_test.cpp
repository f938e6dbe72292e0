// Sets of records by MXNet, and lists of pictures with the names of their classes.
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cases/case_files.h"
#include "tests/runtime/formats/records/record_bytes.h"

namespace {

using testing::HasSubstr;
using testing::Not;
using xrun::runtime::testing::image_record;
using xrun::testing::CommandResult;
using xrun::testing::ppm_of;
using xrun::testing::run_xrun;
using xrun::testing::TemporaryDirectory;
using xrun::testing::write_animals;
namespace fs = std::filesystem;

class RecordsAndLists : public ::testing::Test {
 protected:
  CommandResult run(const std::vector<std::string>& words) const { return run_xrun(words, {.directory = dir.path()}); }

  // Writes a model of three classes. `field` is the field of the picture.
  void write_model(const std::string& train, const std::string& test, const std::string& field,
                   const std::string& more_data = "") const {
    dir.write("m.xgraph", R"(xgraph 1

model m {
  input image: f32[N, 3, 8, 8]

  logits = image -> conv(8, 3, stride=2) -> bn -> relu -> global_avg_pool -> linear(3)
  output logits
}

data d {
  source train = )" + train +
                              "\n  source test = " + test + "\n" + more_data + "  image = " + field +
                              R"( -> decode(8) -> normalize(mean=127.5, std=127.5)
}

train t {
  batch     = 8
  steps     = 80
  loss      = softmax_ce(logits, label)
  metrics   = [accuracy(logits, label)]
  optimizer = adamw
  lr        = 0.03
}
)");
  }

  // Writes 30 records of three classes with their index, and returns the offset of each.
  std::vector<size_t> write_records(const std::string& name) const {
    std::string file;
    std::string index;
    std::vector<size_t> offsets;
    for (int i = 0; i < 30; ++i) {
      const int label = i % 3;
      const auto bright = [&](int channel) { return channel == label ? 200 : 40; };
      offsets.push_back(file.size());
      index += fmt::format("{}\t{}\n", i, file.size());
      file += image_record(static_cast<float>(label), static_cast<uint64_t>(i),
                           ppm_of(bright(0), bright(1), bright(2), i + 1));
    }
    dir.write(name + ".rec", file);
    dir.write(name + ".idx", index);
    return offsets;
  }

  TemporaryDirectory dir;
};

// Returns the digest of the weights in the last line of a run.
std::string weights_of(const CommandResult& run) {
  const size_t at = run.err.rfind("weights=");
  return at == std::string::npos ? run.err : run.err.substr(at, run.err.find(' ', at) - at);
}

TEST_F(RecordsAndLists, ARunOnRecordsIsTheSameWithoutTheIndex) {
  write_records("train");
  write_model("recordio(\"train.rec\")", "recordio(\"train.rec\")", "jpeg");
  const CommandResult with = run({"train", "m.xgraph", "-C", dir.path() + "/with"});
  ASSERT_EQ(with.exit, 0) << with.err;
  EXPECT_THAT(with.err, HasSubstr("test=1.0000"));
  fs::remove(dir.path() + "/train.idx");
  const CommandResult without = run({"train", "m.xgraph", "-C", dir.path() + "/without"});
  ASSERT_EQ(without.exit, 0) << without.err;
  EXPECT_EQ(weights_of(without), weights_of(with));
}

TEST_F(RecordsAndLists, ADamagedRecordIsNamedAndReplaced) {
  const std::vector<size_t> offsets = write_records("train");
  std::string file = xrun::testing::read_file(dir.path() + "/train.rec");
  file[offsets[7]] = 'x';
  dir.write("train.rec", file);
  write_model("recordio(\"train.rec\")", "recordio(\"train.rec\")", "jpeg", "  max_bad = 10%\n");
  const CommandResult trained = run({"train", "m.xgraph"});
  EXPECT_EQ(trained.exit, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr(fmt::format("the record at byte {} of train.rec", offsets[7])));
  EXPECT_THAT(trained.err, HasSubstr(fmt::format("no record begins at byte {}", offsets[7])));
}

TEST_F(RecordsAndLists, TheIndexOfAnotherFileIsRefusedAtItsSource) {
  write_records("train");
  dir.write("train.idx", "0\t0\n1\t44\n2\t48\n");
  write_model("recordio(\"train.rec\")", "recordio(\"train.rec\")", "jpeg");
  const CommandResult planned = run({"plan", "m.xgraph", "--dry-run"});
  EXPECT_EQ(planned.exit, 1);
  EXPECT_THAT(planned.err, HasSubstr("m.xgraph:11:18"));
  EXPECT_THAT(planned.err, HasSubstr("train.idx has key 1 at byte 44, where no record of train.rec begins"));
  EXPECT_THAT(planned.err, HasSubstr("name the index that was written together with train.rec"));
}

TEST_F(RecordsAndLists, ClassesOfListsAreKnownByName) {
  write_animals(dir, "pictures", 10);
  std::string train;
  for (int i = 1; i <= 10; ++i) {
    for (const char* animal : {"owl", "cat", "dog"}) {
      train += fmt::format("{}/{}.ppm,{}\n", animal, i, animal);
    }
  }
  dir.write("train.csv", "picture,animal\n" + train);
  dir.write("test.csv", "owl/1.ppm,owl\ndog/2.ppm,dog\n");
  write_model("list(\"train.csv\", root=\"pictures\", delimiter=\",\", header=true)",
              "list(\"test.csv\", root=\"pictures\", delimiter=\",\")", "file");
  const CommandResult trained = run({"train", "m.xgraph"});
  ASSERT_EQ(trained.exit, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("test=1.0000")) << "owl is 2 in training, and 1 in the list of the test";
  dir.write("test.csv", "owl/1.ppm,owl\ndog/2.ppm,dgo\n");
  const CommandResult wrong = run({"eval", "ckpt/t"});
  EXPECT_EQ(wrong.exit, 1) << wrong.out;
  EXPECT_THAT(wrong.err, HasSubstr("`dgo`"));
  EXPECT_THAT(wrong.err, HasSubstr("the nearest is `dog`"));
}

}  // namespace
