// Tests: tests/planner/report/text_test.cpp, tests/planner/planner_test.cpp
#include "planner/report/explain.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "graph/base/counted.h"

namespace xrun::planner {
namespace {

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, share < 0.0995 ? "%.1f %%" : "%.0f %%", 100 * share);
  return text;
}

// A setting that was not chosen, compared with the chosen one: the fastest of a set of settings, such as those with
// another number of stages.
struct Rival {
  enum class Known { kProgram, kEstimate, kInfeasible };

  Setting setting;
  Prediction predicted;
  double ratio = 0;  // time of a step divided by the time of the plan's step, minus 1
  Known known = Known::kProgram;
};

// Candidates are sorted by their times rounded to thousandths, so a later candidate may be faster by this fraction.
constexpr double kAlike = 1e-3;

// Returns the fastest of the settings for which `wanted` is true. The times are those of programs if such programs were
// made, else estimates.
template <typename Wanted>
std::optional<Rival> fastest(const Choice& choice, const std::vector<Candidate>& candidates, const Wanted& wanted) {
  const Fitted& chosen = choice.fitted[0];
  for (const Fitted& one : choice.fitted) {
    if (wanted(one.candidate.setting)) {
      return Rival{one.candidate.setting, one.predicted, one.predicted.step / chosen.predicted.step - 1};
    }
  }
  for (const Candidate& one : candidates) {
    if (wanted(one.setting)) {
      const double ratio = one.predicted.step / chosen.candidate.predicted.step - 1;
      const bool refused = std::ranges::find(choice.refused, one.setting) != choice.refused.end();
      return Rival{one.setting, one.predicted, ratio, refused ? Rival::Known::kInfeasible : Rival::Known::kEstimate};
    }
  }
  return std::nullopt;
}

bool is_infeasible(const Rival& rival) { return rival.known == Rival::Known::kInfeasible; }

// Whether the estimate of a setting is faster than the plan, but no program was made because others of its kind were
// tried first.
bool is_untried(const Rival& rival) { return rival.known == Rival::Known::kEstimate && rival.ratio < -kAlike; }

std::string slower(const Rival& rival) { return rival.ratio > 5e-4 ? percent(rival.ratio) + " slower" : "no faster"; }

// Returns the comparison as text: "1 is 16 % slower", "2 stages do not fit". `one` states whether `who` is singular.
std::string compare(const std::string& who, bool one, const Rival& rival) {
  return who + (is_infeasible(rival) ? one ? " does not fit" : " do not fit"
                : is_untried(rival)  ? one ? " was not compared" : " were not compared"
                                     : (one ? " is " : " are ") + slower(rival));
}

// Returns the reason why no candidate has `wanted` stages.
std::string only_stages(const SearchInput& input, int wanted) {
  const ScheduleSpec& schedule = input.module.schedule;
  if (schedule.replicas && wanted * schedule.replicas->value > input.machine.devices) {
    return counted(schedule.replicas->value, "replica") + " take the devices";
  }
  return schedule.pins.empty() ? "the layers cannot be cut otherwise" : "the pins leave no other cuts";
}

// Returns the reason why no candidate with this number of stages has more replicas.
std::string only_replicas(const SearchInput& input, int stages) {
  const ScheduleSpec& schedule = input.module.schedule;
  const TrainSpec& train = input.module.train;
  if (stages * 2 > input.machine.devices) {
    return "stages take the devices";
  }
  const int64_t blocks = train.batch / train.norm_rows;
  const int64_t partials = input.deterministic ? std::min<int64_t>(4, blocks) : 0;
  bool partials_forbid = false;
  for (int64_t r = 2; r <= std::min<int64_t>(input.machine.devices / stages, blocks); ++r) {
    if (blocks % r != 0) {
      continue;
    }
    if (schedule.micro_batches && schedule.micro_batches->value % r != 0) {
      return "no other number divides the " + counted(schedule.micro_batches->value, "micro-batch") + " asked for";
    }
    partials_forbid = partials_forbid || (partials > 0 && partials % r != 0);
  }
  return partials_forbid
             ? "no other number divides the " + counted(partials, "partial") + " of gradients (deterministic)"
             : "no other number divides row blocks and devices";
}

