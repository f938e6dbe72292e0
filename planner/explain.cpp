#include "planner/explain.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>

namespace xrun::planner {
namespace {

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, share < 0.0995 ? "%.1f %%" : "%.0f %%", 100 * share);
  return text;
}

const char* name_of(Purpose purpose) {
  switch (purpose) {
    case Purpose::kWeight:
    case Purpose::kState:
      return "weights";
    case Purpose::kOptimizer:
      return "optimizer states";
    case Purpose::kPrepared:
      return "prepared weights";
    case Purpose::kGradient:
      return "gradients";
    case Purpose::kHeadWeight:
    case Purpose::kHeadOptimizer:
    case Purpose::kHeadPrepared:
      return "class weights with optimizer states";
    case Purpose::kInput:
      return "batches of the loader";
    case Purpose::kActivation:
      return "activations";
    case Purpose::kScratch:
      return "scratch of workers";
    case Purpose::kResult:
      return "results";
    default:
      return "head passes";
  }
}

// The fastest setting of some kind that was not chosen, and what it would be beside the chosen one.
struct Rival {
  Setting setting;
  Prediction predicted;
  double ratio = 0;  // of the step's time, minus 1
  bool fits = true;
};

// By its program where that was made, else by the estimate.
template <typename Wanted>
std::optional<Rival> fastest(const std::vector<Fitted>& fitted, const std::vector<Candidate>& candidates,
                             const Wanted& wanted) {
  for (const Fitted& one : fitted) {
    if (wanted(one.candidate.setting)) {
      return Rival{one.candidate.setting, one.predicted, one.predicted.step / fitted[0].predicted.step - 1};
    }
  }
  for (const Candidate& one : candidates) {
    if (wanted(one.setting)) {
      const double ratio = one.predicted.step / fitted[0].candidate.predicted.step - 1;
      // Programs are made of the fastest first: one that is faster and was not made does not fit.
      return Rival{one.setting, one.predicted, ratio, ratio > 0};
    }
  }
  return std::nullopt;
}

std::string slower(const Rival& rival) { return rival.ratio > 5e-4 ? percent(rival.ratio) + " slower" : "no faster"; }

// "1 is 16 % slower", "2 stages do not fit".
std::string compare(const std::string& who, bool one, const Rival& rival) {
  return who + (!rival.fits ? one ? " does not fit" : " do not fit" : (one ? " is " : " are ") + slower(rival));
}

Reason explain_stages(const std::vector<Fitted>& fitted, const std::vector<Candidate>& candidates,
                      const SearchInput& input) {
  const int stages = fitted[0].candidate.setting.stages;
  Reason reason{"stages = " + std::to_string(stages), ""};
  if (input.module.schedule.stages) {
    reason.text = "asked for";
    return reason;
  }
  const auto other =
      fastest(fitted, candidates, [&](const Setting& s) { return s.stages == (stages == 1 ? 2 : stages - 1); });
  if (input.machine.devices == 1) {
    reason.text = "there is one device";
  } else if (!other) {
    reason.text = "the layers cannot be cut otherwise";
  } else {
    const std::string idle = percent(other->predicted.bubble + other->predicted.imbalance);
    reason.text = stages > 1
                      ? compare(std::to_string(stages - 1) + (stages == 2 ? " stage" : " stages"), stages == 2, *other)
                  : other->fits ? "two stages would idle " + idle + ": " + slower(*other)
                                : "two stages do not fit";
  }
  return reason;
}

Reason explain_replicas(const std::vector<Fitted>& fitted, const std::vector<Candidate>& candidates,
                        const SearchInput& input) {
  const Setting& setting = fitted[0].candidate.setting;
  Reason reason{"replicas = " + std::to_string(setting.replicas), ""};
  const auto other = fastest(fitted, candidates, [&](const Setting& s) {
    return s.stages == setting.stages && s.replicas != setting.replicas;
  });
  if (input.module.schedule.replicas) {
    reason.text = "asked for";
  } else if (!other) {
    reason.text = input.machine.devices == 1                   ? "there is one device"
                  : setting.stages * 2 > input.machine.devices ? "stages take the devices"
                                                               : "no other number divides row blocks and devices";
  } else {
    reason.text = compare(std::to_string(other->setting.replicas), other->setting.replicas == 1, *other);
  }
  return reason;
}

Reason explain_micro_batches(const std::vector<Fitted>& fitted, const std::vector<Candidate>& candidates,
                             const SearchInput& input) {
  const Setting& setting = fitted[0].candidate.setting;
  const int64_t rows = fitted[0].candidate.decision.batch / setting.micro_batches;
  Reason reason{"micro_batches = " + std::to_string(setting.micro_batches),
                format_count(rows) + (rows == 1 ? " row each" : " rows each")};
  const auto other = fastest(fitted, candidates, [&](const Setting& s) {
    return s.stages == setting.stages && s.replicas == setting.replicas && s.micro_batches > setting.micro_batches;
  });
  if (input.module.schedule.micro_batches) {
    reason.text += ", asked for";
  } else if (other) {
    reason.text += "; " + compare(std::to_string(other->setting.micro_batches), false, *other);
  }
  return reason;
}

