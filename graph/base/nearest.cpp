#include "graph/base/nearest.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>

#include "graph/base/alike.h"
#include "graph/base/units.h"
#include "graph/base/utf8.h"

namespace xrun {
namespace {

constexpr size_t kLongest = 64;  // words longer than this are not compared
constexpr size_t kMostListed = 5;

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

// The position of the nearest candidate, or the end.
size_t find_nearest(std::string_view written, std::span<const std::string> candidates) {
  if (written.size() > kLongest) {
    return candidates.size();
  }
  const std::string name = in_small_letters(written);
  const size_t allowed = std::max<size_t>(1, name.size() / 3);
  size_t best = candidates.size();
  size_t best_distance = allowed + 1;
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
    size_t away = distance(name, candidate, best_distance);
    if (attached) {
      away = std::min<size_t>(away, 2);
    }
    // If every character differs, it is another name and not a typing slip.
    if (away < best_distance && away < name.size()) {
      best = i;
      best_distance = away;
    }
  }
  return best;
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

// "a, b, c and 17 more" or "a, b and c", without the candidate at `left_out`.
std::string some_of(std::span<const std::string> candidates, size_t left_out) {
  const size_t all = candidates.size() - (left_out < candidates.size() ? 1 : 0);
  const size_t listed = std::min(all, kMostListed);
  std::string text;
  for (size_t i = 0, done = 0; done < listed; ++i) {
    if (i != left_out) {
      ++done;
      text += (done == 1 ? "" : done == listed && listed == all ? " and " : ", ") + shown(candidates[i]);
    }
  }
  return listed == all ? text : text + " and " + format_count(static_cast<int64_t>(all - listed)) + " more";
}

}  // namespace

std::string nearest(std::string_view written, const std::vector<std::string>& candidates) {
  const size_t found = candidates.size() > kMostCandidates ? candidates.size() : find_nearest(written, candidates);
  return found < candidates.size() ? candidates[found] : std::string();
}

std::string nearest_names(std::string_view written, std::span<const std::string> candidates) {
  if (candidates.empty()) {
    return "no names are known";
  }
  // A known name that looks the same is what the user meant, whatever its distance in bytes.
  const auto differs = [&](const std::string& known) { return difference_of_alikes(written, known); };
  const auto alike =
      std::ranges::find_if(candidates, [&](const std::string& known) { return !differs(known).empty(); });
  const bool is_alike = alike != candidates.end();
  const size_t found = is_alike ? static_cast<size_t>(alike - candidates.begin()) : find_nearest(written, candidates);
  if (found == candidates.size()) {
    const std::string first = candidates.size() <= kMostListed ? "they are " : "some are ";
    return candidates.size() == 1 ? "the only known name is " + shown(candidates[0])
                                  : "no known name is near; " + first + some_of(candidates, found);
  }
  std::string near = "the nearest is `" + shown(candidates[found]) + "`";
  near += is_alike ? ", which looks the same: " + differs(*alike) : "";
  const std::string others = some_of(candidates, found);
  return others.empty() ? near : near + (candidates.size() == 2 ? "; the other is " : "; others are ") + others;
}

}  // namespace xrun
