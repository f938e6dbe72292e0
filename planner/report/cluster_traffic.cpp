// Tests: tests/planner/cluster_test.cpp
#include "planner/report/cluster_traffic.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

#include "graph/base/utf8.h"
#include "graph/settings/gpu_def.h"
#include "planner/report/table.h"

namespace xrun::planner {
namespace {

// Returns the name of the data that an exchange moves.
std::string purpose_of(const Program& program, const Instruction& member) {
  const Purpose purpose =
      member.operands.empty() ? Purpose::kActivation : program.buffer(member.operands[0].buffer).purpose;
  if (member.kind == Kind::kSend || member.kind == Kind::kRecv) {
    return "between stages";
  }
  if (member.head >= 0) {
    return member.kind == Kind::kReduceScatter ? "gradients of features"
           : purpose == Purpose::kHeadStats    ? "statistics of softmax"
                                               : "features";
  }
  return purpose == Purpose::kPairs                                    ? "compressed gradients"
         : purpose == Purpose::kGradient || purpose == Purpose::kTerms ? "gradients"
         : purpose == Purpose::kNorms                                  ? "norms"
                                                                       : "batch statistics";
}

std::string rate_text(double rate) {
  const double bits = 8 * rate;
  return bits >= 1e9   ? fmt::format("{:.3g} Gbit/s", bits / 1e9)
         : bits >= 1e6 ? fmt::format("{:.3g} Mbit/s", bits / 1e6)
                       : fmt::format("{:.3g} kbit/s", bits / 1e3);
}

}  // namespace

NetworkSummary network_of(const Plan& plan) {
  NetworkSummary summary;
  if (plan.machine.nodes() == 1) {
    return summary;
  }
  summary.links.resize(static_cast<size_t>(plan.machine.nodes()));
  std::map<std::string, std::vector<LinkBytes>> uses;
  std::vector<std::string> order;
  std::map<int, bool> known;
  const std::map<int, LinkLoad> loads = link_loads(plan.training, plan.machine);
  for (const Instruction& member : plan.training.instructions) {
    const auto load = communicates(member.kind) ? loads.find(member.group) : loads.end();
    if (load == loads.end() || !known.emplace(member.group, true).second) {
      continue;
    }
    const std::string what = purpose_of(plan.training, member);
    if (!uses.contains(what)) {
      order.push_back(what);
      uses[what].resize(summary.links.size());
    }
    for (size_t n = 0; n < summary.links.size(); ++n) {
      for (LinkBytes* sum : {&summary.links[n], &uses[what][n]}) {
        sum->sent += load->second.links()[n].sent;
        sum->received += load->second.links()[n].received;
      }
    }
  }
  for (const std::string& what : order) {
    const Bytes bytes = busiest_of(uses[what]);
    const double rate = plan.machine.network.rate;
    summary.uses.push_back({what, bytes, rate > 0 ? static_cast<double>(bytes) / rate : 0.0});
  }
  return summary;
}

std::string to_text(const NetworkSpec& network) {
  return network.known()
             ? fmt::format("{} {}, {}", network.name, rate_text(network.rate), format_seconds(network.latency))
             : "network not known";
}

namespace {

std::string text_of(const NetworkSummary& summary, const Plan& plan) {
  std::string text = fmt::format("{} nodes, {}: ", summary.links.size(), to_text(plan.machine.network));
  if (summary.uses.empty()) {
    return text + "a step moves nothing between them";
  }
  const Bytes bytes = summary.busiest();
  text += "the busiest link moves " + format_bytes(bytes) + " a step";
  if (plan.machine.network.known()) {
    text += ", " + format_seconds(static_cast<double>(bytes) / plan.machine.network.rate);
  }
  for (size_t i = 0; i < summary.uses.size(); ++i) {
    text += (i == 0 ? ": " : ", ") + summary.uses[i].what + " " + format_bytes(summary.uses[i].busiest);
  }
  return text;
}

}  // namespace

std::string device_link_text(const Machine& machine) {
  if (!machine.has_gpus() || machine.devices <= machine.nodes()) {
    return "";
  }
  const std::string_view link = link_of_gpu(machine.gpu);
  const std::string source = !link.empty() ? fmt::format("published for {}", link)
                             : machine.gpu == kStatedDevice
                                 ? std::string("the cluster states or, without `link`, PCIe 4.0 x16 has")
                                 : std::string("assumed for PCIe 4.0 x16");
  return fmt::format("{:.3g} GB/s in each direction between two {} of a node, as {}", machine.device_link / 1e9,
                     machine.gpu, source);
}

std::string network_text(const Plan& plan) {
  const NetworkSummary summary = network_of(plan);
  return summary.links.empty() ? "" : text_of(summary, plan);
}

std::string network_table(const Plan& plan) {
  const NetworkSummary summary = network_of(plan);
  if (summary.links.empty()) {
    return "";
  }
  TextTable links({Align::kLeft, Align::kRight, Align::kRight});
  links.add({"link of", "sends", "receives"});
  for (size_t n = 0; n < summary.links.size(); ++n) {
    links.add(
        {fmt::format("node {}", n), format_bytes(summary.links[n].sent), format_bytes(summary.links[n].received)});
  }
  return "\n" + links.text("") + printable_line(text_of(summary, plan)) + "\n";
}

}  // namespace xrun::planner
