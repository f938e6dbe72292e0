// Tests: tests/runtime/interchange/import/match_tensors_test.cpp
#include "runtime/interchange/import/choose_table.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>

#include "graph/base/errors.h"
#include "runtime/interchange/import/candidates.h"

namespace xrun::runtime {
namespace {

constexpr size_t kFew = 3;

// The counts by which tables are compared.
struct Score {
  size_t table = 0;
  size_t explained = 0;
  size_t named = 0;                 // explained ones that have a place in the network
  size_t landed = 0;                // tensors of the file that are in the model, below the best place
  std::vector<std::string> places;  // the best places; several: they are equally good
  std::string sample;               // a tensor that the model would have, for messages

  // Whether the model has the network. Other networks have a few tensors with the same names, such as norms.
  bool fits() const { return landed > 0 && landed * 10 >= named; }
  auto order() const { return std::pair(explained, landed); }
};

// The places below which the model has the tensors of a candidate.
std::vector<std::string_view> places_of(const Candidate& candidate, const ModelNames& model) {
  std::vector<std::string_view> places;
  if (candidate.targets[0].classes) {
    return places;
  }
  for (const std::string_view place : model.places_of(candidate.targets[0].path)) {
    const bool all = std::ranges::all_of(candidate.targets, [&](const TargetName& target) {
      return target.classes || model.has(below(place, target.path));
    });
    if (all) {
      places.push_back(place);
    }
  }
  return places;
}

Score score_of(const NameTable& table, std::span<const ForeignTensor> tensors, const ModelNames& model,
               const std::optional<std::string>& at) {
  Score score;
  std::map<std::string, size_t, std::less<>> landed;
  for (const ForeignTensor& tensor : tensors) {
    const NamedTensor named = look_up(table, tensor.name);
    score.explained += named.is_explained() ? 1 : 0;
    score.named += named.candidates.empty() ? 0 : 1;
    std::set<std::string_view> places;
    for (const Candidate& candidate : named.candidates) {
      const auto found = places_of(candidate, model);
      places.insert(found.begin(), found.end());
      score.sample = score.sample.empty() && !candidate.targets[0].classes ? candidate.targets[0].path : score.sample;
    }
    for (const std::string_view place : places) {
      if (!at || *at == place) {
        ++landed[std::string(place)];
      }
    }
  }
  for (const auto& [place, count] : landed) {
    score.landed = std::max(score.landed, count);
  }
  for (const auto& [place, count] : landed) {
    if (count == score.landed) {
      score.places.push_back(place);
    }
  }
  score.explained = table.matches_all() ? score.landed : score.explained;
  return score;
}

std::string place_text(const std::string& place) { return place.empty() ? "the model itself" : "`" + place + "`"; }

Error nothing_fits(std::span<const NameTable> tables, const Score& best, std::span<const ForeignTensor> tensors,
                   const std::optional<std::string>& at, const std::string& files) {
  if (best.explained * 2 > tensors.size()) {
    const std::string count = best.landed == 0 ? std::string("none") : std::to_string(best.landed);
    return content_error(
        "XG0941",
        {"{} has the names of `{}`, but {} has {} of the {} tensors of that network", files, tables[best.table].title,
         at ? place_text(*at) : "the model", count, best.named},
        {"import it into a model that has the network: its block makes tensors such as `{}`", best.sample});
  }
  std::vector<std::string> names;
  for (const ForeignTensor& tensor : tensors.first(std::min(kFew, tensors.size()))) {
    names.push_back("`" + tensor.name + "`");
  }
  return content_error(
      "XG0941",
      {"no name table explains the names in {}{}{}", files, names.empty() ? "" : ", such as ", fmt::join(names, ", ")},
      "write a table that does, and name it: --names FILE.names (docs/reference/name_tables.md)");
}

}  // namespace

Result<Choice> choose_table(std::span<const NameTable> tables, std::span<const ForeignTensor> tensors,
                            const ModelNames& model, const std::optional<std::string>& at, const std::string& files) {
  std::vector<Score> scores;
  for (size_t i = 0; i < tables.size(); ++i) {
    scores.push_back(score_of(tables[i], tensors, model, at));
    scores.back().table = i;
  }
  std::ranges::stable_sort(scores, std::greater<>(), &Score::order);
  const Score& best = scores[0];
  if (!best.fits()) {
    return nothing_fits(tables, best, tensors, at, files);
  }
  std::vector<std::string> equal;
  for (const Score& score : scores) {
    if (score.order() == best.order()) {
      equal.push_back(tables[score.table].name);
    }
  }
  if (equal.size() > 1) {
    return content_error("XG0941", {"{} fits several name tables: {}", files, fmt::join(equal, ", ")},
                         {"choose one: --names {}", equal[0]});
  }
  if (best.places.size() > 1) {
    if (best.landed * 2 <= best.named) {  // a few common names, not the network
      return nothing_fits(tables, best, tensors, at, files);
    }
    std::vector<std::string> texts;
    std::ranges::transform(best.places, std::back_inserter(texts), place_text);
    return content_error(
        "XG0941",
        {"the model has several places for the network of {}: {}", files,
         fmt::join(texts.begin(), texts.begin() + static_cast<std::ptrdiff_t>(std::min(kFew, texts.size())), ", ")},
        {"choose one: --at {}", best.places.back()});
  }
  return Choice{best.table, best.places[0]};
}

}  // namespace xrun::runtime
