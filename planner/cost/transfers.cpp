// Tests: tests/planner/cost/simulate_test.cpp, tests/planner/cost/simulate_random_test.cpp
#include "planner/cost/transfers.h"

#include <set>
#include <utility>

#include "planner/program/links.h"

namespace xrun::planner {

std::map<int, Transfer> make_transfers(const Program& program, const Machine& machine) {
  std::map<int, Transfer> transfers;
  if (machine.network.rate <= 0) {
    return transfers;
  }
  std::map<int, std::set<int>> ranks;  // ranks of the members, which are adjacent; key: group
  int group = -1;
  std::set<int>* own = nullptr;
  for (const Instruction& member : program.instructions) {
    if (communicates(member.kind)) {
      own = own == nullptr || member.group != group ? &ranks[member.group] : own;
      group = member.group;
      own->insert(own->end(), machine.rank_of(member.device));
    }
  }
  std::map<std::pair<std::vector<size_t>, std::set<int>>, size_t> routes;  // key: links and ranks
  for (const auto& [number, load] : link_loads(program, machine)) {
    const auto busiest = static_cast<double>(load.busiest());
    Transfer made{.alone = busiest / machine.network.rate};
    std::vector<size_t> links;
    const auto add = [&](size_t link, Bytes bytes) {
      if (bytes > 0) {
        made.uses.push_back({link, static_cast<double>(bytes) / busiest});
        links.push_back(link);
      }
    };
    for (size_t n = 0; n < load.links().size(); ++n) {
      add(2 * n, load.links()[n].sent);
      add(2 * n + 1, load.links()[n].received);
    }
    if (!links.empty()) {
      made.route = routes.try_emplace({std::move(links), ranks[number]}, routes.size()).first->second;
      transfers.emplace(number, std::move(made));
    }
  }
  return transfers;
}

}  // namespace xrun::planner
