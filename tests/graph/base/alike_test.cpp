// Names that look alike but have different characters.
#include "graph/base/alike.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "graph/base/nearest.h"

namespace xrun {
namespace {

TEST(LookAlikes, DifferentEncodingsOfACharacterAreNamedByCodePoints) {
  EXPECT_EQ(difference_of_alikes("cafe\u0301", "caf\u00E9"), "it has U+00E9 where this one has U+0065 U+0301");
  EXPECT_EQ(difference_of_alikes("caf\u00E9", "cafe\u0301"), "it has U+0065 U+0301 where this one has U+00E9");
  EXPECT_EQ(difference_of_alikes("Gr\u00F6\u00DFe", "Gro\u0308\u00DFe"),
            "it has U+006F U+0308 where this one has U+00F6");
  EXPECT_EQ(difference_of_alikes("\u304C", "\u304B\u3099"), "it has U+304B U+3099 where this one has U+304C");
  EXPECT_EQ(difference_of_alikes("\uD55C", "\u1112\u1161\u11AB"),
            "it has U+1112 U+1161 U+11AB where this one has U+D55C");
  EXPECT_EQ(difference_of_alikes("\u1EA5", "a\u0302\u0301"), "it has U+0061 U+0302 U+0301 where this one has U+1EA5");
  EXPECT_EQ(difference_of_alikes("\u0451\u0436", "\u0435\u0308\u0436"),
            "it has U+0435 U+0308 where this one has U+0451");
}

TEST(LookAlikes, LettersOfOtherAlphabetsAreNamed) {
  EXPECT_EQ(difference_of_alikes("c\u0430t", "cat"), "it has U+0061 where this one has U+0430");
  EXPECT_EQ(difference_of_alikes("d\u03BFg", "dog"), "it has U+006F where this one has U+03BF");
  EXPECT_EQ(difference_of_alikes("\uFF43at", "cat"), "it has U+0063 where this one has U+FF43");
  EXPECT_EQ(difference_of_alikes("red fox", "red\u00A0fox"), "it has U+00A0 where this one has U+0020");
}

TEST(LookAlikes, InvisibleCharactersAreNamed) {
  EXPECT_EQ(difference_of_alikes("cat\u200B", "cat"), "this one has U+200B, which is invisible");
  EXPECT_EQ(difference_of_alikes("cat", "\uFEFFcat"), "it has U+FEFF, which is invisible");
  EXPECT_EQ(difference_of_alikes("ca\u00ADt", "cat"), "this one has U+00AD, which is invisible");
}

TEST(LookAlikes, OtherTextsAreNotAlike) {
  EXPECT_EQ(difference_of_alikes("cat", "cat"), "");
  EXPECT_EQ(difference_of_alikes("cat", "cut"), "");
  EXPECT_EQ(difference_of_alikes("caf\u00E9", "cafe"), "");
  EXPECT_EQ(difference_of_alikes("caf\u00E9", "caf\u00E8"), "");
  EXPECT_EQ(difference_of_alikes("", "\u00E9"), "");
  EXPECT_EQ(difference_of_alikes("\xE9t\xE9", "\u00E9t\u00E9"), "");  // ISO 8859-1, which well_formed() shows
}

TEST(LookAlikes, ANameThatLooksTheSameIsTheNearest) {
  const std::vector<std::string> names{"cat", "dog", "caf\u00E9"};
  EXPECT_EQ(
      nearest_names("cafe\u0301", names),
      "the nearest is `caf\u00E9`, which looks the same: it has U+00E9 where this one has U+0065 U+0301; others are "
      "cat and dog");
  EXPECT_EQ(nearest_names("\u0441\u0430t", names),
            "the nearest is `cat`, which looks the same: it has U+0063 where this one has U+0441; others are dog and "
            "caf\u00E9");
}

}  // namespace
}  // namespace xrun
