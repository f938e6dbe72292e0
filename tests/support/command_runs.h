// Runs one model with the command in a directory of its own, reads the events of the runs, and compares plans that must
// give equal bits.
#pragma once

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/command.h"

namespace xrun::testing {

using Flags = std::vector<std::string>;

inline Flags with(Flags flags, const Flags& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}
inline Flags with(Flags flags, const std::string& setting) { return with(std::move(flags), Flags{"--set", setting}); }

// Parses a text that has one JSON object in each line.
inline std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> list;
  std::string line;
  for (std::istringstream in(text); std::getline(in, line);) {
    list.push_back(nlohmann::json::parse(line));
  }
  return list;
}

class CommandRuns : public ::testing::Test {
 protected:
  CommandResult run(const Flags& words, CommandOptions options = {}) const {
    options.directory = directory.path();
    return run_xrun(words, options);
  }
  void write_model(const std::string& text) { directory.write(kFile, text); }

  // Trains with the output in `out`, and expects the run to succeed.
  CommandResult training(const std::string& out, const Flags& flags, const CommandOptions& options = {}) const {
    CommandResult result =
        run(with({"train", kFile, "--deterministic", "--progress", "json", "-C", out}, flags), options);
    EXPECT_EQ(result.exit, 0) << result.err << result.out;
    return result;
  }
  std::vector<nlohmann::json> train(const std::string& out, const Flags& flags,
                                    const CommandOptions& options = {}) const {
    return json_lines(training(out, flags, options).out);
  }
  // Trains, and returns the values of `key` in the events.
  std::vector<double> values(const std::string& key, const std::string& out, const Flags& flags) const {
    std::vector<double> list;
    for (const nlohmann::json& event : train(out, flags)) {
      if (event.contains(key)) {
        list.push_back(event.at(key));
      }
    }
    EXPECT_FALSE(list.empty()) << key;
    return list;
  }
  // Trains, and returns the digest of the weights.
  std::string weights(const std::string& out, const Flags& flags, const CommandOptions& options = {}) const {
    const std::string digest = train(out, flags, options).back().value("weights", "");
    EXPECT_EQ(digest.size(), 32U);
    return digest;
  }

  // Returns plans with several stages, both schedules, recomputation, and replicas whose gradients are in one or in
  // many buckets, with and without overlap.
  static const std::vector<Flags>& plans() {
    static const std::vector<Flags> list{
        {"--devices", "2", "--set", "schedule.stages=2", "--set", "schedule.micro_batches=4"},
        {"--devices", "3", "--set", "schedule.stages=3", "--set", "schedule.micro_batches=2", "--set",
         "schedule.pipeline=one_f_one_b", "--set", "schedule.recompute=all"},
        {"--devices", "4", "--set", "schedule.replicas=2", "--set", "schedule.stages=2", "--threads", "5"},
        {"--devices", "4", "--set", "schedule.replicas=2", "--set", "schedule.stages=2", "--set",
         "schedule.overlap=false"},
        {"--devices", "2", "--set", "schedule.replicas=2", "--set", "schedule.bucket=1B"},
    };
    return list;
  }
  // Expects in f32 and in bf16 that every plan gives the bits of one device. Returns the digest of the weights in f32.
  std::string expect_one_result(const Flags& flags = {}) const {
    std::string in_f32;
    for (const std::string precision : {"mixed(bf16)", "f32"}) {
      const Flags all = with(flags, "train.precision=" + precision);
      in_f32 = weights("one_" + precision, with(all, Flags{"--devices", "1"}));
      for (size_t i = 0; i < plans().size(); ++i) {
        const std::string out = precision + "_" + std::to_string(i);
        EXPECT_EQ(weights(out, with(plans()[i], all)), in_f32) << precision << ", plan " << i;
      }
    }
    return in_f32;
  }

  static constexpr const char* kFile = "net.xgraph";
  TemporaryDirectory directory;
};

}  // namespace xrun::testing
