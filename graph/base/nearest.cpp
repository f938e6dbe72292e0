#include "graph/base/nearest.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <iterator>
#include <utility>

#include "graph/base/alike.h"
#include "graph/base/units.h"
#include "graph/base/utf8.h"

namespace xrun {
namespace {

constexpr size_t kLongest = 64;    // words longer than this are not compared
constexpr size_t kMostListed = 5;  // near names

// The optimal string alignment distance of two words: the number of insertions, deletions, replacements and swaps of
// neighbouring characters. If it is larger than `most`, the result is any number above `most`.
size_t distance(std::string_view a, std::string_view b, size_t most) {
  std::array<std::array<uint8_t, kLongest + 1>, 3> rows;  // the last three rows of the table of distances
  size_t least_before = 0;
  for (size_t i = 0; i <= a.size(); ++i) {
    auto& row = rows[i % 3];
    const auto& above = rows[(i + 2) % 3];
    size_t least_here = kLongest;
    for (size_t j = 0; j <= b.size(); ++j) {
      int least = static_cast<int>(i + j);
      if (i > 0 && j > 0) {
        const int change = a[i - 1] == b[j - 1] ? 0 : 1;
        least = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + change});
      }
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        least = std::min(least, rows[(i + 1) % 3][j - 2] + 1);
      }
      row[j] = static_cast<uint8_t>(least);
      least_here = std::min(least_here, static_cast<size_t>(least));
    }
    // If two consecutive rows are above `most`, so are all later rows.
    if (std::min(least_before, least_here) > most) {
      return most + 1;
    }
    least_before = least_here;
  }
  return rows[a.size() % 3][b.size()];
}

std::string in_small_letters(std::string_view word) {
  std::string text(word);
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// The positions of at most `most` candidates that are near, the nearest first; of equally near ones the first.
std::vector<size_t> find_near(std::string_view written, std::span<const std::string> candidates, size_t most) {
  std::vector<std::pair<size_t, size_t>> near;  // distances and positions
  if (written.size() > kLongest) {
    return {};
  }
  const std::string name = in_small_letters(written);
  const size_t allowed = std::max<size_t>(1, name.size() / 3);
  for (size_t i = 0; i < candidates.size(); ++i) {
    const std::string& known = candidates[i];
    const size_t difference = std::max(known.size(), name.size()) - std::min(known.size(), name.size());
    if (known.empty() || known.size() > kLongest) {
      continue;
    }
    const std::string candidate = in_small_letters(known);
    // `batchsize` for `batch`: a word with something attached is also near.
    const bool attached =
        candidate.size() >= 4 && name.size() >= 4 && (name.starts_with(candidate) || candidate.starts_with(name));
    if (difference > allowed && !attached) {
      continue;
    }
    const size_t limit = near.size() < most ? allowed + 1 : near.back().first;  // a nearer one is wanted
    size_t away = distance(name, candidate, limit);
    if (attached) {
      away = std::min<size_t>(away, 2);
    }
    // If every character differs, it is another name and not a typing slip.
    if (away < limit && away < name.size()) {
      near.insert(std::ranges::upper_bound(near, std::pair(away, i)), {away, i});
      near.resize(std::min(near.size(), most));
    }
  }
  std::vector<size_t> positions;
  std::ranges::transform(near, std::back_inserter(positions), &std::pair<size_t, size_t>::second);
  return positions;
}

// A name in a list: on one line, cut after a number of bytes.
std::string shown(std::string_view name) {
  constexpr size_t kMostBytes = 60;
  if (name.size() <= kMostBytes) {
    return printable_line(name);
  }
  size_t cut = kMostBytes;
  while (cut > 0 && (static_cast<unsigned char>(name[cut]) & 0xC0) == 0x80) {
    --cut;
  }
  return printable_line(name.substr(0, cut)) + "...";
}

// "a, b and c".
std::string list_of(std::span<const std::string> candidates, std::span<const size_t> positions) {
  std::string text;
  for (size_t i = 0; i < positions.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == positions.size() ? " and " : ", ") + shown(candidates[positions[i]]);
  }
  return text;
}

// The text for at most six candidates, which lists all of them. `nearest`: a position, or the end.
std::string all_names(std::span<const std::string> candidates, size_t nearest, const std::string& alike) {
  std::vector<size_t> others;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (i != nearest) {
      others.push_back(i);
    }
  }
  if (nearest == candidates.size()) {
    return candidates.size() == 1 ? "the only known name is " + shown(candidates[0])
                                  : "no known name is near; they are " + list_of(candidates, others);
  }
  const std::string near = "the nearest is `" + shown(candidates[nearest]) + "`" + alike;
  return others.empty()
             ? near
             : near + (others.size() == 1 ? "; the other is " : "; others are ") + list_of(candidates, others);
}

}  // namespace

std::string nearest(std::string_view written, const std::vector<std::string>& candidates) {
  if (candidates.size() > kMostCandidates) {
    return {};
  }
  const std::vector<size_t> found = find_near(written, candidates, 1);
  return found.empty() ? std::string() : candidates[found[0]];
}

std::string nearest_names(std::string_view written, std::span<const std::string> candidates, std::string_view where) {
  if (candidates.empty()) {
    return "no names are known";
  }
  std::vector<size_t> near = find_near(written, candidates, kMostListed);
  // A known name that looks the same is what the user meant, whatever its distance in bytes.
  const auto differs = [&](const std::string& known) { return difference_of_alikes(written, known); };
  const auto found =
      std::ranges::find_if(candidates, [&](const std::string& known) { return !differs(known).empty(); });
  std::string alike;
  if (found != candidates.end()) {
    alike = ", which looks the same: " + differs(*found);
    const auto position = static_cast<size_t>(found - candidates.begin());
    std::erase(near, position);
    near.insert(near.begin(), position);
  }
  if (candidates.size() <= kMostListed + 1) {
    return all_names(candidates, near.empty() ? candidates.size() : near[0], alike);
  }
  const std::string count = format_count(std::ssize(candidates));
  if (near.empty()) {
    return "none of the " + count + " known names is near" + (where.empty() ? "" : "; " + std::string(where));
  }
  std::string text = "the nearest is `" + shown(candidates[near[0]]) + "`" + alike;
  if (near.size() > 1) {
    text += "; " + list_of(candidates, std::span(near).subspan(1)) + (near.size() == 2 ? " is" : " are") + " also near";
  }
  return text + "; there are " + count + " names";
}

}  // namespace xrun
