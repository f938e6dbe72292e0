// Tests: tests/planner/report/page/html_page_test.cpp
#include "planner/report/page/schedule_json.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "planner/report/page/alike_devices.h"
#include "planner/report/page/instructions_json.h"
#include "planner/report/page/page_json.h"
#include "planner/report/page/starts_after.h"
#include "planner/report/summary.h"

namespace xrun::planner {
namespace {

using Json = nlohmann::ordered_json;

// Texts that rows refer to by their index.
class Texts {
 public:
  int index(const std::string& text) {
    const auto [at, is_new] = known_.emplace(text, static_cast<int>(list_.size()));
    if (is_new) {
      list_.push_back(text);
    }
    return at->second;
  }
  Json take() { return std::move(list_); }

 private:
  std::map<std::string, int> known_;
  Json list_ = Json::array();
};

class Drawing {
 public:
  Drawing(const Plan& plan, const ProgramTimes& times, const MeasuredTimes* measured)
      : plan_(plan), times_(times), measured_(measured), after_(starts_after(plan.training, times)) {}

  DrawnSchedule draw() {
    DrawnSchedule drawn;
    Json devices = Json::array();
    std::map<int, std::vector<const Instruction*>> of_device;
    for (const Instruction& one : plan_.training.instructions) {
      of_device[one.device].push_back(&one);
    }
    size_t count = 0;
    int left_out = 0;
    for (const AlikeDevices& group : alike_devices(plan_.training, times_)) {
      const int device = group.devices.front();
      const auto& own = of_device[device];
      if (count > 0 && count + own.size() > kMostDrawn) {
        left_out += static_cast<int>(group.devices.size());
        continue;
      }
      count += own.size();
      drawn.devices.push_back(device);
      devices.push_back({{"device", device},
                         {"name", name_of_device(device)},
                         {"alike", group.devices},
                         {"busy", {group.least_busy, group.most_busy}}});
      drawn_.insert(device);
    }
    for (size_t row = 0; row < drawn.devices.size(); ++row) {
      for (const Instruction* one : of_device[drawn.devices[row]]) {
        add(*one, static_cast<int>(row));
      }
    }
    drawn.json = {{"makespan", times_.makespan},       {"data_seconds", data_time(plan_, times_)},
                  {"devices", std::move(devices)},     {"left_out", left_out},
                  {"columns", std::move(columns_)},    {"kinds", kinds_.take()},
                  {"labels", labels_.take()},          {"lines", lines_.take()},
                  {"elsewhere", std::move(elsewhere_)}};
    if (measured_ != nullptr) {
      drawn.measured = {{"steps", measured_->steps}, {"step_seconds", measured_->step}, {"times", std::move(run_)}};
    }
    return drawn;
  }

 private:
  std::string name_of_device(int device) const {
    std::string name = (plan_.machine.has_gpus() ? "gpu " : "cpu ") + std::to_string(device);
    for (const Stage& stage : plan_.training.stages) {
      if (std::ranges::find(stage.devices, device) != stage.devices.end()) {
        name += " · stage " + std::to_string(stage.index);
      }
    }
    return name;
  }

  // Returns the dependences of an instruction other than the one that starts it. Those on devices that are not drawn
  // get an entry in `elsewhere`: id: [label, device, end].
  Json needs_of(const Instruction& one) {
    std::set<int> ids;
    for (const auto* list : {&one.deps, &one.releases}) {
      for (const InstructionId id : *list) {
        ids.insert(id.index);
      }
    }
    ids.erase(after_[static_cast<size_t>(one.id.index)].index);
    Json needs = Json::array();
    for (const int id : ids) {
      needs.push_back(known(id));
    }
    return needs;
  }

  // Returns `id` and makes sure that the page can name the instruction.
  int known(int id) {
    if (id < 0) {
      return -1;
    }
    const Instruction& one = plan_.training.instructions[static_cast<size_t>(id)];
    if (!drawn_.contains(one.device)) {
      const InstructionTime& time = times_.instructions[static_cast<size_t>(id)];
      elsewhere_[std::to_string(id)] = {labels_.index(label_of(plan_.training, one)),
                                        one.device == kHost ? Json("host") : Json(one.device),
                                        whole_nanoseconds(time.end)};
    }
    return id;
  }

  int ops_of(const Instruction& one) {
    if (one.nodes.empty() || !plan_.kept) {
      return -1;
    }
    const Graph& graph = plan_.kept->module.graph;
    const std::string& first = graph.node(one.nodes.front()).path;
    const std::string& last = graph.node(one.nodes.back()).path;
    return labels_.index(first + (one.nodes.size() > 1 ? " … " + last : "") + " (" + std::to_string(one.nodes.size()) +
                         (one.nodes.size() == 1 ? " operator)" : " operators)"));
  }

  int line_of(const Instruction& one) {
    const SourceLine* line = plan_.kept ? plan_.kept->line_of(one.span) : nullptr;
    return line == nullptr ? -1 : lines_.index(line->file + ":" + std::to_string(line->line) + "  " + line->text);
  }

  void add(const Instruction& one, int row) {
    const InstructionTime& time = times_.instructions[static_cast<size_t>(one.id.index)];
    columns_["id"].push_back(one.id.index);
    columns_["row"].push_back(row);
    columns_["comm"].push_back(one.stream == Stream::kComm ? 1 : 0);
    columns_["kind"].push_back(kinds_.index(planner::name_of(one.kind)));
    columns_["micro_batch"].push_back(one.micro_batch);
    columns_["begin"].push_back(whole_nanoseconds(time.start));
    columns_["end"].push_back(whole_nanoseconds(time.end));
    columns_["bytes"].push_back(one.bytes);
    columns_["flops"].push_back(static_cast<int64_t>(std::llround(one.flops)));
    columns_["group"].push_back(one.group);
    columns_["label"].push_back(labels_.index(label_of(plan_.training, one)));
    columns_["ops"].push_back(ops_of(one));
    columns_["line"].push_back(line_of(one));
    columns_["after"].push_back(known(after_[static_cast<size_t>(one.id.index)].index));
    columns_["needs"].push_back(needs_of(one));
    columns_["work"].push_back(whole_nanoseconds(one.predicted));
    if (measured_ != nullptr) {
      const MeasuredTime& run = measured_->instructions[static_cast<size_t>(one.id.index)];
      run_.push_back(run.known() ? Json{whole_nanoseconds(run.begin), whole_nanoseconds(run.end)} : Json());
    }
  }

  const Plan& plan_;
  const ProgramTimes& times_;
  const MeasuredTimes* measured_;
  std::vector<InstructionId> after_;  // index: instruction
  std::set<int> drawn_;               // devices
  Json elsewhere_ = Json::object();
  Json columns_ = Json::object();
  Json run_ = Json::array();
  Texts kinds_;
  Texts labels_;
  Texts lines_;
};

}  // namespace

int64_t whole_nanoseconds(Seconds time) { return std::llround(time * 1e9); }

DrawnSchedule draw_schedule(const Plan& plan, const ProgramTimes& times, const MeasuredTimes* measured) {
  return Drawing(plan, times, measured).draw();
}

}  // namespace xrun::planner
