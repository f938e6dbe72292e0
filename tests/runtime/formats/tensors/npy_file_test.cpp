// Arrays that NumPy wrote, in files and archives.
#include "runtime/formats/tensors/npy_file.h"

#include <algorithm>
#include <filesystem>
#include <gmock/gmock.h>

#include "runtime/formats/tensors/npy.h"
#include "runtime/formats/tensors/npy_elements.h"
#include "tests/runtime/data/data_files.h"
#include "tests/support/command.h"

namespace xrun::runtime {
namespace {

using ::testing::HasSubstr;
using NpyFiles = testing::Files;

const std::string kFolder = XRUN_SOURCE_DIR "/tests/runtime/data/files/npy/";

std::shared_ptr<const RandomFile> file(const std::string& path) {
  auto opened = RandomFile::open(path);
  EXPECT_TRUE(opened.ok()) << path;
  return std::make_shared<const RandomFile>(std::move(opened).value());
}

std::vector<double> numbers_of(const NpyFile& array, int64_t sample) {
  std::vector<std::byte> bytes(static_cast<size_t>(array.sample_bytes()));
  EXPECT_TRUE(array.read(sample, 1, bytes).ok());
  std::vector<double> numbers;
  for_each_number(array.header(), bytes.data(), array.sample_items(),
                  [&](int64_t, auto x) { numbers.push_back(static_cast<double>(x)); });
  return numbers;
}

std::vector<double> expected_row(int64_t i) {
  const auto start = static_cast<double>(10 * i);
  return {start, start + 1, start + 2, start + 3};
}

TEST_F(NpyFiles, EveryTypeAndByteOrderOfBothVersionsOfNumPyIsRead) {
  for (const std::string version : {"numpy1/", "numpy2/"}) {
    for (const std::string name : {"types.npz", "types_packed.npz", "types_big.npz"}) {
      const auto archive = file(kFolder + version + name);
      const auto members = list_npz(*archive);
      ASSERT_TRUE(members.ok()) << members.error().message;
      EXPECT_EQ(members->size(), name == "types_big.npz" ? 11U : 12U);
      for (const ZipMember& member : *members) {
        const auto array = NpyFile::open_member(archive, member, "", NpyFile::Extent::kWhole, nullptr);
        ASSERT_TRUE(array.ok()) << array.error().message;
        ASSERT_EQ(array->samples(), 6);
        EXPECT_EQ(array->held(), name == "types_packed.npz" ? member.bytes : 0);
        for (int64_t i = 0; i < 6; ++i) {
          const auto row = member.name == "b1" ? std::vector<double>{0, 1, 0, 1} : expected_row(i);
          EXPECT_EQ(numbers_of(*array, i), row) << name << " " << member.name;
        }
      }
    }
  }
}

TEST_F(NpyFiles, ASampleInTheOrderOfFortranEqualsThatOfC) {
  const auto plain = NpyFile::open(file(kFolder + "numpy2/pictures.npy"), "");
  const auto fortran = NpyFile::open(file(kFolder + "numpy2/pictures_fortran.npy"), "");
  ASSERT_TRUE(plain.ok() && fortran.ok());
  ASSERT_TRUE(fortran->header().is_fortran && fortran->header().is_big_endian);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(numbers_of(*plain, i), numbers_of(*fortran, i));
  }
}

TEST_F(NpyFiles, TheHeaderOfACompressedArrayIsReadWithoutItsData) {
  const auto archive = file(kFolder + "numpy2/types_packed.npz");
  const auto members = list_npz(*archive);
  ASSERT_TRUE(members.ok());
  for (const ZipMember& member : *members) {
    const auto array = NpyFile::open_member(archive, member, "", NpyFile::Extent::kHeader, nullptr);
    ASSERT_TRUE(array.ok()) << array.error().message;
    EXPECT_EQ(array->samples(), 6);
    EXPECT_EQ(array->held(), member.bytes);
  }
}

TEST_F(NpyFiles, ATruncatedFileIsRejectedWithTheBytesThatItNeeds) {
  const std::string whole = xrun::testing::read_file(kFolder + "numpy2/rows.npy");
  for (size_t length = 0; length < whole.size(); ++length) {
    const auto array = NpyFile::open(file(write("cut.npy", whole.substr(0, length))), "");
    ASSERT_FALSE(array.ok()) << length;
    EXPECT_EQ(array.error().code, "XG0412");
    if (length >= 128) {
      EXPECT_THAT(array.error().message, HasSubstr("cut short: f32 [6, 4] needs 96 bytes from byte 128 on, but only " +
                                                   std::to_string(length - 128) + " are there"));
    }
  }
}

TEST_F(NpyFiles, ASecondArrayInAFileIsNotDropped) {
  const std::string one = xrun::testing::read_file(kFolder + "numpy2/rows.npy");
  const auto array = NpyFile::open(file(write("two.npy", one + one)), "");
  ASSERT_FALSE(array.ok());
  EXPECT_THAT(array.error().message, HasSubstr("f32 [6, 4] has 96 bytes, but 224 bytes more follow"));
  EXPECT_THAT(array.error().help, HasSubstr("numpy.savez"));
}

TEST_F(NpyFiles, AFileThatBecomesShorterGivesAnError) {
  const std::string path = write("x.npy", xrun::testing::read_file(kFolder + "numpy2/rows.npy"));
  const auto array = NpyFile::open(file(path), "");
  ASSERT_TRUE(array.ok());
  std::filesystem::resize_file(path, 140);
  std::vector<std::byte> bytes(16);
  const Status done = array->read(3, 1, bytes);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, "XG0412");
  EXPECT_THAT(done.error().message, HasSubstr("it became shorter after it was opened"));
}

