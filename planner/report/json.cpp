// Tests: tests/planner/report/text_test.cpp
#include "planner/report/json.h"

#include <nlohmann/json.hpp>

#include "graph/settings/reader_def.h"
#include "planner/cost/graph_builds.h"
#include "planner/program/rows_on_disk.h"
#include "planner/program/run_memory.h"
#include "planner/program/save_size.h"
#include "planner/report/certificate.h"
#include "planner/report/cluster_traffic.h"
#include "planner/report/compression.h"
#include "planner/report/explain.h"
#include "planner/report/lines.h"
#include "planner/report/reason_text.h"
#include "planner/report/stages_json.h"
#include "planner/report/summary.h"
#include "planner/search/fit.h"

namespace xrun::planner {
namespace {

using Json = nlohmann::ordered_json;

Json digests_of(const Plan& plan) {
  Json sources = Json::object();
  for (const SourceDigest& source : plan.sources) {
    sources[source.path] = source.sha256;
  }
  return {{"math", plan.math_digest}, {"facts", plan.facts_digest}, {"sources", std::move(sources)}};
}

Json cluster_of(const Plan& plan) {
  const Machine& machine = plan.machine;
  Json cluster{{"name", machine.name},       {"cores", machine.cores},   {"devices", machine.devices},
               {"threads", machine.threads}, {"memory", machine.memory}, {"isa", plan.isa}};
  if (machine.has_gpus()) {
    cluster["gpu"] = machine.gpu;
    cluster["gpu_memory"] = machine.device_memory;
    cluster["gpu_link"] = machine.device_link;
  }
  if (machine.nodes() > 1) {
    cluster["nodes"] = machine.nodes();
    cluster["ranks"] = machine.ranks;
    cluster["device_nodes"] = machine.device_nodes;
    cluster["node_memory"] = machine.node_memory;
    cluster["network"] = {{"name", machine.network.name},
                          {"bytes_per_second", machine.network.rate},
                          {"latency_seconds", machine.network.latency}};
  }
  return cluster;
}

Json network_json(const NetworkSummary& network) {
  Json links = Json::array();
  for (const LinkBytes& link : network.links) {
    links.push_back({{"sent_bytes", link.sent}, {"received_bytes", link.received}});
  }
  Json uses = Json::array();
  for (const NetworkUse& use : network.uses) {
    uses.push_back({{"what", use.what}, {"busiest_bytes", use.busiest}, {"seconds", use.time}});
  }
  return {{"links", std::move(links)}, {"uses", std::move(uses)}};
}

Json parts_of(const Plan& plan, const Module& module) {
  Json list = Json::array();
  for (const PlanPart& part : list_parts(plan, module)) {
    list.push_back({{"name", part.name},
                    {"how", part.how},
                    {"parameters", part.parameters},
                    {"memory", part.memory},
                    {"seconds", part.time}});
  }
  return list;
}

Json shards_of(const Plan& plan, const Graph& graph) {
  Json list = Json::array();
  for (const HeadPlan& head : plan.training.heads) {
    for (const HeadShard& shard : head.shards) {
      list.push_back({{"head", graph.heads[static_cast<size_t>(head.head)].name},
                      {"shard", shard.shard},
                      {"device", shard.device},
                      {"classes", {shard.row_begin, shard.row_end}},
                      {"kept_classes", head.kept_classes(shard)}});
    }
  }
  return list;
}

Json memory_of(const Plan& plan, const Module& module) {
  Json list = Json::array();
  for (const DeviceSummary& device : list_devices(plan, module)) {
    Json parts = Json::object();
    for (const MemoryPart& part : memory_parts(plan.training, device.device)) {
      parts[part.name] = part.bytes;
    }
    list.push_back({{"device", device.device == kHost ? Json("host") : Json(device.device)},
                    {"what", device.what},
                    {"arena", device.arena},
                    {"live_max", device.live_max},
                    {"parts", std::move(parts)}});
  }
  return list;
}

Json run_memory_of(const Plan& plan, const Module& module) {
  const RunMemory memory = run_memory(module, plan.training, plan.inference);
  Json object{{"training", memory.training},   {"evaluation", memory.evaluation},
              {"readers", memory.readers},     {"uncounted", memory.uncounted},
              {"decoding", decoding_of(plan)}, {"sum", memory.sum() + decoding_of(plan)}};
  if (memory.saving > 0) {
    object["saving"] = memory.saving;
  }
  if (const auto& limit = module.schedule.memory_limit) {
    object["memory_limit"] = limit->value;
    object["largest_device"] = memory.largest_device();
  }
  if (plan.machine.has_gpus()) {
    object["gpus"] = memory.devices;
    object["hosts"] = memory.on_hosts() + decoding_of(plan);
  }
  for (const RowsOnDisk& one : rows_on_disk(module, plan.training, plan.samples)) {
    object["disk"].push_back(
        {{"head", one.head}, {"rows", one.rows}, {"undo", one.undo}, {"step_pages", one.step_pages}});
  }
  object["save_by_node"] = save_by_node(plan.training, plan.machine);
  return object;
}

Json communication_of(const Plan& plan) {
  Json list = Json::array();
  for (const CommSummary& one : list_communication(plan)) {
    list.push_back({{"what", one.what}, {"count", one.count}, {"bytes", one.bytes}, {"seconds", one.time}});
  }
  return list;
}

Json data_of(const Plan& plan, const Module& module) {
  Json data{{"synthetic", synthetic_sources(module.data)}};
  if (plan.samples > 0) {
    data["samples"] = plan.samples;
  }
  if (plan.decoding > 0) {
    data["decoding_a_worker"] = plan.decoding;
  }
  return data;
}

Json predicted_of(const Plan& plan, const Module& module) {
  const Prediction& predicted = plan.predicted;
  Json json{{"step_seconds", predicted.step},
            {"images_per_second", predicted.images_per_second},
            {"bubble", predicted.bubble},
            {"imbalance", predicted.imbalance},
            {"exposed_comm_seconds", predicted.exposed_comm},
            {"loader_core_seconds", predicted.loader}};
  const RunTimes times = run_times(plan, module);
  if (times.epoch) {
    json["epoch_seconds"] = *times.epoch;
  }
  if (times.run) {
    json["run_seconds"] = *times.run;
  }
  return json;
}

Json graphs_of(const Plan& plan, const Module& module) {
  Json heads = Json::array();
  for (const GraphBuild& graph : plan.graphs) {
    heads.push_back({{"head", module.graph.heads[static_cast<size_t>(graph.head)].name},
                     {"exact", graph.is_exact},
                     {"build_seconds", graph.time()}});
  }
  Json json{{"heads", std::move(heads)}};
  if (const auto period = graph_period(plan, module)) {
    json["period_steps"] = period->steps;
    json["period_seconds"] = period->time;
    json["builds"] = period->builds;
    json["seconds_a_step"] = period->added;
  }
  return json;
}

void add_costs(const Plan& plan, Json& document) {
  if (const std::string* calibration = calibration_of(plan)) {
    document["calibration"] = *calibration;
  }
  add_layer_times(plan, document);
}

template <typename T>
Json list_of(const std::vector<T>& items) {
  Json list = Json::array();
  for (const T& item : items) {
    list.push_back(json_of(item));
  }
  return list;
}

}  // namespace

std::string document_text(const Json& document) {
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json json_of(const Reason& reason) { return {{"choice", choice_text(reason)}, {"reason", reason_text(reason)}}; }

Json json_of(const Alternative& other) {
  Json json{{"settings", settings_text(other)},
            {"step_seconds", other.step},
            {"memory", other.memory},
            {"note", note_text(other)}};
  if (other.is_estimate) {
    json["estimate"] = true;
  }
  return json;
}

Json json_of(const HeadCost& cost) {
  return {{"choice", head_choice_text(cost)}, {"chosen", cost.chosen}, {"fits", cost.fits},
          {"step_seconds", cost.step},        {"memory", cost.memory}, {"rows_moved", cost.moved}};
}

std::string table_json(const Plan& plan, const Module& module, const std::string& table, int depth) {
  Json document{{"v", kReportVersion}, {"plan", plan.id}};
  if (table == "layers") {
    document["layers"] = layers_json(plan, module, depth);
    add_layer_times(plan, document);
  } else if (table == "memory") {
    document["memory"] = memory_of(plan, module);
    document["run_memory"] = run_memory_of(plan, module);
  } else if (table == "comm") {
    document["comm"] = communication_of(plan);
    if (const NetworkSummary network = network_of(plan); !network.links.empty()) {
      document["network"] = network_json(network);
    }
  } else {
    document["certificate"] = certificate_json(plan);
    document["why"] = list_of(plan.why);
    document["alternatives"] = list_of(plan.alternatives);
    document["other_kinds"] = list_of(plan.other_kinds);
    add_costs(plan, document);
  }
  return document_text(document);
}

std::string report_json(const Plan& plan, const Module& module) { return document_text(report_document(plan, module)); }

Json report_document(const Plan& plan, const Module& module) {
  const Program& program = plan.training;
  Json document = {{"v", kReportVersion},
                   {"plan", plan.id},
                   {"model", plan.model},
                   {"digests", digests_of(plan)},
                   {"cluster", cluster_of(plan)},
                   {"settings",
                    {{"batch", program.batch},
                     {"norm_rows", program.norm_rows},
                     {"stages", program.stages.size()},
                     {"replicas", program.replicas},
                     {"micro_batches", program.micro_batches},
                     {"pipeline", to_text(program.pipeline())},
                     {"deterministic", program.deterministic},
                     {"partials", program.partials}}},
                   {"data", data_of(plan, module)},
                   {"parts", parts_of(plan, module)},
                   {"stages", stages_json(plan, module.graph)},
                   {"shards", shards_of(plan, module.graph)},
                   {"ops", operators_json(plan, module.graph)},
                   {"memory", memory_of(plan, module)},
                   {"run_memory", run_memory_of(plan, module)},
                   {"comm", communication_of(plan)},
                   {"predicted", predicted_of(plan, module)},
                   {"certificate", certificate_json(plan)},
                   {"why", list_of(plan.why)},
                   {"alternatives", list_of(plan.alternatives)},
                   {"other_kinds", list_of(plan.other_kinds)}};
  if (const auto compressed = compression_of(plan, module)) {
    document["compress"] = {{"gradients", compressed->elements}, {"pairs", compressed->pairs},
                            {"sent_bytes", compressed->sent},    {"sent_bytes_at_first", compressed->sent_at_first},
                            {"dense_bytes", compressed->dense},  {"other_bytes", compressed->others},
                            {"senders", compressed->senders},    {"inside_bytes", compressed->inside}};
  }
  if (const NetworkSummary network = network_of(plan); !network.links.empty()) {
    document["network"] = network_json(network);
  }
  add_costs(plan, document);
  if (!plan.graphs.empty()) {
    document["graphs"] = graphs_of(plan, module);
  }
  for (const SizeSummary& size : list_sizes(plan)) {
    document["sizes"].push_back({{"batch", size.batch}, {"step_seconds", size.step}, {"memory_used", size.used}});
  }
  if (!plan.costs.empty()) {
    document["head_choices"] = {{"head", plan.costs_of}, {"choices", list_of(plan.costs)}};
  }
  return document;
}

}  // namespace xrun::planner
