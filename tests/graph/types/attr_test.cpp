#include "graph/types/attr.h"

#include <gtest/gtest.h>
#include <type_traits>

namespace xrun {
namespace {

// When memory was refused while arguments were copied, training ended by SIGSEGV: the standard library assumed that
// this variant always has a value.
#ifdef __GLIBCXX__
template <typename... T>
constexpr bool always_has_a_value(std::type_identity<std::variant<T...>>) {
  return std::__detail::__variant::__never_valueless<T...>();
}
TEST(AttrValue, TheLibraryDoesNotAssumeThatItAlwaysHasAValue) {
  EXPECT_FALSE(always_has_a_value(std::type_identity<AttrValue>()));
  EXPECT_TRUE(always_has_a_value(std::type_identity<std::variant<int, std::string, std::vector<std::string>>>()))
      << "the library no longer needs TextList";
}
#endif

TEST(AttrValue, AListOfTextsKeepsItsType) {
  const Attrs attrs{{"fonts", std::vector<std::string>{"uming", "ukai"}}};
  EXPECT_EQ(attrs.texts("fonts"), (std::vector<std::string>{"uming", "ukai"}));
  EXPECT_EQ(attrs, (Attrs{{"fonts", TextList{"uming", "ukai"}}}));
}

}  // namespace
}  // namespace xrun
