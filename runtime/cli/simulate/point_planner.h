// Plans the points of a sweep as `xrun plan` would. Passes and facts of kernels are reused between points that differ
// only in the cluster, the hints or the number of devices.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/report/sweep/sweep.h"
#include "runtime/cli/console/console.h"
#include "runtime/cli/console/options.h"
#include "runtime/cli/console/outcome.h"
#include "runtime/cli/model/load.h"
#include "runtime/cli/model/search_watch.h"

namespace xrun::cli {

// The work for a point: the search of `xrun plan`; the same with changes that fit if nothing fits, which take long; or
// only the first program that fits, which shows whether one does.
enum class PointEffort { kSearch, kSearchAndFixes, kFirstFit };

// One thread.
class PointPlanner {
 public:
  // `keys`: paths (find_key). The values of a point are in this order. `console` outlives the planner; progress goes to
  // it.
  PointPlanner(std::string file, const GlobalOptions& options, std::vector<std::string> keys, const Console& console);

  // Checks that each key accepts each of its values, without planning. Errors: the faults of the text of a value.
  Outcome<void> check_values(const std::vector<std::vector<std::string>>& values_by_key);

  // Plans a point. A point that does not fit or is illegal has a code and a reason in place of a plan; `refusal()` is
  // then its whole error. `progress` names the point in lines about a long search. Errors: those of the world, such as
  // a lack of memory.
  Outcome<planner::SweepPoint> plan(const std::vector<std::string>& values, const std::string& progress,
                                    PointEffort effort = PointEffort::kSearch);
  const Failure& refusal() const { return *refusal_; }

  // Makes the plan of the file as it is, without keys, with changes that fit if nothing fits.
  Outcome<planner::Plan> plan_file();

  // The sources of the times of all plans so far, as one text.
  std::string costs() const;

 private:
  // Passes, facts and the number of samples of a model, which several points share.
  struct Known {
    PreparedModel prepared;
    int64_t samples = 0;
  };

  // A plan with its module, and what no executor runs yet.
  struct Made {
    planner::Plan plan;
    Module training;
    std::vector<std::string> not_run;
  };

  Outcome<LoadedModel> load(const GlobalOptions& options);
  Outcome<GlobalOptions> options_of(const std::vector<std::string>& values) const;
  Outcome<Made> make(const std::vector<std::string>& values, const std::string& progress, PointEffort effort);
  Result<Known> prepare(const LoadedModel& model, const GlobalOptions& options, const std::string& kind);
  std::string kind_of(const std::vector<std::string>& values, const Module& module) const;

  std::string file_;
  GlobalOptions options_;
  std::vector<std::string> keys_;
  std::string held_;  // what the quiet console would print
  Console quiet_;
  SearchWatch watch_;
  std::map<std::string, Known> known_;  // key: kind_of
  std::vector<std::string> costs_;
  std::optional<Failure> refusal_;
};

}  // namespace xrun::cli
