// Readers for the output of `--progress json` and for the log of a run.
#pragma once

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace xrun::testing {

// Returns the events of one kind, in the order of the lines of `text`.
inline std::vector<nlohmann::json> run_events(const std::string& text, const std::string& kind) {
  std::vector<nlohmann::json> events;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    auto event = nlohmann::json::parse(line, nullptr, false);
    if (event.is_object() && event.value("t", "") == kind) {
      events.push_back(std::move(event));
    }
  }
  return events;
}

}  // namespace xrun::testing