std::vector<Reason> explain_shards(const Fitted& chosen, const SearchInput& input) {
  std::vector<Reason> reasons;
  for (const HeadPlan& head : chosen.training.heads) {
    Bytes state = 0;
    for (const Buffer& buffer : chosen.training.buffers) {
      const bool own = buffer.purpose == Purpose::kHeadWeight || buffer.purpose == Purpose::kHeadOptimizer;
      state += own ? buffer.bytes : 0;
    }
    const Bytes logits = chosen.training.batch * head.classes * 4;
    const std::string& name = input.module.graph.heads[static_cast<size_t>(head.head)].name;
    reasons.push_back({"shards " + name + " = " + std::to_string(head.shards.size()),
                       "head state is " + format_bytes(state) + ", its logits would be " + format_bytes(logits)});
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

void sort_largest_first(std::vector<MemoryPart>& parts) {
  std::stable_sort(parts.begin(), parts.end(),
                   [](const MemoryPart& a, const MemoryPart& b) { return a.bytes > b.bytes; });
}

}  // namespace

int recomputed_layers(const Program& program) {
  size_t count = 0;
  for (const Stage& stage : program.stages) {
    count += stage.recomputed.size();
  }
  return static_cast<int>(count);
}

std::vector<Reason> explain(const SearchInput& input, const std::vector<Fitted>& fitted,
                            const std::vector<Candidate>& candidates) {
  std::vector<Reason> reasons;
  reasons.push_back(explain_stages(fitted, candidates, input));
  reasons.push_back(explain_replicas(fitted, candidates, input));
  reasons.push_back(explain_micro_batches(fitted, candidates, input));
  for (Reason& reason : explain_shards(fitted[0], input)) {
    reasons.push_back(std::move(reason));
  }
  reasons.push_back(explain_recompute(fitted[0], input));
  return reasons;
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

std::vector<BufferId> live_at_peak(const Program& program, int device) {
  std::map<int32_t, Bytes> change;  // by place in the time line
  for (const Buffer& buffer : program.buffers) {
    if (buffer.device == device && !buffer.persistent && buffer.first_use >= 0) {
      change[buffer.first_use] += align_up(buffer.bytes);
      change[buffer.last_use + 1] -= align_up(buffer.bytes);
    }
  }
  Bytes now = 0;
  Bytes most = 0;
  int32_t peak = -1;
  for (const auto& [place, delta] : change) {
    now += delta;
    if (now > most) {
      most = now;
      peak = place;
    }
  }
  std::vector<BufferId> live;
  for (const Buffer& buffer : program.buffers) {
    const bool now_alive = buffer.first_use >= 0 && buffer.first_use <= peak && peak <= buffer.last_use;
    if (buffer.device == device && (buffer.persistent || now_alive)) {
      live.push_back(buffer.id);
    }
  }
  return live;
}

std::vector<MemoryPart> memory_parts(const Program& program, int device) {
  std::map<std::string, Bytes> sums;
  for (const BufferId id : live_at_peak(program, device)) {
    sums[name_of(program.buffer(id).purpose)] += align_up(program.buffer(id).bytes);
  }
  std::vector<MemoryPart> parts;
  for (const auto& [name, bytes] : sums) {
    parts.push_back({name, bytes});
  }
  sort_largest_first(parts);
  return parts;
}

Error explain_misfit(const SearchInput& input, const Fitted& smallest, const MemoryLimits& limits,
                     const std::vector<std::string>& mends) {
  const RunMemory& memory = smallest.memory;
  const bool whole = memory.sum() > limits.total;
  const ClusterSpec& cluster = input.module.cluster;
  const bool clustered = cluster.memory > 0 || cluster.reserve >= 0;
  Error error{ErrorKind::kInfeasible, "XG0601", "", "", input.module.train.batch_span};
  error.message = whole ? "does not fit: the plan needs " + format_bytes(memory.sum()) + ", " +
                              format_bytes(limits.total) + " are usable" + (clustered ? " of what `cluster` gives" : "")
                        : "does not fit: a device needs " + format_bytes(smallest.largest_device) +
                              ", memory_limit is " + format_bytes(limits.device);
  error.label = std::to_string(input.module.train.batch) + " samples on " + input.machine.name;
  if (!whole && input.module.schedule.memory_limit) {
    error.span = input.module.schedule.memory_limit->span;
    error.label = "of each device";
  }
  if (whole && clustered && cluster.span.valid()) {
    error.span = cluster.span;
    error.label = format_bytes(limits.total) + " are usable here";
  }
  int device = 0;
  for (const Arena& arena : smallest.training.arenas) {
    device = arena.device != kHost && arena.bytes == smallest.largest_device ? arena.device : device;
  }
  std::string note = input.machine.devices == 1
                         ? "on the device"
                         : "on the largest of " + std::to_string(input.machine.devices) + " devices";
  std::vector<MemoryPart> parts = memory_parts(smallest.training, device);
  if (whole && memory.evaluation > 0) {
    parts.push_back({"evaluation, on all devices", memory.evaluation});
  }
  if (whole && memory.readers > 0) {
    parts.push_back({"held by readers, at most", memory.readers});
  }
  sort_largest_first(parts);
  bool first = true;
  for (const MemoryPart& part : parts) {
    char line[128];
    std::snprintf(line, sizeof line, "\n%-40s %10s%s", part.name.c_str(), format_bytes(part.bytes).c_str(),
                  first ? "  <- largest" : "");
    note += line;
    first = false;
  }
  error.notes.push_back(std::move(note));
  error.help = mends.empty() ? "no smaller batch fits either: give it more memory, or make the model smaller"
                             : "plans that fit, fastest first (predicted)";
  error.choices = mends;
  return error;
}

}  // namespace xrun::planner