Reason explain_stages(const Choice& choice, const std::vector<Candidate>& candidates, const SearchInput& input) {
  const int stages = choice.fitted[0].candidate.setting.stages;
  const int wanted = stages == 1 ? 2 : stages - 1;
  Reason reason{"stages = " + std::to_string(stages), ""};
  if (input.module.schedule.stages) {
    reason.text = "asked for";
    return reason;
  }
  const auto other = fastest(choice, candidates, [&](const Setting& s) { return s.stages == wanted; });
  if (input.machine.devices == 1) {
    reason.text = "there is one device";
  } else if (!other) {
    reason.text = only_stages(input, wanted);
  } else if (stages > 1) {
    reason.text = compare(counted(wanted, "stage"), wanted == 1, *other);
  } else if (is_infeasible(*other) || is_untried(*other)) {
    reason.text = compare("two stages", false, *other);
  } else {
    reason.text = "two stages would idle " + percent(other->predicted.bubble + other->predicted.imbalance) + ": " +
                  slower(*other);
  }
  return reason;
}

Reason explain_replicas(const Choice& choice, const std::vector<Candidate>& candidates, const SearchInput& input) {
  const Setting& setting = choice.fitted[0].candidate.setting;
  Reason reason{"replicas = " + std::to_string(setting.replicas), ""};
  const auto other = fastest(choice, candidates, [&](const Setting& s) {
    return s.stages == setting.stages && s.replicas != setting.replicas;
  });
  if (input.module.schedule.replicas) {
    reason.text = "asked for";
  } else if (!other) {
    reason.text = input.machine.devices == 1 ? "there is one device" : only_replicas(input, setting.stages);
  } else {
    reason.text = compare(std::to_string(other->setting.replicas), other->setting.replicas == 1, *other);
  }
  return reason;
}

Reason explain_micro_batches(const Choice& choice, const std::vector<Candidate>& candidates, const SearchInput& input) {
  const Setting& setting = choice.fitted[0].candidate.setting;
  const int64_t rows = choice.fitted[0].candidate.decision.batch / setting.micro_batches;
  Reason reason{"micro_batches = " + std::to_string(setting.micro_batches),
                format_count(rows) + (rows == 1 ? " row each" : " rows each")};
  const auto other = fastest(choice, candidates, [&](const Setting& s) {
    return s.stages == setting.stages && s.replicas == setting.replicas && s.micro_batches > setting.micro_batches;
  });
  if (input.module.schedule.micro_batches) {
    reason.text += ", asked for";
  } else if (other) {
    reason.text += "; " + compare(std::to_string(other->setting.micro_batches), false, *other);
  }
  return reason;
}

// Returns a text about the number of a head's logits that exist at one time.
std::string logits_text(const HeadPlan& head, int64_t batch) {
  const int64_t active = head.active > 0 ? head.active : head.classes;
  int64_t kept = 0;
  for (const HeadShard& shard : head.shards) {
    kept += head.kept_classes(shard);
  }
  kept = kept * active / head.classes;
  if (kept == 0) {
    return "its logits would be " + format_bytes(batch * active * 4);
  }
  const std::string all = head.active > 0 ? "the active" : "all";
  const std::string of = kept == active    ? all
                         : head.active > 0 ? format_count(kept) + " of the " + format_count(active) + " active"
                                           : format_count(kept) + " of " + format_count(active);
  return "logits of " + of + " classes, " + format_bytes(head.rows * kept * 4) + ", are kept for the backward pass";
}

std::vector<Reason> explain_shards(const Fitted& chosen, const SearchInput& input) {
  std::vector<Reason> reasons;
  for (size_t h = 0; h < chosen.training.heads.size(); ++h) {
    const HeadPlan& head = chosen.training.heads[h];
    Bytes state = 0;
    for (const Buffer& buffer : chosen.training.buffers) {
      const bool holds = buffer.purpose == Purpose::kHeadWeight || buffer.purpose == Purpose::kHeadOptimizer ||
                         buffer.purpose == Purpose::kHeadScale || buffer.purpose == Purpose::kHeadLast;
      state += holds && buffer.head == static_cast<int32_t>(h) ? buffer.bytes : 0;
    }
    const std::string& name = input.module.graph.heads[static_cast<size_t>(head.head)].name;
    const std::string formats = formats_text(chosen.training, static_cast<int32_t>(h));
    reasons.push_back({"shards " + name + " = " + std::to_string(head.shards.size()),
                       "head state is " + format_bytes(state) + (head.mapped ? " in a file" : "") +
                           (formats.empty() ? "" : " (rows " + formats + ")") + ", " +
                           logits_text(head, chosen.training.batch)});
  }
  return reasons;
}

Reason explain_recompute(const Fitted& chosen, const SearchInput& input) {
  const int again = recomputed_layers(chosen.training);
  size_t all = 0;
  for (const Stage& stage : chosen.training.stages) {
    all += stage.forward.size();
  }
  Reason reason{"recompute = none", "activations fit"};
  if (again > 0) {
    reason.choice = "recompute = " + std::to_string(again) + " of " + std::to_string(all) + " layers";
    reason.text = "the cheapest that fits";
  }
  if (input.hints.hinted) {
    reason.text = "asked for";
  }
  return reason;
}

