// The candidate with the least estimated time is tried next. Estimates lack kept logits and a part of the memory, so
// the programs that are made correct those of the candidates that are left (planner/search/corrections.h). First there
// are a few programs of several kinds, with GPipe and 1F1B; then, only candidates that are predicted faster than the
// best.
#include "planner/search/choose.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "planner/search/corrections.h"

namespace xrun::planner {
namespace {

// If a leanest candidate needs at most this fraction of the limits, another candidate of its kind may fit.
constexpr double kNear = 1.0 + 1.0 / 16;
// The number of kinds that are tried before all kinds are given up. One is not enough, since the estimate that orders
// them counts neither heads nor scratch memory.
constexpr size_t kAskedKinds = 3;

// With more operands than this in all programs, where each block of an exchange counts, only candidates that are
// predicted faster are tried, and no more than Effort::wanted.
constexpr int64_t kMostOperands = 400'000;
// The programs that are made in addition to Effort::wanted at most, those that may not fit before one does, and those
// of one candidate that may not fit.
constexpr int kMore = 18;
constexpr int kFailures = 4;

struct KindState {
  std::map<PipelineKind, const Candidate*> leanest;
  int fitted = 0;
  int refused = 0;
  bool asked = false;  // whether the leanest candidates of the kind have been tried
  bool near = false;   // whether a program of the kind fits, or nearly fits
  bool left = false;
};

class Chooser {
 public:
  Chooser(const FitInput& input, const std::vector<Candidate>& candidates, const MemoryLimits& limits,
          const Effort& effort)
      : input_(input), candidates_(candidates), limits_(limits), effort_(effort), corrections_(input.search, limits) {
    for (const Candidate& candidate : candidates) {
      const Candidate*& leanest = kind_of(candidate).leanest[candidate.setting.pipeline];
      if (leanest == nullptr || is_leaner(candidate.setting, leanest->setting)) {
        leanest = &candidate;
      }
      open_.push_back({&candidate});
      any_plain_ = any_plain_ || candidate.setting.is_plain();
    }
  }

  Result<Choice> run() {
    exclude_heavy_kinds();
    XRUN_TRY(try_fastest());
    XRUN_TRY(choice_.fitted.empty() ? try_all() : try_without_limits());
    add_refused();
    if (choice_.fitted.empty() && choice_.smallest.memory.sum() == 0) {
      XRUN_TRY(ask_leanest_kinds(1));  // all are too large; one program shows by how much
    }
    choice_.compared = static_cast<int>(tried_.size());
    std::ranges::stable_sort(choice_.fitted, {},
                             [](const Fitted& f) { return order_of(f.candidate.setting, f.predicted.step); });
    return std::move(choice_);
  }

 private:
  KindState& kind_of(const Candidate& candidate) { return kinds_[planner::kind_of(candidate.setting)]; }

  // Tries candidates in the order of their corrected times.
  Status try_fastest() {
    while (OpenCandidate* next = fastest()) {
      if (!choice_.fitted.empty() && input_.search.is_over()) {
        choice_.complete = false;
        break;
      }
      if (corrections_.is_outdated(*next)) {
        XRUN_ASSIGN(const bool slower, corrections_.learn_from_twin(*next, open_));
        XRUN_TRY(slower ? Status() : corrections_.renew(*next));
      } else {
        XRUN_TRY(attempt(*next));
      }
    }
    return {};
  }

  // Returns the candidate to try next; null if there is none.
  OpenCandidate* fastest() {
    const auto made = static_cast<int>(choice_.fitted.size()) - doubted_;
    const bool heavy = operands_ > kMostOperands;
    const bool first = made < (heavy ? std::min(effort_.wanted, 2) : effort_.wanted);
    const int most = heavy || effort_.wanted == 1 ? effort_.wanted : effort_.wanted + kMore;
    if (made >= most || failures_ >= (choice_.fitted.empty() ? 1 : 2) * effort_.refused) {
      return nullptr;
    }
    OpenCandidate* next = nullptr;
    OpenCandidate* faster = nullptr;
    PlanOrder least;
    Seconds least_faster = best_;
    for (OpenCandidate& one : open_) {
      const KindState& kind = kind_of(*one.candidate);
      if (one.closed || kind.left) {
        continue;
      }
      const Seconds step = corrections_.step(one);
      // With one stage, 1F1B is no faster than GPipe, and only needs less memory.
      const Setting& setting = one.candidate->setting;
      const bool alike = kind.fitted > 0 && setting.stages == 1 && setting.pipeline == PipelineKind::kOneFOneB;
      const bool usual = effort_.wanted == 1 || setting.is_plain() == any_plain_;
      const bool wanted = first && usual && kind.fitted < effort_.of_kind && !alike;
      if (const PlanOrder place = order_of(setting, step); wanted && (next == nullptr || place < least)) {
        next = &one;
        least = place;
      }
      if (step < least_faster) {
        faster = &one;
        least_faster = step;
      }
    }
    return next != nullptr ? next : faster;
  }

