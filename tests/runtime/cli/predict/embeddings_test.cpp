// Files of embeddings: rows, names and classes match, whatever the names are, and no incomplete file is left behind.
#include "runtime/cli/predict/embeddings.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <tuple>

#include "runtime/data/readers/natural_order.h"
#include "runtime/formats/files.h"
#include "runtime/formats/tensors/npy.h"
#include "tests/runtime/data/data_files.h"
#include "tests/support/command.h"

namespace xrun::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
namespace fs = std::filesystem;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
  }
  return lines;
}

class EmbeddingFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_.write("m.xgraph", runtime::testing::folder_model(3));
    for (const char* name :
         {"train/b/1.png", "train/b/2.png", "train/b/10.png", "train/\xC3\xA9\t1/2.png", "train/c/x\n.png",
          "test/b/2.png", "test/b/10.png", "test/b/1.png", "test/\xC3\xA9\t1/7.png", "test/c/x\n.png"}) {
      write(name, runtime::testing::png(4, static_cast<uint8_t>(std::strlen(name) * 7)));
    }
    ASSERT_EQ(run({"train", "m.xgraph", "--progress", "none"}).exit, 0);
  }
  void write(const std::string& name, const std::string& bytes) const {
    fs::create_directories(fs::path(at(name)).parent_path());
    std::ofstream(at(name), std::ios::binary) << bytes;
  }
  std::string at(const std::string& name) const { return directory_.path() + "/" + name; }
  CommandResult run(const std::vector<std::string>& words, CommandOptions options = {}) const {
    options.directory = directory_.path();
    return run_xrun(words, options);
  }
  CommandResult embed(const std::string& file, CommandOptions options = {}) const {
    return run({"predict", "ckpt/t", "--source", "test", "--embedding", "-o", file}, options);
  }
  std::vector<std::string> left() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_.path())) {
      names.push_back(entry.path().filename());
    }
    return names;
  }
  TemporaryDirectory directory_;
};

TEST_F(EmbeddingFiles, HaveATableNextToAnArray) {
  const auto result = embed("e.npy");
  ASSERT_EQ(result.exit, 0) << result.err;
  EXPECT_EQ(result.out, "e.npy   f32[5, 3]   logits\ne.tsv   names, labels and classes\n");
  EXPECT_THAT(read_file(at("e.npy")), HasSubstr("'shape': (5, 3)"));
  const std::string root = at("test");
  EXPECT_THAT(
      lines_of(read_file(at("e.tsv"))),
      ElementsAre("name\tlabel\tclass", root + "/b/1.png\t0\tb", root + "/b/2.png\t0\tb", root + "/b/10.png\t0\tb",
                  root + "/c/x\\n.png\t1\tc", root + "/\xC3\xA9\\t1/7.png\t2\t\xC3\xA9\\t1"));
  // The rows equal those of the text output.
  const std::string text = run({"predict", "ckpt/t", "--source", "test", "--embedding", "--format", "json"}).out;
  const std::string array = read_file(at("e.npy"));
  size_t row = 0;
  for (const std::string& line : lines_of(text)) {
    const auto object = nlohmann::json::parse(line);
    EXPECT_TRUE(object.contains("label") && object.contains("class"));
    for (size_t column = 0; column < 3; ++column) {
      float value = 0;
      std::memcpy(&value, array.data() + array.size() - 4 * (15 - 3 * row - column), 4);
      EXPECT_FLOAT_EQ(value, object["embedding"][column].get<float>());
    }
    ++row;
  }
  EXPECT_EQ(row, 5u);
}

