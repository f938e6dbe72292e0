// `xrun data preview` on small folders of pictures.
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "runtime/data/order/sample_order.h"
#include "runtime/formats/pictures/png.h"
#include "tests/cases/case_files.h"

namespace xrun::cli {
namespace {

using testing::CommandResult;
using ::testing::HasSubstr;
using testing::run_xrun;
using testing::TemporaryDirectory;
using testing::write_animals;

std::string model_text(const std::string& stages) {
  return R"(xgraph 1

model m {
  input image: f32[N, 3, 8, 8]

  logits = image -> conv(8, 3, stride=2) -> bn -> relu -> global_avg_pool -> linear(3)
  output logits
}

data d {
  source train = folder("pictures")
  source test  = folder("tests")

  image = file -> )" +
         stages + R"(
  label = label -> as_index(3)
}

train t {
  batch     = 4
  steps     = 8
  seed      = 3
  loss      = softmax_ce(logits, label)
  metrics   = [accuracy(logits, label)]
  optimizer = adamw
  lr        = 0.03
}
)";
}

class Preview : public ::testing::Test {
 protected:
  Preview() {
    write_animals(dir, "pictures", 4);
    write_animals(dir, "tests", 1);
    write_model("decode(8) -> random_affine(rotate=1, shift=0.3) -> normalize(mean=[120, 130, 140], std=60)");
  }

