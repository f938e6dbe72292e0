// Tests: tests/planner/search/choose_test.cpp, tests/planner/search/forced_settings_test.cpp
#include "planner/search/corrections.h"

#include <algorithm>
#include <iterator>

namespace xrun::planner {
namespace {

// The most kinds that count, so that at most 15/16 of a need are assumed.
constexpr int kMostKinds = 4;
constexpr size_t kTriedAnyway = 2;  // candidates that are tried although their estimates exceed the limits
constexpr int kMostLimited = 8;     // candidates with other pipelines for which cuts within limits are found

}  // namespace

CandidateKind kind_of(const Setting& setting) {
  return {setting.stages, setting.ranks(), setting.replicas, setting.head_devices, setting.is_plain()};
}

bool is_leaner(const Setting& one, const Setting& other) {
  const auto need = [](const Setting& s) { return std::tuple(-s.micro_batches, s.warm_up, s.one_head_pass); };
  return need(one) < need(other);
}

int64_t Corrections::head_rows(const Setting& setting) const {
  return input_.module.graph.heads.empty() ? 0 : rows_of_head_pass(input_, setting);
}

void Corrections::learn_time(const Fitted& made, Seconds estimate, bool lacks_logits) {
  const Setting& setting = made.candidate.setting;
  const double ratio = made.predicted.step / estimate;
  auto& ratios = kinds_[kind_of(setting)].ratios;
  const auto at = ratios.emplace(lacks_logits ? head_rows(setting) : 0, ratio).first;
  at->second = std::min(at->second, ratio);
  ratio_ = std::min(ratio_, ratio);
}

void Corrections::learn_memory(const Fitted& made) {
  ++learned_;
  const Setting& setting = made.candidate.setting;
  kinds_[kind_of(setting)].uncounted[head_rows(setting)] = made.uncounted;
  if (!uncounted_ || made.uncounted.total < uncounted_->total) {
    uncounted_ = made.uncounted;
  }
  if (const int64_t rows = head_rows(setting); rows > 0) {
    EqualHeads& heads = heads_[{setting.head_devices, rows}];
    if (heads.kinds.empty() || made.uncounted.total < heads.least.total) {
      heads.least = made.uncounted;
    }
    heads.kinds.insert(kind_of(setting));
  }
}

// The partition may free only a part of the bytes by which its limit is lowered: a layer that runs again may need a
// value that was not kept before. So the excess counts twice after the first time.
void Corrections::learn_failure(const Fitted& made, OpenCandidate& one) const {
  one.own = made.uncounted;
  if (one.failures++ > 0) {
    one.own->total += std::max<Bytes>(0, made.memory.sum() - limits_.total);
    for (size_t n = 0; n < one.own->nodes.size() && limits_.node > 0; ++n) {
      one.own->nodes[n] += std::max<Bytes>(0, made.nodes[n] - limits_.node);
    }
  }
  one.known = std::min(one.known, Known::kOfKind);
}

Seconds Corrections::added_by_limits(const OpenCandidate& one) {
  return one.known == Known::kNothing && one.twin != nullptr
             ? std::max(0.0, one.twin->now().predicted.step - one.twin->candidate->predicted.step)
             : 0;
}

Seconds Corrections::step(const OpenCandidate& one) const {
  const Seconds estimate = one.now().least_step() + added_by_limits(one);
  double ratio = HUGE_VAL;
  if (const auto kind = kinds_.find(kind_of(one.candidate->setting)); kind != kinds_.end()) {
    const int64_t most = head_rows(one.candidate->setting);
    for (const auto& [rows, each] : kind->second.ratios) {
      ratio = rows <= most ? std::min(ratio, each) : ratio;
    }
  }
  ratio = ratio < HUGE_VAL ? ratio : ratio_;
  return ratio < HUGE_VAL ? estimate * ratio : estimate;
}

const Uncounted* Corrections::uncounted_of_kind(const Setting& setting) const {
  const auto kind = kinds_.find(kind_of(setting));
  if (kind == kinds_.end()) {
    return nullptr;
  }
  const auto more = kind->second.uncounted.upper_bound(head_rows(setting));
  return more == kind->second.uncounted.begin() ? nullptr : &std::prev(more)->second;
}

Corrections::Excess Corrections::excess_of(const OpenCandidate& one) const {
  if (input_.hints.hinted || !uncounted_) {
    return {};
  }
  const Setting& setting = one.candidate->setting;
  const Uncounted* of_kind = uncounted_of_kind(setting);
  Uncounted uncounted = one.own ? *one.own : of_kind != nullptr ? *of_kind : *uncounted_;
  if (!one.own && of_kind == nullptr) {
    int kinds = 1;
    if (const auto heads = heads_.find({setting.head_devices, head_rows(setting)}); heads != heads_.end()) {
      uncounted = heads->second.least;
      kinds = std::min<int>(kMostKinds, static_cast<int>(heads->second.kinds.size()));
    }
    const auto reduce = [&](Bytes bytes) { return std::min(bytes, bytes - (bytes >> kinds)); };
    uncounted.total = reduce(uncounted.total);
    uncounted.device = reduce(uncounted.device);
    std::ranges::transform(uncounted.nodes, uncounted.nodes.begin(), reduce);
  }
  const StageLimits limits = limits_.within(one.now(), uncounted);
  if (limits.stage == 0 && limits.total == 0 && limits.nodes.empty()) {
    return {};
  }
  return {one.own ? Known::kOwn : of_kind != nullptr ? Known::kOfKind : Known::kOfOthers, limits};
}

bool Corrections::is_outdated(const OpenCandidate& one) const {
  return one.now().rough || (one.learned < learned_ && excess_of(one).known != Known::kNothing);
}

Result<bool> Corrections::learn_from_twin(OpenCandidate& one, std::vector<OpenCandidate>& open) {
  const Setting& own = one.candidate->setting;
  if (own.is_plain() || one.known != Known::kNothing || one.learned == learned_ ||
      excess_of(one).known == Known::kNothing) {
    return false;
  }
  const Setting wanted{.stages = own.ranks(),
                       .replicas = own.replicas,
                       .micro_batches = own.micro_batches,
                       .pipeline = PipelineKind::kOneFOneB,
                       .head_devices = own.head_devices};
  const auto twin =
      std::ranges::find(open, wanted, [](const OpenCandidate& other) { return other.candidate->setting; });
  if (twin == open.end()) {
    return false;
  }
  if (limited_ == kMostLimited) {
    one.closed = true;
    return true;
  }
  const Seconds known = added_by_limits(one);
  if (!twin->closed && is_outdated(*twin)) {
    XRUN_TRY(renew(*twin));
  }
  if (twin->closed && !twin->fits) {
    one.closed = true;
    return true;
  }
  one.twin = &*twin;
  const bool slower = added_by_limits(one) > known;
  limited_ += slower ? 0 : 1;
  return slower;
}

const Candidate* Corrections::fastest_without_limits(const std::vector<OpenCandidate>& open,
                                                     const std::set<const Candidate*>& seen, Seconds best) const {
  const Candidate* fastest = nullptr;
  if (input_.hints.hinted || seen.size() >= kTriedAnyway) {
    return fastest;
  }
  for (const OpenCandidate& one : open) {
    const bool limited = !one.fits && (one.closed || one.known != Known::kNothing || one.twin != nullptr);
    const Seconds estimate = step({.candidate = one.candidate});
    if (estimate < best && limited && !one.candidate->setting.is_plain() && !seen.contains(one.candidate)) {
      fastest = one.candidate;
      best = estimate;
    }
  }
  return fastest;
}

Status Corrections::renew(OpenCandidate& one) const {
  const auto [known, exceeded] = excess_of(one);
  StageLimits& limits = one.limits;
  limits.stage = exceeded.stage != 0 ? exceeded.stage : limits.stage;
  limits.total = exceeded.total != 0 ? exceeded.total : limits.total;
  limits.nodes = exceeded.nodes.empty() ? limits.nodes : exceeded.nodes;
  const bool possible = limits.stage >= 0 && limits.total >= 0 &&
                        std::ranges::all_of(limits.nodes, [](Bytes bytes) { return bytes >= 0; });
  const bool first = one.known == Known::kNothing;
  one.known = std::max(one.known, known);
  one.learned = learned_;
  std::vector<Candidate> made;
  if (possible) {
    XRUN_ASSIGN(made, decide(input_, one.candidate->setting,
                             one.known == Known::kNothing ? one.candidate->recompute : Recompute::kAuto, limits));
  }
  one.closed = made.empty();
  if (!made.empty()) {
    one.decided = std::move(made[0]);
    // The limits may be lower than necessary, unless a program of the candidate itself was the first to lower them.
    const bool exact = known == Known::kNothing || (known == Known::kOwn && first && one.failures == 1);
    one.decided->proven = one.decided->proven && exact;
  }
  return {};
}

}  // namespace xrun::planner