TEST_F(EmbeddingFiles, HaveArraysThatNumPyReadsInAnArchive) {
  ASSERT_EQ(embed("e.npz").exit, 0);
  std::map<std::string, std::string> arrays;
  ASSERT_TRUE(runtime::visit_archive(at("e.npz"), nullptr, [&](runtime::ArchiveEntry& entry) {
                std::vector<std::byte> bytes;
                const Status read = entry.read(bytes, kMiB);
                arrays[std::string(entry.name())].assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                return read;
              }).ok());
  EXPECT_THAT(arrays["embeddings.npy"], HasSubstr("{'descr': '<f4', 'fortran_order': False, 'shape': (5, 3), }"));
  EXPECT_THAT(arrays["labels.npy"], HasSubstr("{'descr': '<i8', 'fortran_order': False, 'shape': (5,), }"));
  EXPECT_THAT(arrays["names.npy"], HasSubstr("'shape': (5,), }"));
  EXPECT_EQ(arrays["labels.npy"].size(), 128u + 5 * 8);
  ASSERT_EQ(embed("e.npy").exit, 0);
  EXPECT_EQ(arrays["embeddings.npy"], read_file(at("e.npy"))) << "the same array";
  if (std::system("python3 -c 'import numpy' 2>/dev/null") != 0) {
    GTEST_SKIP() << "the arrays are right; numpy is not there to read them, too";
  }
  const std::string script =
      "import numpy as n; a = n.load('" + at("e.npz") +
      "', allow_pickle=False); assert a['embeddings'].shape == (5, 3); assert list(a['labels']) == [0, 0, 0, 1, 2]; "
      "assert a['names'][2].endswith('/b/10.png') and a['names'][3].endswith('/c/x\\n.png'); assert a['classes'][4] == "
      "'\\u00e9\\t1'";
  directory_.write("look.py", script);
  EXPECT_EQ(std::system(("python3 " + at("look.py")).c_str()), 0);
}

TEST_F(EmbeddingFiles, AreWrittenCompletelyOrNotAtAll) {
  ASSERT_EQ(embed("e.npy").exit, 0);
  const auto before = left();
  const std::string array = read_file(at("e.npy"));
  // The array fits into the limit, but the table does not.
  EXPECT_EQ(embed("e.npy", {.file_size_limit = 250}).exit, 4);
  EXPECT_EQ(read_file(at("e.npy")), array);
  EXPECT_EQ(embed("f.npy", {.file_size_limit = 250}).exit, 4);
  EXPECT_EQ(embed("f.npz", {.file_size_limit = 250}).exit, 4);
  EXPECT_THAT(left(), ::testing::UnorderedElementsAreArray(before)) << "nothing half-written";
  // The user's table would be overwritten.
  directory_.write("g.tsv", "mine\n");
  const auto refused = embed("g.npy");
  EXPECT_EQ(refused.exit, 2);
  EXPECT_THAT(refused.err, HasSubstr("g.tsv` exists and is not a table of embeddings, so it would be lost"));
  EXPECT_FALSE(fs::exists(at("g.npy")));
  const auto ending = embed("e.np");
  EXPECT_EQ(ending.exit, 2);
  EXPECT_THAT(ending.err, HasSubstr("ends with .npy or .npz"));
  EXPECT_THAT(ending.err, HasSubstr("did you mean `-o e.npy`?"));
}

// An existing archive or array, such as one from `numpy.save`, is not overwritten if it does not hold embeddings.
TEST_F(EmbeddingFiles, NeverReplaceForeignFiles) {
  const runtime::NpyArray other{"pixels", "<f4", {2}, std::as_bytes(std::span("8 bytes"))};
  std::string zip;
  ASSERT_TRUE(runtime::write_npz(std::span(&other, 1), [&](std::span<const std::byte> bytes) {
                zip.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                return 0;
              }).ok());
  const std::string array = runtime::npy_header({.descr = "<f4", .shape = {2, 1}}) + "8 bytes";
  for (const auto& [name, bytes, cause] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {"a.npz", zip, "is not a NumPy archive of embeddings"},
           {"b.npz", std::string("PK\x05\x06") + std::string(18, '\0'), "is not a NumPy archive of embeddings"},
           {"c.npz", "PK\x03\x04", "is not a NumPy archive of embeddings"},
           {"d.npy", array, "no table of embeddings is in d.tsv"}}) {
    write(name, bytes);
    const auto refused = embed(name);
    EXPECT_EQ(refused.exit, 2) << name;
    EXPECT_THAT(refused.err, HasSubstr("error[XG0901]: `" + name + "` exists")) << name;
    EXPECT_THAT(refused.err, HasSubstr(cause)) << name;
    EXPECT_THAT(refused.err, HasSubstr("it would be lost")) << name;
    EXPECT_EQ(read_file(at(name)), bytes) << name;
  }
  // Files of this command are replaced, and so are empty files.
  for (const char* name : {"e.npz", "e.npy"}) {
    write(name, "");
    EXPECT_EQ(embed(name).exit, 0) << name;
    EXPECT_EQ(embed(name).exit, 0) << name;
  }
}

