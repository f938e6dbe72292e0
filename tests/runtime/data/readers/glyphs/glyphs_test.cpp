#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

#include "graph/base/random.h"
#include "runtime/data/open_reader.h"
#include "runtime/data/readers/glyphs/fonts.h"
#include "tests/runtime/data/data_support.h"
#include "tests/support/golden.h"

namespace xrun::runtime {
namespace {

using namespace testing;

constexpr const char* kTrainingFaces[] = {"wqy-zenhei",
                                          "wqy-microhei",
                                          "DroidSansFallbackFull",
                                          "NotoSansCJK-Regular:2",
                                          "NotoSansCJK-Bold:2",
                                          "NotoSerifCJK-Regular:2",
                                          "NotoSerifCJK-Bold:2",
                                          "HanaMinA",
                                          "BabelStoneHan",
                                          "uming",
                                          "ukai",
                                          "cwkai",
                                          "cwming",
                                          "cwfs",
                                          "ipag",
                                          "ipam"};

// Moves the folder of caches while this object exists. Nothing can be stored below "/dev/null".
class CacheHome {
 public:
  explicit CacheHome(const std::string& path) {
    const char* before = std::getenv("XDG_CACHE_HOME");
    set_ = before != nullptr;
    before_ = set_ ? before : "";
    setenv("XDG_CACHE_HOME", path.c_str(), 1);
  }
  CacheHome(const CacheHome&) = delete;
  ~CacheHome() { set_ ? setenv("XDG_CACHE_HOME", before_.c_str(), 1) : unsetenv("XDG_CACHE_HOME"); }