  // Estimates of the memory of other pipelines can be too high, so those that are fastest without limits are tried.
  Status try_without_limits() {
    std::set<const Candidate*> seen;
    while (const Candidate* fastest = corrections_.fastest_without_limits(open_, seen, best_)) {
      seen.insert(fastest);
      XRUN_ASSIGN(std::vector<Candidate> made, decide(input_.search, fastest->setting, fastest->recompute));
      OpenCandidate unlimited{.candidate = fastest, .decided = std::move(made.at(0))};
      XRUN_TRY(attempt(unlimited));
    }
    return {};
  }

  // Adds the settings that do not fit by their corrected estimates.
  void add_refused() {
    for (const OpenCandidate& one : open_) {
      if (one.closed && !tried_.contains(one.candidate)) {
        choice_.refused.push_back(one.candidate->setting);
      }
    }
  }

  // Tries all candidates until a program fits, with those that need least memory early, and then the fastest ones.
  Status try_all() {
    for (auto candidate = candidates_.begin(); candidate != candidates_.end() && choice_.fitted.empty(); ++candidate) {
      if (KindState& kind = kind_of(*candidate); !kind.left && !tried_.contains(&*candidate)) {
        XRUN_TRY(attempt(*candidate));
        XRUN_TRY(look_again(kind));
      }
    }
    failures_ = 0;
    doubted_ = static_cast<int>(choice_.fitted.size());
    return doubted_ == 0 || effort_.wanted == 1 ? Status() : try_fastest();
  }

  // Excludes the kinds of candidates whose least possible memory exceeds the limits; no programs are made for them.
  void exclude_heavy_kinds() {
    choice_.weights_alone = true;
    for (auto& [key, kind] : kinds_) {
      const Candidate& leanest = *kind.leanest.begin()->second;  // also has the fewest partials
      kind.left = !memory_floor(input_.search, leanest, leanest.decision.partials).is_within(limits_);
      choice_.weights_alone =
          choice_.weights_alone && !memory_floor(input_.search, leanest, leanest.setting.replicas).is_within(limits_);
    }
    for (const Candidate& candidate : candidates_) {
      if (kind_of(candidate).left) {
        choice_.refused.push_back(candidate.setting);
      }
    }
  }

  void begin(const Candidate& candidate) {
    tried_.insert(&candidate);
    open_[static_cast<size_t>(&candidate - candidates_.data())].closed = true;
    input_.search.begin("program " + std::to_string(tried_.size()) + " (" + to_text(candidate.setting) + ")");
  }

  // Makes a program of a candidate. If it is not within the limits, the candidate stays open.
  Status attempt(OpenCandidate& one) {
    begin(*one.candidate);
    XRUN_ASSIGN(Fitted made, realise(input_, one.now()));
    corrections_.learn_memory(made);
    if (limits_.hold(made)) {
      one.fits = true;
      XRUN_ASSIGN(Fitted best, best_variant(input_, limits_, std::move(made)));
      corrections_.learn_time(best, one.now().least_step(), lacks_logits(input_, best));
      add(std::move(best));
      return {};
    }
    ++failures_;
    corrections_.learn_failure(made, one);
    one.closed = one.failures >= kFailures || input_.search.hints.hinted;
    tried_.erase(one.candidate);
    return {};
  }

  void add(Fitted made) {
    KindState& kind = kind_of(made.candidate);
    ++kind.fitted;
    kind.near = true;
    best_ = std::min(best_, made.predicted.step);
    for (const Instruction& instruction : made.training.instructions) {
      operands_ += instruction.blocks();
    }
    choice_.fitted.push_back(std::move(made));
  }

  // Makes programs of a candidate until one is within the limits.
  Status attempt(const Candidate& candidate) {
    begin(candidate);
    std::vector<Candidate> full;
    if (candidate.rough) {
      XRUN_ASSIGN(full, decide(input_.search, candidate.setting, candidate.recompute));
    }
    Fitted least;
    XRUN_ASSIGN(std::optional<Fitted> made, fit(input_, full.empty() ? candidate : full[0], limits_, least));
    corrections_.learn_memory(made ? *made : least);
    if (made) {
      corrections_.learn_time(*made, made->candidate.least_step(), lacks_logits(input_, *made));
      add(std::move(*made));
    } else {
      refuse(candidate, std::move(least));
    }
    return {};
  }