  void write_model(const std::string& stages) { dir.write("m.xgraph", model_text(stages)); }
  CommandResult preview(std::vector<std::string> flags) const {
    flags.insert(flags.begin(), {"data", "preview", "m.xgraph"});
    return run_xrun(flags, {.directory = dir.path()});
  }
  // The lines of a run with --format json.
  std::vector<nlohmann::json> lines(std::vector<std::string> flags) const {
    flags.insert(flags.end(), {"--format", "json"});
    const CommandResult result = preview(flags);
    EXPECT_EQ(result.exit, 0) << result.err;
    std::vector<nlohmann::json> all;
    std::istringstream text(result.out);
    for (std::string line; std::getline(text, line);) {
      all.push_back(nlohmann::json::parse(line));
    }
    return all;
  }
  std::string file(const std::string& name) const {
    std::ifstream in(dir.path() + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::vector<uint8_t> pixels(const std::string& name, int& width) const {
    const std::string bytes = file(name);
    std::vector<uint8_t> rgb;
    const auto header = runtime::decode_png(std::as_bytes(std::span(bytes)), {.channels = 3}, rgb);
    EXPECT_TRUE(header.ok());
    width = header.ok() ? static_cast<int>(header->width) : 0;
    return rgb;
  }

  TemporaryDirectory dir;
};

TEST_F(Preview, PicturesHaveTheColoursOfTheirFilesAndTheNamesOfTheirClasses) {
  const auto all = lines({"--no-augment", "-o", "sheet.png"});
  ASSERT_EQ(all.size(), 13U);
  int width = 0;
  const auto rgb = pixels("sheet.png", width);
  ASSERT_EQ(width, 8 * 120 + 8);
  EXPECT_EQ(all.back()["width"], width);
  EXPECT_EQ(rgb.size(), 3U * all.back()["width"].get<size_t>() * all.back()["height"].get<size_t>());
  const int cell_height = (all.back()["height"].get<int>() - 8) / 2;
  std::set<std::string> names;
  for (int i = 0; i < 12; ++i) {
    const auto& line = all[static_cast<size_t>(i)];
    EXPECT_EQ(line["cell"], i + 1);
    names.insert(line["name"].get<std::string>());
    const std::string label = line["label"];
    EXPECT_THAT(line["name"].get<std::string>(), HasSubstr(label));
    const int x = 8 + i % 8 * 120 + 56;
    const int y = 8 + i / 8 * cell_height + 56;
    for (int c = 0; c < 3; ++c) {
      const int value = rgb[3 * static_cast<size_t>(y * width + x) + static_cast<size_t>(c)];
      const bool is_own = (c == 0 && label == "cat") || (c == 1 && label == "dog") || (c == 2 && label == "owl");
      EXPECT_NEAR(value, is_own ? 204 : 44, 8) << line;
    }
  }
  EXPECT_EQ(names.size(), 12U);
}

TEST_F(Preview, SamplesComeInTheOrderOfTraining) {
  for (const int epoch : {1, 3}) {
    const auto all = lines({"--samples", "5", "--epoch", fmt::format("{}", epoch)});
    ASSERT_EQ(all.size(), 6U);
    const runtime::SampleSequence order(SampleOrder::kShuffled, 12, 3);
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(all[static_cast<size_t>(i)]["sample"], order.at((epoch - 1) * 12 + i).sample);
    }
  }
}

TEST_F(Preview, TheSheetDependsOnSeedAndEpochAlone) {
  const auto sheet = [&](const std::vector<std::string>& flags) {
    const CommandResult result = preview(flags);
    EXPECT_EQ(result.exit, 0) << result.err;
    return file("samples.png");
  };
  const std::string first = sheet({"--rows", "0..6"});
  EXPECT_EQ(sheet({"--rows", "0..6"}), first);
  EXPECT_EQ(sheet({"--rows", "0..6", "--seed", "3", "--devices", "1"}), first);
  EXPECT_NE(sheet({"--rows", "0..6", "--seed", "4"}), first);
  EXPECT_NE(sheet({"--rows", "0..6", "--epoch", "2"}), first);
  EXPECT_NE(sheet({"--rows", "0..6", "--no-augment"}), first);
}

TEST_F(Preview, DrawsOfASampleAreThoseOfTheEpochsThatFollow) {
  const auto all = lines({"--rows", "2..4", "--each", "3", "-o", "each.png"});
  ASSERT_EQ(all.size(), 7U);
  EXPECT_EQ(all[4]["sample"], 3);
  EXPECT_EQ(all[4]["draw"], 1);
  lines({"--rows", "2..4", "--epoch", "2", "-o", "second.png"});
  int width = 0;
  int other_width = 0;
  const auto each = pixels("each.png", width);
  const auto second = pixels("second.png", other_width);
  ASSERT_EQ(width, 6 * 120 + 8) << "two samples of three draws";
  for (int y = 8; y < 8 + 112; ++y) {
    const auto row = [&](const std::vector<uint8_t>& of, int of_width, int cell) {
      const auto begin = of.begin() + 3 * (y * of_width + 8 + cell * 120);
      return std::vector<uint8_t>(begin, begin + 3 * 112);
    };
    ASSERT_EQ(row(each, width, 1), row(second, other_width, 0)) << y;
    ASSERT_EQ(row(each, width, 4), row(second, other_width, 1)) << y;
  }
}

// The pictures of a class have one colour, so the colour of a mixed picture shows its two classes and their shares.
TEST_F(Preview, MixedSamplesHaveBothPicturesAndBothClasses) {
  write_model("decode(8) -> mixup(1)");
  const auto all = lines({"--samples", "8", "-o", "mixed.png"});
  ASSERT_EQ(all.size(), 9U);
  int width = 0;
  const auto rgb = pixels("mixed.png", width);
  const runtime::SampleSequence order(SampleOrder::kShuffled, 12, 3);
  const auto kind = [](const std::string& name) -> std::string {
    return name.find("/cat/") != std::string::npos ? "cat" : name.find("/dog/") != std::string::npos ? "dog" : "owl";
  };
  for (int i = 0; i < 8; ++i) {
    const auto& line = all[static_cast<size_t>(i)];
    const auto& mixed = line["mixed"];
    EXPECT_EQ(mixed["stage"], "mixup");
    EXPECT_EQ(mixed["partner"], order.at(i % 4 == 0 ? i + 3 : i - 1).sample) << "the row before it in a batch of 4";
    const double share = mixed["share"];
    const std::string own = kind(line["name"]);
    const std::string partner = kind(mixed["partner_name"]);
    const std::string label = line["label"];
    EXPECT_EQ(label.substr(0, 3), share < 0.5 ? partner : own) << line;
    EXPECT_THAT(label, HasSubstr("% + " + (share < 0.5 ? own : partner) + " ")) << line;
    const int x = 8 + i % 8 * 120 + 56;
    for (size_t c = 0; c < 3; ++c) {
      const auto colour = [&](const std::string& name) {
        return (c == 0 && name == "cat") || (c == 1 && name == "dog") || (c == 2 && name == "owl") ? 204.0 : 44.0;
      };
      EXPECT_NEAR(rgb[3 * static_cast<size_t>((8 + 56) * width + x) + c],
                  share * colour(own) + (1 - share) * colour(partner), 9)
          << line;
    }
  }
  EXPECT_THAT(preview({"--samples", "8"}).out, HasSubstr(".ppm + "));
  for (const auto& line : lines({"--samples", "3", "--no-augment"})) {
    EXPECT_FALSE(line.contains("mixed")) << line;
  }
  write_model("decode(8) -> cutmix(1, one_label=true)");
  const auto one = lines({"--rows", "0..3"});
  EXPECT_EQ(one[0]["mixed"]["stage"], "cutmix");
  EXPECT_EQ(one[0]["mixed"]["partner"], 2) << "without a batch, the partner is the picture before it in the sheet";
  EXPECT_EQ(one[1]["mixed"]["partner"], 0);
  EXPECT_THAT(one[1]["label"].get<std::string>(), ::testing::Not(HasSubstr("+"))) << "a row has one label";
}

TEST_F(Preview, OtherSourcesAreReadAsInAnEvaluation) {
  const auto all = lines({"--source", "test"});
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all.back()["augmented"], false);
  EXPECT_EQ(all[0]["label"], "cat");
  const CommandResult text = preview({"--source", "test"});
  EXPECT_THAT(text.out, HasSubstr("3 pictures of source `test`"));
  EXPECT_THAT(text.out, HasSubstr("owl"));
}

