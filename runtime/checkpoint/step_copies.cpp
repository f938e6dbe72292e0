// Tests: tests/runtime/checkpoint/copies/second_copy_test.cpp
#include "runtime/checkpoint/step_copies.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <system_error>

#include "runtime/checkpoint/files/directory.h"
#include "runtime/checkpoint/put_aside.h"
#include "runtime/checkpoint/resume_checks.h"
#include "runtime/checkpoint/tensors/checkpoint.h"
#include "runtime/checkpoint/tensors/model_text.h"

namespace xrun::runtime {
namespace {

// The message of a rank about its copy: empty while the copy is under way, "done BYTES", or "no REASON".
constexpr std::string_view kDone = "done ";
constexpr std::string_view kNo = "no ";

// Checks that the directory of copies has no steps of another run, since new copies would replace them one by one. A
// directory whose steps cannot be read is accepted.
Status check_owner(const std::string& path, const CheckpointOptions& options) {
  const auto newest = newest_in(path);
  if (!newest.ok() || !*newest) {
    return {};
  }
  const auto info = open_checkpoint(path + "/" + **newest);
  Status checked = info.ok() ? check_digest(*info, options) : Status();
  if (!checked.ok()) {
    Error error = std::move(checked).error();
    error.help = "give the second copies of this run a directory of their own: `checkpoint { copy }`";
    return error;
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<StepCopies>> StepCopies::open(const CheckpointOptions& options) {
  Peers* const peers = options.peers;
  std::vector<int> hosts = options.rank_hosts;
  hosts.resize(peers == nullptr ? 1 : static_cast<size_t>(peers->count()), 0);
  const size_t rank = peers == nullptr ? 0 : static_cast<size_t>(peers->rank());
  std::unique_ptr<StepCopies> made(new StepCopies(options.copy, hosts, peers));
  const auto open_own = [&]() -> Status {
    if (std::ranges::find(hosts, hosts[rank]) - hosts.begin() != static_cast<int64_t>(rank)) {
      return {};
    }
    XRUN_TRY(make_room(options, options.copy));
    XRUN_ASSIGN(made->own_, SecondCopy::open(options.directory, options.copy, options.keep, *options.io));
    return check_owner(made->own_->path(), options);
  };
  Status opened = open_own();
  XRUN_TRY(peers == nullptr ? std::move(opened) : peers->agree(std::move(opened)));
  return made;
}

// Returns the files that this host copies. The model's text and the class names count as files of rank 0.
CopyShare StepCopies::share_of(const RankFiles& files) const {
  const int hosts = std::ranges::max(hosts_) + 1;
  const int mine = hosts_[peers_ == nullptr ? 0 : static_cast<size_t>(peers_->rank())];
  const int copied = (mine + hosts - 1) % hosts;
  CopyShare share{.class_names = copied == 0};
  if (copied == 0) {
    share.names.insert(std::string(kModelFile));
  }
  for (size_t rank = 0; rank < files.size(); ++rank) {
    for (const ManifestFile& file : files[rank]) {
      if (hosts_[rank] == copied) {
        share.names.insert(file.name);
      }
    }
  }
  return share;
}

void StepCopies::add(int64_t step, const RankFiles& files) {
  if (waiting_) {
    ended_.push_back({.step = waiting_->step,
                      .path = place_of(waiting_->step),
                      .fault = fmt::format("{} was saved before the copy of {} was done", step_name(step),
                                           step_name(under_way_->step))});
  }
  waiting_ = Step{.step = step, .share = own_ == nullptr ? CopyShare() : share_of(files)};
  if (!under_way_) {
    begin(*std::exchange(waiting_, std::nullopt));
  }
}

void StepCopies::begin(Step step) {
  step.begin = Clock::now();
  no_thread_.clear();
  if (own_ != nullptr) {
    try {
      own_->begin(step.step, std::move(step.share));
    } catch (const std::system_error&) {
      no_thread_ = "the system lets no thread start that copies in the background";
    }
  }
  under_way_ = std::move(step);
}

std::string StepCopies::said() const {
  if (own_ == nullptr) {
    return std::string(kDone) + "0";
  }
  if (!no_thread_.empty()) {
    return std::string(kNo) + no_thread_;
  }
  if (!own_->done()) {
    return "";
  }
  const Result<Bytes>& outcome = own_->outcome();
  return outcome.ok() ? fmt::format("{}{}", kDone, *outcome) : fmt::format("{}{}", kNo, outcome.error().message);
}

CheckpointCopy StepCopies::result_of(const std::vector<std::string>& texts) const {
  const auto taken = std::chrono::duration<double>(Clock::now() - under_way_->begin).count();
  CheckpointCopy result{.step = under_way_->step, .path = place_of(under_way_->step), .seconds = taken};
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].starts_with(kDone)) {
      result.bytes += std::atoll(texts[rank].c_str() + kDone.size());
    } else if (result.fault.empty()) {
      result.fault = (peers_ == nullptr ? "" : peers_->name(static_cast<int>(rank)) + ": ") +
                     texts[rank].substr(std::min(kNo.size(), texts[rank].size()));
    }
  }
  return result;
}

Result<std::vector<CheckpointCopy>> StepCopies::follow(bool wait) {
  std::vector<CheckpointCopy> ended = std::exchange(ended_, {});
  while (under_way_) {
    if (wait && own_ != nullptr && no_thread_.empty()) {
      own_->wait();
    }
    XRUN_ASSIGN(const auto texts, gather_texts(peers_, said()));
    if (std::ranges::any_of(texts, &std::string::empty)) {
      break;
    }
    ended.push_back(result_of(texts));
    under_way_.reset();
    if (waiting_) {
      begin(*std::exchange(waiting_, std::nullopt));
    }
  }
  return ended;
}

std::vector<int64_t> StepCopies::needed() const {
  std::vector<int64_t> steps;
  for (const auto& one : {under_way_, waiting_}) {
    if (one) {
      steps.push_back(one->step);
    }
  }
  return steps;
}

std::string StepCopies::place_of(int64_t step) const { return path_ + "/" + step_name(step); }

}  // namespace xrun::runtime