  void refuse(const Candidate& candidate, Fitted least) {
    KindState& kind = kind_of(candidate);
    ++kind.refused;
    kind.near = kind.near || limits_.share(least) <= kNear;
    choice_.refused.push_back(candidate.setting);
    if (choice_.smallest.memory.sum() == 0 || limits_.share(least) < limits_.share(choice_.smallest)) {
      choice_.smallest = std::move(least);
    }
  }

  // Called after a candidate of a kind did not fit: decides whether to try more candidates of the kind and, after the
  // first candidate that did not fit, whether to try any kind.
  Status look_again(KindState& kind) {
    if (kind.refused == 0) {
      return {};
    }
    if (!asked_all_ && choice_.fitted.empty()) {
      asked_all_ = true;
      XRUN_TRY(ask_leanest_kinds(kAskedKinds));
      const bool hopeless = std::ranges::none_of(kinds_, [](const auto& each) { return each.second.near; });
      for (auto& [key, each] : kinds_) {
        each.left = each.left || hopeless;
      }
    }
    if (!kind.left && kind.fitted == 0) {
      XRUN_TRY(ask_leanest(kind));
    }
    kind.left = kind.left || !kind.near || kind.refused >= effort_.refused;
    return {};
  }

  // Returns the candidate with recomputation of everything or, if hints decide what is recomputed, the unchanged
  // candidate; nullopt if no cuts satisfy the pins.
  Result<std::optional<Candidate>> with_least_memory(const Candidate& candidate) const {
    if (input_.search.hints.hinted) {
      return std::optional(candidate);
    }
    XRUN_ASSIGN(std::vector<Candidate> made, decide(input_.search, candidate.setting, Recompute::kAll));
    return made.empty() ? std::optional<Candidate>() : std::optional(std::move(made[0]));
  }

  Status ask_leanest(KindState& kind) {
    if (kind.asked) {
      return {};
    }
    kind.asked = true;
    for (const auto& [pipeline, candidate] : kind.leanest) {
      if (!tried_.contains(candidate)) {
        XRUN_TRY(ask(*candidate));
      }
    }
    return {};
  }

  // Tries a candidate. If its estimate exceeds the limits, a program with recomputation of everything is made first; if
  // that program is not near the limits, or the kind is given up, no further programs of the candidate are made.
  Status ask(const Candidate& candidate) {
    const bool left = kind_of(candidate).left;
    if (!left && limits_.share(candidate) <= 1) {
      return attempt(candidate);
    }
    XRUN_ASSIGN(const std::optional<Candidate> lean, with_least_memory(candidate));
    if (!lean) {
      return {};
    }
    XRUN_ASSIGN(Fitted made, realise(input_, *lean));
    if (!left && limits_.share(made) <= kNear) {
      return attempt(candidate);
    }
    begin(candidate);
    refuse(candidate, std::move(made));
    return {};
  }

  Status ask_leanest_kinds(size_t most) {
    const bool all_left = std::ranges::all_of(kinds_, [](const auto& each) { return each.second.left; });
    std::vector<std::pair<double, KindState*>> order;
    for (auto& [key, kind] : kinds_) {
      if ((kind.left && !all_left) || is_plain(key) != any_plain_) {
        continue;
      }
      double least = HUGE_VAL;
      for (const auto& [pipeline, candidate] : kind.leanest) {
        XRUN_ASSIGN(const std::optional<Candidate> lean, with_least_memory(*candidate));
        least = lean ? std::min(least, limits_.share(*lean)) : least;
      }
      order.emplace_back(least, &kind);
    }
    std::ranges::stable_sort(order, {}, [](const auto& each) { return each.first; });
    for (size_t i = 0; i < std::min(most, order.size()); ++i) {
      XRUN_TRY(ask_leanest(*order[i].second));
    }
    return {};
  }

  const FitInput& input_;
  const std::vector<Candidate>& candidates_;
  const MemoryLimits& limits_;
  const Effort& effort_;
  Choice choice_;
  std::map<CandidateKind, KindState> kinds_;
  std::set<const Candidate*> tried_;
  bool asked_all_ = false;
  bool any_plain_ = false;  // hints permit GPipe or 1F1B
  Corrections corrections_;
  std::vector<OpenCandidate> open_;
  Seconds best_ = HUGE_VAL;
  int failures_ = 0;      // programs that are not within the limits
  int doubted_ = 0;       // programs that fit although all candidates were doubted
  int64_t operands_ = 0;  // the operands of all programs that fit
};

}  // namespace

Result<Choice> choose(const FitInput& input, const std::vector<Candidate>& candidates, const MemoryLimits& limits,
                      const Effort& effort) {
  return Chooser(input, candidates, limits, effort).run();
}

}  // namespace xrun::planner