std::string describe(const Fitted& fitted) {
  const int again = recomputed_layers(fitted.training);
  return to_text(fitted.candidate.setting) + (again > 0 ? ", recompute " + std::to_string(again) + " layers" : "");
}

}  // namespace

int recomputed_layers(const Program& program) {
  size_t count = 0;
  for (const Stage& stage : program.stages) {
    count += stage.recomputed.size();
  }
  return static_cast<int>(count);
}

std::vector<Reason> explain(const SearchInput& input, const Choice& choice, const std::vector<Candidate>& candidates) {
  std::vector<Reason> reasons;
  reasons.push_back(explain_stages(choice, candidates, input));
  reasons.push_back(explain_replicas(choice, candidates, input));
  reasons.push_back(explain_micro_batches(choice, candidates, input));
  for (Reason& reason : explain_shards(choice.fitted[0], input)) {
    reasons.push_back(std::move(reason));
  }
  reasons.push_back(explain_recompute(choice.fitted[0], input));
  return reasons;
}

Result<std::string> propose_row_block(const Plan& plan, const FitInput& input, const FactsOf& facts_of) {
  const Module& module = input.search.module;
  const TrainSpec& train = module.train;
  const ScheduleSpec& schedule = module.schedule;
  const int64_t devices = plan.machine.devices;
  const int64_t blocks = train.batch / train.norm_rows;
  if (blocks >= devices || schedule.replicas || schedule.micro_batches || schedule.stages) {
    return std::string();
  }
  const bool coupled = has_coupled_rows(module.graph);
  const std::vector<int64_t> smaller = smaller_row_blocks(train, coupled);
  // Proposes the largest row block with which all devices have equal numbers of blocks or, if there is none, the
  // largest one with at least one block for each device.
  auto found = std::ranges::find_if(smaller, [&](int64_t rows) { return train.batch / rows % devices == 0; });
  if (found == smaller.end()) {
    found = std::ranges::find_if(smaller, [&](int64_t rows) { return train.batch / rows >= devices; });
  }
  if (found == smaller.end()) {
    return std::string();
  }
  XRUN_ASSIGN(const auto other, OtherRows::make(input, facts_of, *found));
  const auto choice = other->choose_plan(train.batch, memory_limits(module, plan.machine), {.wanted = 2});
  if (!choice.ok() || choice->fitted.empty()) {
    return std::string();
  }
  const Fitted& best = choice->fitted[0];
  const double ratio = best.predicted.step / plan.predicted.step - 1;
  if (ratio > -0.01) {
    return std::string();
  }
  const Setting& setting = best.candidate.setting;
  const int64_t used = int64_t{setting.stages} * setting.replicas;
  // With several stages, all devices may be in use although there are few row blocks.
  const auto idle = devices - int64_t(plan.training.stages.size()) * plan.training.replicas;
  const std::string all = devices == 2 ? "both devices" : "all " + format_count(devices) + " devices";
  const std::string use = idle == 0 ? "be "
                          : used == devices
                              ? "use " + all + ", "
                              : "use " + format_count(used) + " of " + format_count(devices) + " devices, ";
  return format_count(train.batch) + " rows are " + (blocks == 1 ? "one block" : format_count(blocks) + " blocks") +
         ": `norm_rows=" + std::to_string(*found) + "` would " + use + percent(-ratio) + " faster" +
         (coupled ? ", with statistics of fewer rows" : "");
}

std::vector<Alternative> list_alternatives(const std::vector<Fitted>& fitted) {
  std::vector<Alternative> alternatives;
  for (size_t i = 1; i < fitted.size(); ++i) {
    const Prediction& predicted = fitted[i].predicted;
    const double ratio = predicted.step / fitted[0].predicted.step - 1;
    std::string note =
        std::abs(ratio) < 1e-3 ? "as fast" : percent(std::abs(ratio)) + (ratio > 0 ? " slower" : " faster");
    if (predicted.bubble + predicted.imbalance > 0.005) {
      note += ", idles " + percent(predicted.bubble + predicted.imbalance);
    }
    const Setting& setting = fitted[i].candidate.setting;
    alternatives.push_back({.text = describe(fitted[i]),
                            .step = predicted.step,
                            .memory = fitted[i].largest_device,
                            .note = std::move(note),
                            .stages = setting.stages,
                            .replicas = setting.replicas,
                            .micro_batches = setting.micro_batches,
                            .recomputed = recomputed_layers(fitted[i].training)});
  }
  return alternatives;
}

}  // namespace xrun::planner
