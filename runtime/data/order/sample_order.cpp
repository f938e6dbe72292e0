#include "runtime/data/order/sample_order.h"

#include <algorithm>

#include "graph/base/check.h"
#include "graph/base/random.h"

namespace xrun::runtime {
namespace {

// Keys of the random streams for different purposes; they also differ from the keys of augmentation.
constexpr uint64_t kReplacementStage = 0x7265706c;
constexpr uint64_t kRoundStage = 0x726f756e;
constexpr uint64_t kMembersStage = 0x6d656d62;

// Number of attempts in which the replacement has the class of the broken sample.
constexpr uint64_t kAttemptsInClass = 32;

int64_t permuted(int64_t n, uint64_t seed, int64_t stream, int64_t i) {
  const Permutation order(static_cast<uint64_t>(n), seed, static_cast<uint64_t>(stream));
  return static_cast<int64_t>(order(static_cast<uint64_t>(i)));
}

uint64_t derived(uint64_t seed, uint64_t stage, int64_t which = 0) {
  const auto bits = RandomStream(seed, static_cast<uint64_t>(which), 0, stage).block(0);
  return uint64_t{bits[1]} << 32 | bits[0];
}

}  // namespace

SampleSequence::SampleSequence(SampleOrder order, int64_t samples, uint64_t seed, std::span<const int32_t> classes)
    : order_(order), samples_(samples), seed_(seed) {
  if (order != SampleOrder::kBalanced) {
    return;
  }
  XRUN_CHECK(std::ssize(classes) == samples, "a balanced order knows the class of each sample");
  const int64_t count = int64_t{std::ranges::max(classes)} + 1;
  XRUN_CHECK(count > 0, "a balanced order of no sample");
  std::vector<int64_t> ends(static_cast<size_t>(count), 0);
  for (const int32_t label : classes) {
    ends[static_cast<size_t>(std::max(label, 0))] += label >= 0 ? 1 : 0;
  }
  begins_ = {0};
  int64_t end = 0;
  for (int64_t& one : ends) {
    const int64_t begin = end;
    end += one;
    if (one > 0) {
      begins_.push_back(end);
    }
    one = begin;
  }
  by_class_.resize(static_cast<size_t>(end));
  for (int64_t sample = 0; sample < samples; ++sample) {
    if (const int32_t label = classes[static_cast<size_t>(sample)]; label >= 0) {
      by_class_[static_cast<size_t>(ends[static_cast<size_t>(label)]++)] = sample;
    }
  }
}

Bytes SampleSequence::memory(SampleOrder order, int64_t samples) {
  return order == SampleOrder::kBalanced ? samples * static_cast<Bytes>(sizeof(int64_t)) : 0;
}

SampleSequence::Draw SampleSequence::draw_at(int64_t position) const {
  const int64_t classes = std::ssize(begins_) - 1;
  const int64_t round = position / classes;
  const int64_t group = permuted(classes, derived(seed_, kRoundStage), round, position % classes);
  const int64_t begin = begins_[static_cast<size_t>(group)];
  const int64_t end = begins_[static_cast<size_t>(group) + 1];
  return {group, round, std::span(by_class_).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin))};
}

SamplePlace SampleSequence::at(int64_t position) const {
  SamplePlace place{.epoch = position / samples_, .position = position % samples_};
  if (order_ == SampleOrder::kBalanced) {
    const Draw draw = draw_at(position);
    const int64_t members = std::ssize(draw.samples);
    place.pass = draw.round / members;
    const int64_t i = permuted(members, derived(seed_, kMembersStage, draw.group), place.pass, draw.round % members);
    place.sample = draw.samples[static_cast<size_t>(i)];
    return place;
  }
  place.pass = place.epoch;
  place.sample =
      order_ == SampleOrder::kShuffled ? permuted(samples_, seed_, place.epoch, place.position) : place.position;
  return place;
}

int64_t SampleSequence::substitute(const SamplePlace& place, uint64_t attempt) const {
  const RandomStream stream(seed_, static_cast<uint64_t>(place.epoch), static_cast<uint64_t>(place.position),
                            kReplacementStage);
  if (order_ == SampleOrder::kBalanced && attempt < kAttemptsInClass) {
    const auto samples = draw_at(place.epoch * samples_ + place.position).samples;
    return samples[stream.below(attempt, samples.size())];
  }
  return static_cast<int64_t>(stream.below(attempt, static_cast<uint64_t>(samples_)));
}

}  // namespace xrun::runtime
