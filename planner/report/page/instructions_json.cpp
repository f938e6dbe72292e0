#include "planner/report/page/instructions_json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "planner/report/json.h"
#include "planner/report/page/memory_curve.h"
#include "planner/report/summary.h"

namespace xrun::planner {
namespace {

using Json = nlohmann::ordered_json;

Json device_json(int device) { return device == kHost ? Json("host") : Json(device); }

Json ids_json(const std::vector<InstructionId>& ids) {
  Json list = Json::array();
  for (const InstructionId id : ids) {
    list.push_back(id.index);
  }
  return list;
}

// Adds the first and the last operator of a pass.
void add_nodes(const Plan& plan, const Instruction& one, Json& object) {
  if (one.nodes.empty()) {
    return;
  }
  object["ops"] = one.nodes.size();
  if (plan.kept) {
    const Graph& graph = plan.kept->module.graph;
    object["first_op"] = graph.node(one.nodes.front()).path;
    object["last_op"] = graph.node(one.nodes.back()).path;
  }
}

// Returns the name of a part of a split backward pass; empty for all other instructions.
std::string part_of(const Program& program, const Instruction& one) {
  const char letter = is_stage_pass(one.kind) ? *program.letter_of(one) : ' ';
  return letter == 'I' ? "input gradient" : letter == 'W' ? "weight gradient" : "";
}

Json instruction_json(const Plan& plan, const Instruction& one, const InstructionTime& time) {
  Json object{{"id", one.id.index},
              {"device", device_json(one.device)},
              {"stream", one.stream == Stream::kCompute ? "compute" : "comm"},
              {"what", name_of(one.kind)}};
  const auto add = [&](const char* name, int number) {
    if (number >= 0) {
      object[name] = number;
    }
  };
  if (const std::string part = part_of(plan.training, one); !part.empty()) {
    object["part"] = part;
  }
  add("stage", one.stage);
  add("replica", plan.training.replicas > 1 ? one.replica : -1);
  add("micro_batch", one.micro_batch);
  add("head", one.head);
  add("head_pass", one.head_pass);
  add("shard", one.shard);
  add("group", one.group);
  add_nodes(plan, one, object);
  object["flops"] = one.flops;
  object["bytes"] = one.bytes;
  object["seconds"] = one.predicted;
  object["begin"] = time.start;
  object["end"] = time.end;
  object["after"] = ids_json(one.deps);
  object["released"] = ids_json(one.releases);
  if (const std::string source = source_of(plan, one); !source.empty()) {
    object["source"] = source;
  }
  return object;
}

// Returns a value of a row of CSV. Only texts need quotes.
std::string cell_of(const Json& value) {
  if (value.is_array()) {
    std::string text;
    for (const Json& one : value) {
      text += (text.empty() ? "" : " ") + one.dump();
    }
    return text;
  }
  if (!value.is_string()) {
    return value.is_null() ? "" : value.dump();
  }
  std::string text = value.get<std::string>();
  if (text.find_first_of(",\"\n\r") == std::string::npos) {
    return text;
  }
  for (size_t at = text.find('"'); at != std::string::npos; at = text.find('"', at + 2)) {
    text.insert(at, 1, '"');
  }
  return '"' + text + '"';
}

}  // namespace

std::string label_of(const Program& program, const Instruction& instruction) {
  const std::string part = part_of(program, instruction);
  std::string text = part.empty() ? name_of(instruction.kind) : part;
  const auto add = [&](const char* name, int number) {
    text += number >= 0 ? fmt::format(" {} {}", name, number) : "";
  };
  add("stage", instruction.stage);
  add("micro-batch", instruction.micro_batch);
  add("head pass", instruction.head_pass);
  add("shard", instruction.shard);
  return text;
}

std::string source_of(const Plan& plan, const Instruction& instruction) {
  const SourceLine* line = plan.kept ? plan.kept->line_of(instruction.span) : nullptr;
  return line != nullptr ? line->file + ":" + std::to_string(line->line) : "";
}

Json instructions_json(const Plan& plan, const ProgramTimes& times) {
  Json list = Json::array();
  for (const Instruction& one : plan.training.instructions) {
    list.push_back(instruction_json(plan, one, times.instructions[static_cast<size_t>(one.id.index)]));
  }
  return list;
}

Json memory_curves_json(const Plan& plan, const ProgramTimes& times) {
  Json list = Json::array();
  for (const MemoryCurve& curve : memory_curves(plan.training, times)) {
    Json points = Json::array();
    for (const MemoryPoint& point : curve.points) {
      points.push_back({point.time, point.bytes});
    }
    Json peak{{"bytes", curve.peak}, {"seconds", curve.peak_time}};
    if (plan.training.instructions.size() > static_cast<size_t>(curve.at.index)) {  // false for an invalid id
      peak["instruction"] = curve.at.index;
      peak["what"] = label_of(plan.training, plan.training.instructions[static_cast<size_t>(curve.at.index)]);
    }
    list.push_back({{"device", device_json(curve.device)},
                    {"arena", curve.arena},
                    {"always", curve.always},
                    {"peak", std::move(peak)},
                    {"points", std::move(points)}});
  }
  return list;
}

std::string gantt_json(const Plan& plan) { return document_text(gantt_document(plan)); }

Json gantt_document(const Plan& plan) {
  const ProgramTimes times = times_of(plan);
  return {{"v", kReportVersion},
          {"plan", plan.id},
          {"step_seconds", plan.predicted.step},
          {"data_seconds", data_time(plan, times)},
          {"instructions", instructions_json(plan, times)},
          {"memory_curves", memory_curves_json(plan, times)}};
}

std::string instructions_csv(const Plan& plan) {
  constexpr const char* kColumns[] = {"id",          "device",  "stream",    "what",  "stage",   "replica",
                                      "micro_batch", "head",    "head_pass", "shard", "group",   "ops",
                                      "first_op",    "last_op", "flops",     "bytes", "seconds", "begin",
                                      "end",         "after",   "released",  "source"};
  std::string text;
  for (const char* column : kColumns) {
    text += (text.empty() ? "" : ",") + std::string(column);
  }
  text += "\n";
  for (const Json& one : instructions_json(plan, times_of(plan))) {
    std::string line;
    for (const char* column : kColumns) {
      line += line.empty() && column == kColumns[0] ? "" : ",";
      line += one.contains(column) ? cell_of(one[column]) : "";
    }
    text += line + "\n";
  }
  return text;
}

}  // namespace xrun::planner