TEST_F(NpyFiles, AnyDamageToAnArchiveIsAnErrorOrLeavesSamplesToRead) {
  const std::string whole = xrun::testing::read_file(kFolder + "numpy2/types_packed.npz");
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(~bytes[at]);
    const auto archive =
        std::make_shared<const RandomFile>(RandomFile::in_memory(std::as_bytes(std::span(bytes)), "set.npz"));
    const auto members = list_npz(*archive);
    for (const ZipMember& member : members.ok() ? *members : std::vector<ZipMember>()) {
      const auto array = NpyFile::open_member(archive, member, "", NpyFile::Extent::kWhole, nullptr);
      if (array.ok()) {
        std::vector<std::byte> sample(static_cast<size_t>(array->sample_bytes()));
        EXPECT_TRUE(array->read(array->samples() - 1, 1, sample).ok());
      } else {
        EXPECT_EQ(array.error().code, "XG0412");
      }
    }
  }
}

// `xrun predict --embedding -o e.npz` writes such archives.
TEST_F(NpyFiles, ArchivesThatWeWriteAreRead) {
  const std::vector<float> rows{1, 2, 3, 4, 5, 6};
  const std::vector<std::string> names{"a", "bc"};
  const auto texts = npy_texts(names, kMiB);
  ASSERT_TRUE(texts.ok());
  const NpyArray arrays[] = {
      {"embeddings", "<f4", {2, 3}, std::as_bytes(std::span(rows))},
      {"names", texts->descr, {2}, std::as_bytes(std::span(texts->data))},
  };
  std::string written;
  const ByteSink sink = [&](std::span<const std::byte> bytes) {
    written.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return 0;
  };
  ASSERT_TRUE(write_npz(arrays, sink).ok());
  const auto archive =
      std::make_shared<const RandomFile>(RandomFile::in_memory(std::as_bytes(std::span(written)), "e.npz"));
  const auto members = list_npz(*archive);
  ASSERT_TRUE(members.ok()) << members.error().message;
  ASSERT_EQ(members->size(), 2U);
  const auto embeddings = NpyFile::open_member(archive, (*members)[0], "", NpyFile::Extent::kWhole, nullptr);
  ASSERT_TRUE(embeddings.ok()) << embeddings.error().message;
  EXPECT_EQ(numbers_of(*embeddings, 1), (std::vector<double>{4, 5, 6}));
  EXPECT_EQ(embeddings->held(), 0);
  const auto read_names = NpyFile::open_member(archive, (*members)[1], "", NpyFile::Extent::kWhole, nullptr);
  ASSERT_TRUE(read_names.ok()) << read_names.error().message;
  EXPECT_EQ(npy_content(read_names->header()), "texts [2]");
}

TEST_F(NpyFiles, OneNumberIsNoArrayOfSamples) {
  const auto array = NpyFile::open(file(kFolder + "numpy2/scalar.npy"), "");
  ASSERT_FALSE(array.ok());
  EXPECT_THAT(array.error().message, HasSubstr("one number, not an array of samples"));
}

}  // namespace
}  // namespace xrun::runtime