TEST_F(EmbeddingFiles, ListFilesInNaturalOrderLikePredictions) {
  const auto names = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all;
    for (const std::string& line : lines_of(run(words).out)) {
      const std::string name = nlohmann::json::parse(line)["input"];
      all.push_back(name.substr(name.find("test/")));
    }
    return all;
  };
  EXPECT_THAT(names({"predict", "ckpt/t", "test/b", "--format", "json"}),
              ElementsAre("test/b/1.png", "test/b/2.png", "test/b/10.png"));
  EXPECT_THAT(names({"predict", "ckpt/t", "test/b/2.png", "test/b/10.png", "test/b/1.png", "--format", "json"}),
              ElementsAre("test/b/2.png", "test/b/10.png", "test/b/1.png"))
      << "files that are named stay as they are named";
  EXPECT_THAT(names({"predict", "ckpt/t", "--source", "test", "--rows", "1..3", "--format", "json"}),
              ElementsAre("test/b/2.png", "test/b/10.png"));
  fs::create_directory(at("none"));
  const auto none = run({"predict", "ckpt/t", "none"});
  EXPECT_EQ(none.exit, 1);
  EXPECT_THAT(none.err, HasSubstr("XG0406]: there are no pictures below none"));
}

TEST(NaturalOrder, ReadsDigitsAsNumbers) {
  const std::vector<std::string> order{"",
                                       "2.png",
                                       "10.png",
                                       "a/1.png",
                                       "a/b/1.png",
                                       "a b/1.png",
                                       "a1b2.png",
                                       "a1b10.png",
                                       "a01c.png",
                                       "a2.png",
                                       "a002.png",
                                       "a99999999999999999999",
                                       "a100000000000000000000",
                                       "b"};
  for (size_t i = 0; i < order.size(); ++i) {
    for (size_t j = 0; j < order.size(); ++j) {
      if (order[i] == "a2.png" || order[j] == "a2.png") {
        continue;  // sorts next to a002.png; checked below
      }
      EXPECT_EQ(runtime::comes_before(order[i], order[j]), i < j) << order[i] << " and " << order[j];
    }
  }
  EXPECT_TRUE(runtime::comes_before("a002.png", "a2.png"));
  EXPECT_FALSE(runtime::comes_before("a2.png", "a002.png"));
}

TEST(TsvCell, EscapesTabsLineBreaksAndControlBytes) {
  EXPECT_EQ(cli::tsv_cell("a\tb\nc\rd\\e\x1B\x7F\xFF \xC3\xA9"), "a\\tb\\nc\\rd\\\\e\\x1B\\x7F\\xFF \xC3\xA9");
}

TEST(NpyTexts, AreUtf32OfOneWidthAndBounded) {
  const std::vector<std::string> texts{"a\xC3\xA9\xF0\x9F\x98\x80", "", "\xFF"};
  const auto array = runtime::npy_texts(texts, kMiB).value();
  EXPECT_EQ(array.descr, "<U4");
  EXPECT_EQ(std::u32string(array.data.begin(), array.data.end()),
            std::u32string(U"a\u00e9\U0001F600\0", 4) + std::u32string(4, U'\0') + U"\\xFF");
  const auto large = runtime::npy_texts(std::vector<std::string>(300'000, "x"), kMiB);
  ASSERT_FALSE(large.ok());
  EXPECT_THAT(large.error().message, StartsWith("300 000 names of up to 1 characters would take 1.1 MiB"));
  EXPECT_THAT(large.error().help, EndsWith("whose names go into a .tsv file next to it"));
}

}  // namespace
}  // namespace xrun::testing
