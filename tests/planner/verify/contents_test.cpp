// Compares the map of contents with one symbol and one position for each byte.
#include "planner/verify/contents.h"

#include <gtest/gtest.h>
#include <iostream>
#include <random>

namespace xrun::planner {
namespace {

constexpr Bytes kBytes = 48;

struct Byte {
  Content content;
  Bytes origin = 0;
};

TEST(Contents, EqualsAMapOfSingleBytes) {
  const uint64_t seed = 20'261'130;
  std::cout << "seed " << seed << "\n";
  std::mt19937_64 random(seed);
  const Content symbols[] = {{}, {.what = What::kZero}, {.what = What::kValue, .id = 1}, {.what = What::kNorms}};
  for (int round = 0; round < 200; ++round) {
    Contents contents;
    std::vector<Byte> bytes(kBytes);
    for (int step = 0; step < 40; ++step) {
      const auto begin = static_cast<Bytes>(random() % kBytes);
      const Bytes end = begin + static_cast<Bytes>(random() % static_cast<uint64_t>(kBytes - begin + 1));
      const Content& content = symbols[random() % std::size(symbols)];
      const Bytes origin = begin + static_cast<Bytes>(random() % 3);  // often that of an adjacent piece
      if (random() % 2 == 0) {
        contents.set(begin, end, content, origin);
        for (Bytes b = begin; b < end; ++b) {
          bytes[static_cast<size_t>(b)] = {content, origin + b - begin};
        }
      }
      const auto found = contents.lacks(begin, end, content, origin);
      Bytes first = begin;
      const auto fits = [&](Bytes b) {
        const Byte& byte = bytes[static_cast<size_t>(b)];
        return byte.content == content && (content.what != What::kNothing) &&
               (content.what == What::kZero || byte.origin == origin + b - begin);
      };
      while (first < end && fits(first)) {
        ++first;
      }
      ASSERT_EQ(found.has_value(), first < end);
      if (found.has_value()) {
        // Adjacent pieces of one symbol are one piece, so the fault may begin before the first byte that differs only
        // if the piece as a whole has another origin.
        EXPECT_LE(found->begin, first);
        EXPECT_GT(found->end, first);
        EXPECT_EQ(found->content, bytes[static_cast<size_t>(first)].content);
      }
      Bytes place = begin;
      contents.for_each(begin, end, [&](const Contents::Piece& piece) {
        EXPECT_EQ(piece.begin, place);
        for (Bytes b = piece.begin; b < piece.end; ++b) {
          const Byte& byte = bytes[static_cast<size_t>(b)];
          ASSERT_EQ(piece.content, byte.content);
          if (piece.content.what == What::kValue || piece.content.what == What::kNorms) {
            ASSERT_EQ(piece.origin + b - piece.begin, byte.origin);
          }
        }
        place = piece.end;
      });
      EXPECT_EQ(place, end);
    }
  }
}

TEST(Contents, WritesInManyPartsAreOnePiece) {
  Contents contents;
  const Content rows{.what = What::kValue, .id = 3};
  for (const Bytes part : {4, 0, 2, 3, 1}) {
    contents.set(part * 10, part * 10 + 10, rows, 100 + part * 10);
  }
  int pieces = 0;
  contents.for_each(0, 50, [&](const Contents::Piece& piece) {
    ++pieces;
    EXPECT_EQ(piece.origin, 100);
  });
  EXPECT_EQ(pieces, 1);
  EXPECT_FALSE(contents.lacks(5, 45, rows, 105).has_value());
  EXPECT_TRUE(contents.lacks(5, 45, rows, 106).has_value());
}

}  // namespace
}  // namespace xrun::planner
