// Certificate: a lower bound of the predicted step of every plan of a search's settings, and what limits a plan's step
// (docs/internals/algorithms.md, "The bound of a step").
#pragma once

#include <map>
#include <vector>

#include "planner/search/bound.h"
#include "planner/search/fit.h"

namespace xrun::planner {

class Certifier {
 public:
  // `input` must outlive the object.
  explicit Certifier(const SearchInput& input);

  // Returns the settings with the shortest step first, if the layers could be divided into equal stages. Errors: those
  // of plan_heads.
  Result<std::vector<Setting>> in_order(std::vector<Setting> settings);

  // Returns a time below which no program of a setting is predicted, whatever its cuts and the layers that run again.
  // Returns `enough` if the bound is more than that. Errors: those of plan_heads.
  Result<Seconds> bound(const Setting& setting, Seconds enough = std::numeric_limits<Seconds>::infinity());

  // Returns the certificate of a search over these settings whose best program is `best`: the least bound, without the
  // settings whose weights alone exceed the limits of memory. Errors: those of plan_heads.
  Result<Certificate> certify(const std::vector<Setting>& settings, const MemoryLimits& limits, const Fitted& best);

 private:
  // The heads of all settings whose head passes have equal rows and devices.
  struct Heads {
    std::vector<HeadPlan> plans;
    std::vector<Seconds> pass;    // index: device; least time of a pass of all heads
    std::vector<Seconds> update;  // index: device
    Seconds work = 0;             // seconds of all workers in these passes, and in the updates
    Seconds update_work = 0;
  };
  Result<const Heads*> heads(const Setting& setting);
  // Returns the times of a setting without those of heads, which `add_heads` adds.
  BoundSetting bound_setting(const Setting& setting, const Heads& heads) const;
  void add_heads(const Setting& setting, const Heads& heads, BoundSetting& times) const;
  // The seconds of all workers in a step of a setting.
  Seconds work(const Setting& setting, const BoundSetting& times, const Heads& heads) const;

  const SearchInput& input_;
  StepBound bound_;
  std::map<std::pair<int64_t, int>, Heads> heads_;  // key: rows of a pass, Setting::head_devices
};

}  // namespace xrun::planner