 private:
  bool set_ = false;
  std::string before_;
};

// Returns the picture as rows of characters, from ' ' (no ink) to '@'.
std::vector<std::string> drawn(const Reader& reader, int64_t sample) {
  FieldValue value;
  EXPECT_TRUE(reader.read(sample, 0, value).ok());
  std::vector<std::string> rows;
  for (int64_t y = 0; y < value.dims[1]; ++y) {
    rows.emplace_back();
    for (int64_t x = 0; x < value.dims[2]; ++x) {
      rows.back() +=
          " .:-=+*#%@"[std::to_integer<int>(value.bytes[static_cast<size_t>(y * value.dims[2] + x)]) * 10 / 256];
    }
  }
  return rows;
}

int32_t integer(const Reader& reader, int64_t sample, const char* field) {
  FieldValue value;
  EXPECT_TRUE(reader.read(sample, reader.find_field(field), value).ok());
  int32_t number = -1;
  std::memcpy(&number, value.bytes.data(), sizeof number);
  return number;
}

#define NEED_FONT(name)                                           \
  if (!find_font(name).ok()) {                                    \
    GTEST_SKIP() << "the font " << (name) << " is not installed"; \
  }

TEST(Glyphs, LabelsAreCodePointsMinusTheFirst) {
  NEED_FONT("uming");
  const auto reader = open_reader(glyphs("a", {"uming"}, 0x4E00, 0x4E20)).value();
  ASSERT_EQ(reader->samples(), 32);
  EXPECT_EQ(reader->classes(), 32);
  for (int64_t i = 0; i < reader->samples(); ++i) {
    EXPECT_EQ(integer(*reader, i, "label"), i);
    EXPECT_EQ(integer(*reader, i, "codepoint"), 0x4E00 + i);
    EXPECT_EQ(integer(*reader, i, "font"), 0);
  }
  EXPECT_EQ(reader->class_name(0), "一");
  EXPECT_EQ(reader->sample_name(9), "uming U+4E09");
  EXPECT_EQ(reader->describe(), "glyphs: 1 face, 32 images of 32x32, 32 classes");
}

// The em box is centred: the bar of U+4E00 crosses the middle and is exactly as wide as the em.
TEST(Glyphs, EmBoxIsInTheMiddle) {
  NEED_FONT("wqy-zenhei");
  const auto reader = open_reader(glyphs("a", {"wqy-zenhei"}, 0x4E00, 0x4E01)).value();
  const auto rows = drawn(*reader, 0);
  int first = 32, last = -1, left = 32, right = -1;
  for (int y = 0; y < 32; ++y) {
    for (int x = 0; x < 32; ++x) {
      if (rows[static_cast<size_t>(y)][static_cast<size_t>(x)] != ' ') {
        first = std::min(first, y);
        last = std::max(last, y);
        left = std::min(left, x);
        right = std::max(right, x);
      }
    }
  }
  EXPECT_GE(first, 13);
  EXPECT_LE(last, 20);
  EXPECT_GE(left, 3);
  EXPECT_LE(right, 28);
  EXPECT_GE(right - left, 20);
}

TEST(Glyphs, CharactersThatAFaceLacksAreLeftOut) {
  NEED_FONT("ipag");
  NEED_FONT("wqy-zenhei");
  const auto whole = open_reader(glyphs("a", {"wqy-zenhei"}, 0x4E00, 0x9FA6)).value();
  EXPECT_EQ(whole->samples(), 20'902);
  const auto some = open_reader(glyphs("a", {"ipag"}, 0x4E00, 0x9FA6)).value();
  EXPECT_EQ(some->samples(), 9'571);
  EXPECT_EQ(some->classes(), 20'902);
  FieldValue value;
  for (int64_t i = 0; i < some->samples(); ++i) {
    ASSERT_TRUE(some->read(i, 0, value).ok());
    ASSERT_TRUE(std::ranges::any_of(value.bytes, [](std::byte b) { return b != std::byte{0}; }))
        << some->sample_name(i);
  }
}

TEST(Glyphs, CharactersAreCountedWithoutDrawing) {
  NEED_FONT("ipag");
  const CacheHome no_cache("/dev/null");
  const SourceSpec spec = glyphs("a", {"ipag"}, 0x4E00, 0x9FA6);
  const auto header = open_header(spec).value();
  EXPECT_EQ(header->samples(), 9'571);
  EXPECT_EQ(header->class_name(0x6C38 - 0x4E00), "永");
  EXPECT_LT(header->memory(), 100'000) << "no pictures";
  EXPECT_EQ(open_header(glyphs("a", {"no-such-font"}, 0x4E00, 0x4E10)).error().code, "XG0411");
}

TEST(Glyphs, FacesOfACollectionDiffer) {
  NEED_FONT("NotoSansCJK-Regular:2");
  const auto reader =
      open_reader(glyphs("a", {"NotoSansCJK-Regular:0", "NotoSansCJK-Regular:2"}, 0x9AA8, 0x9AA9)).value();
  ASSERT_EQ(reader->samples(), 2);
  EXPECT_NE(drawn(*reader, 0), drawn(*reader, 1)) << "U+9AA8 has another form in Japanese and Simplified Chinese";
}

TEST(Glyphs, TheSixteenFacesGiveAllTheirImages) {
  std::vector<std::string> names;
  for (const char* face : kTrainingFaces) {
    NEED_FONT(face);
    names.emplace_back(face);
  }
  const CacheHome no_cache("/dev/null");
  const SourceSpec spec = glyphs("train", names, 0x4E00, 0x9FA6);
  const auto reader = open_reader(spec).value();
  EXPECT_EQ(reader->samples(), 284'045);
  EXPECT_LT(reader->memory(), 320 * 1024 * 1024);
  EXPECT_LE(reader->memory(), data_registry().find_reader("glyphs")->held(spec.reader.args));
}

// Drawing twice gives equal bytes, so a drawing depends neither on threads nor on time.
TEST(Glyphs, DrawingIsRepeatable) {
  NEED_FONT("cwkai");
  const CacheHome no_cache("/dev/null");
  const auto a = open_reader(glyphs("a", {"cwkai"}, 0x4E00, 0x6000)).value();
  const auto b = open_reader(glyphs("b", {"cwkai"}, 0x4E00, 0x6000)).value();
  ASSERT_EQ(a->samples(), b->samples());
  FieldValue x, y;
  for (int64_t i = 0; i < a->samples(); ++i) {
    ASSERT_TRUE(a->read(i, 0, x).ok() && b->read(i, 0, y).ok());
    ASSERT_TRUE(std::ranges::equal(x.bytes, y.bytes));
  }
}

// Compares a drawn glyph with text that a person can read.
TEST(Glyphs, ADrawnCharacterMatchesItsExpectedPicture) {
  NEED_FONT("uming");
  const CacheHome no_cache("/dev/null");
  const auto reader = open_reader(glyphs("a", {"uming"}, 0x6C38, 0x6C39)).value();
  std::string text;
  for (const std::string& row : drawn(*reader, 0)) {
    text += row + "|\n";
  }
  EXPECT_TRUE(test::matches_golden(text, "glyphs/uming-6c38.txt"));
}

// The first run fills the cache, and the second one reads the same bytes from it. If a bit of the cache has changed, it
// is ignored.
TEST(Glyphs, TheCacheGivesTheSameBytesAndDamageIsDetected) {
  NEED_FONT("cwkai");
  namespace fs = std::filesystem;
  const fs::path home = fs::temp_directory_path() / ("xrun_glyph_cache_" + std::to_string(getpid()));
  const CacheHome cache(home.string());
  const auto all = [] {
    const auto reader = open_reader(glyphs("a", {"cwkai"}, 0x4E00, 0x5000)).value();
    std::vector<std::byte> bytes;
    FieldValue value;
    for (int64_t i = 0; i < reader->samples(); ++i) {
      EXPECT_TRUE(reader->read(i, 0, value).ok());
      bytes.insert(bytes.end(), value.bytes.begin(), value.bytes.end());
    }
    return bytes;
  };
  const auto drawn_now = all();
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(home / "xrun")) {
    files.push_back(entry.path());
  }
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(all(), drawn_now);
  std::ifstream in(files[0], std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), {});
  for (const size_t at : {size_t{3}, size_t{9}, size_t{20}, good.size() / 2, good.size() - 1}) {
    std::string damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    std::ofstream(files[0], std::ios::binary | std::ios::trunc) << damaged;
    EXPECT_EQ(all(), drawn_now) << "byte " << at;
  }
  std::ofstream(files[0], std::ios::binary | std::ios::trunc) << good.substr(0, 100);
  EXPECT_EQ(all(), drawn_now);
  fs::remove_all(home);
}

TEST(Glyphs, DrawingThatIsStoppedLeavesNoCache) {
  NEED_FONT("cwkai");
  namespace fs = std::filesystem;
  const fs::path home = fs::temp_directory_path() / ("xrun_glyph_stop_" + std::to_string(getpid()));
  const CacheHome cache(home.string());
  std::atomic<bool> stop{true};
  const auto stopped = open_reader(glyphs("a", {"cwkai"}, 0x4E00, 0x5000), &stop);
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().kind, ErrorKind::kInterrupted);
  EXPECT_FALSE(fs::exists(home / "xrun") && !fs::is_empty(home / "xrun"));
  fs::remove_all(home);
}

TEST(Glyphs, MissingFontNamesItsPackageAndIsASystemError) {
  EXPECT_EQ(package_of_font("cwyen"), "fonts-cwtex-yen");
  EXPECT_EQ(package_of_font("NotoSansCJK-Black"), "fonts-noto-cjk-extra");
  const auto missing = open_reader(glyphs("a", {"no-such-font"}, 0x4E00, 0x4E10));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, "XG0411");
  EXPECT_EQ(exit_code(missing.error().kind), 4);
  EXPECT_NE(missing.error().message.find("no-such-font"), std::string::npos);
}

TEST(Glyphs, FaceThatTheCollectionLacksIsAnError) {
  NEED_FONT("uming");
  const auto missing = open_reader(glyphs("a", {"uming:99"}, 0x4E00, 0x4E10));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, "XG0412");
  EXPECT_EQ(open_reader(glyphs("a", {"uming:x"}, 0x4E00, 0x4E10)).error().code, "XG0413");
}

TEST(Glyphs, RangeWithoutACharacterIsAnEmptySource) {
  NEED_FONT("uming");
  const auto empty = open_reader(glyphs("a", {"uming"}, 0x10FF00, 0x10FF10));
  ASSERT_FALSE(empty.ok());
  EXPECT_EQ(empty.error().code, "XG0406");
}

TEST(RandomFill, GivesTheSameDrawsAsOneByOne) {
  const RandomStream stream(7, 1, 2, 3);
  for (const uint64_t first : {uint64_t{0}, uint64_t{5}, uint64_t{0xfffffff0}, (uint64_t{1} << 33) - 3}) {
    for (const size_t count : {1u, 4u, 31u, 32u, 33u, 200u}) {
      std::vector<uint32_t> draws(count);
      stream.fill(first, draws);
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(draws[i], stream.block(first + i / 4)[i % 4]) << first << " " << count << " " << i;
      }
    }
  }
}

TEST(RandomFill, GivesTheSameNormalsAsOneByOne) {
  const RandomStream stream(11, stable_hash("layer.weight"));
  std::vector<float> one_by_one(200'000);
  for (size_t i = 0; i < one_by_one.size(); ++i) {
    one_by_one[i] = stream.normal(i);
  }
  for (const size_t first : {0u, 1u, 6u, 63u}) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{2}, size_t{63}, size_t{64}, size_t{65}, size_t{199'000}}) {
      std::vector<float> normals(count);
      stream.fill_normal(first, normals);
      ASSERT_TRUE(std::equal(normals.begin(), normals.end(), one_by_one.begin() + static_cast<std::ptrdiff_t>(first)))
          << first << " " << count;
    }
  }
}

}  // namespace
}  // namespace xrun::runtime