TEST_F(Preview, PairsAreReadByTheNameThatThePictureHasInTraining) {
  ASSERT_EQ(run_xrun({"data", "convert", "pictures", "train.tar"}, {.directory = dir.path()}).exit, 0);
  dir.write("pairs.txt", "pictures/cat/0.ppm pictures/cat/1.ppm 1\npictures/cat/0.ppm pictures/owl/0.ppm 0\n");
  std::string text = model_text("decode(8)");
  for (const auto& [old, changed] :
       {std::pair<std::string, std::string>{"folder(\"pictures\")", "webdataset(\"train.tar\")"},
        {"folder(\"tests\")", "pairs(\"pairs.txt\")"},
        {"image = file", "image = image"},
        {"  metrics   = [accuracy(logits, label)]\n", ""},
        {"label = label", "label = cls"}}) {
    text.replace(text.find(old), old.size(), changed);
  }
  dir.write("m.xgraph", text);
  const auto all = lines({"--source", "test"});
  ASSERT_EQ(all.size(), 5U);
  EXPECT_THAT(all[2]["name"].get<std::string>(), HasSubstr("cat/0.ppm"));
  EXPECT_THAT(all[3]["name"].get<std::string>(), HasSubstr("owl/0.ppm"));
}

TEST_F(Preview, ABrokenSampleIsAnEmptyCellAndAWarning) {
  dir.write("pictures/owl/2.ppm", "P6\n8 8\n255\nshort");
  const CommandResult result = preview({"--format", "json"});
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\"label\":\"broken\""));
  EXPECT_THAT(result.err, HasSubstr("XG0412"));
  EXPECT_THAT(result.err, HasSubstr("owl/2.ppm"));
}

TEST_F(Preview, FaultsNameTheirCauseAndLeaveOtherFilesAlone) {
  dir.write("notes.txt", "not a picture");
  const auto expect = [&](const std::vector<std::string>& flags, const std::string& code, int exit) {
    const CommandResult result = preview(flags);
    EXPECT_EQ(result.exit, exit) << result.err;
    EXPECT_THAT(result.err, HasSubstr(code));
  };
  expect({"-o", "notes.txt"}, "XG0901", 2);
  EXPECT_EQ(file("notes.txt"), "not a picture");
  expect({"--rows", "5..99"}, "XG0902", 2);
  expect({"--input", "label"}, "XG0906", 2);
  expect({"--source", "lfw"}, "XG0413", 1);
  const std::string text = model_text("decode(8)");
  dir.write("m.xgraph", text.substr(0, text.find("data d {")));
  expect({}, "XG0906", 2);
  write_model("decode(7) -> normalize(mean=0, std=1)");
  expect({}, "XG0421", 1);
  EXPECT_FALSE(std::filesystem::exists(dir.path() + "/sheet.png"));
}

}  // namespace
}  // namespace xrun::cli
