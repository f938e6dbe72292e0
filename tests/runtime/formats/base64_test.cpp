#include "runtime/formats/base64.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <random>
#include <string>
#include <vector>

namespace xrun::runtime {
namespace {

std::optional<std::string> decoded(std::string text) {
  const auto bytes = std::as_writable_bytes(std::span(text));
  const auto size = decode_base64(bytes);
  return size ? std::optional(text.substr(0, *size)) : std::nullopt;
}

// The examples of RFC 4648, section 10.
TEST(Base64, TheExamplesOfTheStandardAreDecoded) {
  EXPECT_EQ(decoded(""), "");
  EXPECT_EQ(decoded("Zg=="), "f");
  EXPECT_EQ(decoded("Zm8="), "fo");
  EXPECT_EQ(decoded("Zm9v"), "foo");
  EXPECT_EQ(decoded("Zm9vYg=="), "foob");
  EXPECT_EQ(decoded("Zm9vYmE"), "fooba") << "without padding";
  EXPECT_EQ(decoded("+/+/"), "\xfb\xff\xbf");
}

TEST(Base64, OtherTextsAreRefused) {
  for (const char* text : {"Z", "Zm9vY", "Zm9 ", "Zm=v", "Zg===", "-_-_", "Zm9v\n"}) {
    EXPECT_EQ(decoded(text), std::nullopt) << text;
  }
}

TEST(Base64, TextsByOpenSslAreDecoded) {
  const uint64_t seed = std::random_device()();
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::string bytes(random() % 300, '\0');
    for (char& byte : bytes) {
      byte = static_cast<char>(random());
    }
    std::string text(bytes.size() / 3 * 4 + 5, '\0');
    text.resize(static_cast<size_t>(EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                                    reinterpret_cast<const unsigned char*>(bytes.data()),
                                                    static_cast<int>(bytes.size()))));
    ASSERT_EQ(decoded(text), bytes) << "seed " << seed;
  }
}

}  // namespace
}  // namespace xrun::runtime
