// Tests: tests/planner/report/text_test.cpp
#include "planner/report/certificate.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "graph/base/counted.h"
#include "planner/report/lines.h"

namespace xrun::planner {
namespace {

using Limit = Certificate::Limit;

// Returns numbers as text: "1 stage", "1 to 8 stages", "1, 2 or 4 replicas", "7 numbers of micro-batches from 1 to 64".
std::string numbers_text(const std::vector<int>& numbers, const std::string& what) {
  if (numbers.empty()) {
    return "no " + what;
  }
  const int first = numbers.front();
  const int last = numbers.back();
  if (first == last) {
    return counted(first, what);
  }
  if (last - first + 1 == std::ssize(numbers)) {
    return std::to_string(first) + (numbers.size() == 2 ? " or " : " to ") + counted(last, what);
  }
  if (numbers.size() > 4) {
    const std::string many = counted(2, what).substr(2);
    return counted(std::ssize(numbers), "number") + " of " + many + " from " + std::to_string(first) + " to " +
           std::to_string(last);
  }
  std::string text;
  for (const int number : numbers) {
    text += number == last ? " or " + counted(number, what) : (text.empty() ? "" : ", ") + std::to_string(number);
  }
  return text;
}

std::string bound_text(const Plan& plan) {
  const Certificate& made = *plan.certificate;
  std::string pipelines;
  auto left = std::ranges::count(made.pipelines, true);
  for (size_t kind = 0; kind < made.pipelines.size(); ++kind) {
    if (made.pipelines[kind]) {
      pipelines += pipelines.empty() ? "" : left == 1 ? " or " : ", ";
      pipelines += name_of(static_cast<PipelineKind>(kind));
      --left;
    }
  }
  return "every plan takes at least " + format_seconds(made.bound) +
         format(" (this one %.1f %% more) with ", 100 * gap_of(plan)) + pipelines + ", " +
         numbers_text(made.stages, "contiguous stage") + ", " + numbers_text(made.replicas, "replica") + ", " +
         numbers_text(made.micro_batches, "micro-batch");
}

std::string limit_value(const Certificate& made) {
  switch (made.limit) {
    case Limit::kForward:
    case Limit::kBackward:
      return "stage " + std::to_string(made.stage);
    case Limit::kHead:
      return "head";
    case Limit::kCores:
      return "cores";
    case Limit::kMemory:
      return "memory";
    case Limit::kLoader:
      return "loader";
  }
  return "";
}

std::string limit_reason(const Certificate& made) {
  const std::string time = format_seconds(made.busy);
  switch (made.limit) {
    case Limit::kForward:
      return "its forward passes take " + time + " of a step";
    case Limit::kBackward:
      return "its backward passes take " + time + " of a step";
    case Limit::kHead:
      return "its passes, sums and update take " + time + " of a step";
    case Limit::kCores:
      return "they are busy for " + time + " of a step";
    case Limit::kMemory:
      return format_count(made.count) + (made.count == 1 ? " layer runs" : " layers run") + " again to fit";
    case Limit::kLoader:
      return "reading and transforming the samples of a step takes " + time + " on all cores";
  }
  return "";
}

std::string search_text(const Certificate& made) {
  return "ended by --search-time after " + counted(made.compared, "program") +
         "; a longer search may find a faster plan";
}

}  // namespace

double gap_of(const Plan& plan) {
  return plan.certificate && plan.certificate->bound > 0 ? plan.predicted.step / plan.certificate->bound - 1 : 0;
}

std::string limit_text(const Plan& plan) { return plan.certificate ? limit_value(*plan.certificate) : ""; }

std::string bound_line(const Plan& plan) { return plan.certificate ? "  bound      " + bound_text(plan) + "\n" : ""; }

std::string search_line(const Plan& plan) {
  const bool ended = plan.certificate && !plan.certificate->complete;
  return ended ? "  search     " + search_text(*plan.certificate) + "\n" : "";
}

std::vector<std::pair<std::string, std::string>> certificate_rows(const Plan& plan) {
  std::vector<std::pair<std::string, std::string>> rows;
  if (plan.certificate) {
    rows.emplace_back("step = " + format_seconds(plan.predicted.step), bound_text(plan));
    rows.emplace_back("limit = " + limit_value(*plan.certificate), limit_reason(*plan.certificate));
    if (!plan.certificate->complete) {
      rows.emplace_back("search", search_text(*plan.certificate));
    }
  }
  return rows;
}

nlohmann::ordered_json certificate_json(const Plan& plan) {
  if (!plan.certificate) {
    return nullptr;
  }
  constexpr const char* kLimits[] = {"forward", "backward", "head", "cores", "memory", "loader"};
  const Certificate& made = *plan.certificate;
  nlohmann::ordered_json pipelines = nlohmann::ordered_json::array();
  for (size_t kind = 0; kind < made.pipelines.size(); ++kind) {
    if (made.pipelines[kind]) {
      pipelines.push_back(word_of(static_cast<PipelineKind>(kind)));
    }
  }
  nlohmann::ordered_json json{{"lower_bound_ms", made.bound * 1e3},
                              {"gap", gap_of(plan)},
                              {"kinds",
                               {{"stages", made.stages},
                                {"replicas", made.replicas},
                                {"micro_batches", made.micro_batches},
                                {"pipelines", std::move(pipelines)}}},
                              {"limit", {{"what", kLimits[static_cast<size_t>(made.limit)]}}}};
  if (made.limit == Limit::kForward || made.limit == Limit::kBackward) {
    json["limit"]["stage"] = made.stage;
  }
  if (made.limit == Limit::kMemory) {
    json["limit"]["layers_again"] = made.count;
  } else {
    json["limit"]["seconds"] = made.busy;
  }
  json["complete"] = made.complete;
  if (!made.complete) {
    json["programs"] = made.compared;
  }
  return json;
}

}  // namespace xrun::planner
