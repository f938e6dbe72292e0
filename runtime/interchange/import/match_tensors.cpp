#include "runtime/interchange/import/match_tensors.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <optional>
#include <set>

#include "graph/settings/group_rules.h"
#include "runtime/interchange/import/candidates.h"
#include "runtime/interchange/import/tensor_groups.h"

namespace xrun::runtime {
namespace {

class Matching {
 public:
  Matching(const NameTable& table, const std::string& place, std::span<const ForeignTensor> tensors,
           const ModelForm& form, const ModelNames& names, const std::vector<std::string>& skip)
      : table_(table), place_(place), tensors_(tensors), form_(form), names_(names), skip_(skip) {}

  MatchedTensors run() {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      add(i);
    }
    take_groups();
    std::ranges::sort(made_.fits, {}, &Fit::to);
    std::set<size_t> given;
    for (const Fit& one : made_.fits) {
      given.insert(one.to);
    }
    for (size_t i = 0; i < form_.tensors.size(); ++i) {
      if (!given.contains(i)) {
        made_.missing.push_back(i);
      }
    }
    return std::move(made_);
  }

 private:
  // The name that a target has in the model; nullopt: the model has no classifier, or several.
  std::optional<std::string> full_name(const TargetName& target) const {
    if (!target.classes) {
      return below(place_, target.path);
    }
    return form_.classifiers.size() == 1 ? std::optional(below(form_.classifiers[0], target.path)) : std::nullopt;
  }

  // The tensors of the model that are the targets; empty: at least one of them is not there.
  std::vector<size_t> targets_of(const Candidate& candidate) const {
    std::vector<size_t> targets;
    for (const TargetName& target : candidate.targets) {
      const auto name = full_name(target);
      const int64_t found = name ? names_.find(*name) : -1;
      if (found < 0) {
        return {};
      }
      targets.push_back(static_cast<size_t>(found));
    }
    return targets;
  }

  std::string why_left(const NamedTensor& named) const {
    if (named.candidates.empty()) {
      return "no line of the name table matches it";
    }
    const TargetName& target = named.candidates[0].targets[0];
    if (const auto name = full_name(target)) {
      return fmt::format("the model has no `{}`", *name);
    }
    return form_.classifiers.empty()
               ? "the model has no classifier"
               : fmt::format("the model has several classifiers: {}", fmt::join(form_.classifiers, ", "));
  }

  bool is_skipped(size_t target) const {
    return std::ranges::any_of(skip_,
                               [&](const std::string& path) { return is_below(path, form_.tensors[target].name); });
  }

  void add(size_t i) {
    const ForeignTensor& tensor = tensors_[i];
    const NamedTensor named = look_up(table_, tensor.name);
    if (named.ignored) {
      made_.ignored.push_back(i);
      return;
    }
    const Candidate* chosen = nullptr;
    std::vector<size_t> targets;
    for (const Candidate& candidate : named.candidates) {
      targets = targets_of(candidate);
      if (!targets.empty()) {
        chosen = &candidate;
        break;
      }
    }
    const bool known = !seen_.insert(tensor.name).second;
    if (chosen == nullptr) {
      known ? made_.repeated.push_back(i) : made_.left_over.push_back({i, why_left(named)});
    } else if (std::ranges::all_of(targets, [&](size_t target) { return is_skipped(target); })) {
      made_.skipped.push_back(i);
    } else if (known && chosen->rule->how != NameRule::How::kByRank) {
      made_.repeated.push_back(i);
    } else {
      put(i, *chosen, targets);
    }
  }

  void put(size_t i, const Candidate& chosen, const std::vector<size_t>& targets) {
    auto [at, fresh] = groups_.try_emplace(targets[0]);
    TensorGroup& group = at->second;
    if (fresh) {
      group = {.rule = chosen.rule, .targets = targets, .sources = {}};
      group.sources.resize(chosen.rule->from.size());
    }
    const bool same = group.rule == chosen.rule && group.targets == targets;
    const bool free = same && (group.sources[chosen.source].empty() || chosen.rule->how == NameRule::How::kByRank);
    if (free) {
      group.sources[chosen.source].push_back(i);
      return;
    }
    const auto first = std::ranges::find_if_not(group.sources, [](const auto& sources) { return sources.empty(); });
    made_.misfits.push_back(fmt::format("`{}` and `{}` would both become `{}` of the model", tensors_[(*first)[0]].name,
                                        tensors_[i].name, form_.tensors[targets[0]].name));
  }

  void take_groups() {
    std::set<size_t> taken;
    for (const auto& [target, group] : groups_) {
      auto fits = fit(group, tensors_, form_);
      if (!fits.ok()) {
        made_.misfits.push_back(fits.error().message);
        continue;
      }
      std::erase_if(*fits, [&](const Fit& one) { return is_skipped(one.to); });
      for (Fit& one : *fits) {
        if (!taken.insert(one.to).second) {
          made_.misfits.push_back(fmt::format("`{}` of the model is given twice, also by `{}`",
                                              form_.tensors[one.to].name, tensors_[one.from[0]].name));
        }
        made_.fits.push_back(std::move(one));
      }
    }
  }

  const NameTable& table_;
  const std::string& place_;
  std::span<const ForeignTensor> tensors_;
  const ModelForm& form_;
  const ModelNames& names_;
  const std::vector<std::string>& skip_;
  std::set<std::string_view> seen_;
  std::map<size_t, TensorGroup> groups_;  // key: the first target
  MatchedTensors made_;
};

}  // namespace

MatchedTensors match_tensors(const NameTable& table, const std::string& place, std::span<const ForeignTensor> tensors,
                             const ModelForm& form, const ModelNames& names, const std::vector<std::string>& skip) {
  return Matching(table, place, tensors, form, names, skip).run();
}

}  // namespace xrun::runtime
