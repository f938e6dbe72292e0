#include "lang/nearest.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>

namespace xrun::lang {
namespace {

constexpr size_t kLongest = 64;  // words longer than this are not compared

// Optimal string alignment: insertions, deletions, replacements and swaps of neighbours.
size_t distance(std::string_view a, std::string_view b) {
  std::array<std::array<uint8_t, kLongest + 1>, 3> rows;  // the last three of the table
  for (size_t i = 0; i <= a.size(); ++i) {
    auto& row = rows[i % 3];
    const auto& above = rows[(i + 2) % 3];
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        row[j] = static_cast<uint8_t>(i + j);
        continue;
      }
      const int change = a[i - 1] == b[j - 1] ? 0 : 1;
      int least = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        least = std::min(least, rows[(i + 1) % 3][j - 2] + 1);
      }
      row[j] = static_cast<uint8_t>(least);
    }
  }
  return rows[a.size() % 3][b.size()];
}

std::string in_small_letters(std::string_view word) {
  std::string text(word);
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

std::string nearest(std::string_view written, const std::vector<std::string>& candidates) {
  if (candidates.size() > kMostCandidates || written.size() > kLongest) {
    return {};
  }
  const std::string name = in_small_letters(written);
  const size_t allowed = std::max<size_t>(1, name.size() / 3);
  const std::string* best = nullptr;
  size_t best_distance = allowed + 1;
  for (const std::string& known : candidates) {
    const std::string candidate = in_small_letters(known);
    const size_t difference = std::max(candidate.size(), name.size()) - std::min(candidate.size(), name.size());
    // `batchsize` for `batch`: a word with something attached is near, too.
    const bool attached =
        candidate.size() >= 4 && name.size() >= 4 && (name.starts_with(candidate) || candidate.starts_with(name));
    if (candidate.empty() || candidate.size() > kLongest || (difference > allowed && !attached)) {
      continue;
    }
    size_t away = distance(name, candidate);
    if (attached) {
      away = std::min<size_t>(away, 2);
    }
    // If every letter differs, it is another name and not a slip.
    if (away < best_distance && away < name.size()) {
      best = &known;
      best_distance = away;
    }
  }
  return best != nullptr ? *best : std::string();
}

}  // namespace xrun::lang
