// The fields and their numbers are those of protos/perfetto/trace/*.proto in https://github.com/google/perfetto.
#include "planner/report/page/trace.h"

#include <algorithm>
#include <map>
#include <vector>

#include "planner/report/page/instructions_json.h"
#include "planner/report/page/memory_curve.h"
#include "planner/report/page/protobuf_writer.h"
#include "planner/report/page/schedule_json.h"
#include "planner/report/summary.h"

namespace xrun::planner {
namespace {

namespace packet {  // TracePacket
constexpr int kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kSequenceFlags = 13, kTrackDescriptor = 60;
constexpr uint64_t kIncrementalStateCleared = 1;
}  // namespace packet
namespace track {  // TrackDescriptor
constexpr int kUuid = 1, kName = 2, kProcess = 3, kParent = 5, kCounter = 8;
constexpr int kPid = 1, kProcessName = 6;  // ProcessDescriptor
constexpr int kUnit = 3;                   // CounterDescriptor
constexpr uint64_t kUnitBytes = 3;
}  // namespace track
namespace event {  // TrackEvent
constexpr int kAnnotations = 4, kType = 9, kTrack = 11, kCategories = 22, kName = 23, kCounterValue = 30, kFlows = 47,
              kEndingFlows = 48;
constexpr uint64_t kBegin = 1, kEnd = 2, kCounter = 4;
constexpr int kAnnotationName = 10, kAnnotationInt = 4, kAnnotationText = 6;  // DebugAnnotation
}  // namespace event

class TraceWriter {
 public:
  TraceWriter(const Plan& plan, const MeasuredTimes* measured)
      : plan_(plan), measured_(measured), times_(times_of(plan)) {
    find_flows();
  }

  std::string write() {
    for (const Arena& arena : plan_.training.arenas) {
      add_process(arena.device);
    }
    for (const Instruction& one : plan_.training.instructions) {
      add_slice(one);
    }
    for (const MemoryCurve& curve : memory_curves(plan_.training, times_)) {
      add_counter(curve);
    }
    return trace_.bytes();
  }

 private:
  static uint64_t uuid_of(int device) { return static_cast<uint64_t>(device + 2); }  // that of the host is 1

  // A flow leads from an instruction to each later one that waits for it and is on another device or stream.
  void find_flows() {
    const auto& all = plan_.training.instructions;
    starts_.resize(all.size());
    ends_.resize(all.size());
    uint64_t next = 1;
    for (const Instruction& one : all) {
      for (const auto* list : {&one.deps, &one.releases}) {
        for (const InstructionId id : *list) {
          const Instruction& from = all[static_cast<size_t>(id.index)];
          if (from.device != one.device || from.stream != one.stream) {
            starts_[static_cast<size_t>(id.index)].push_back(next);
            ends_[static_cast<size_t>(one.id.index)].push_back(next++);
          }
        }
      }
    }
  }

  void add(const ProtobufWriter& body, int field, int64_t time) {
    ProtobufWriter packet;
    packet.number(packet::kTimestamp, static_cast<uint64_t>(time));
    packet.number(packet::kSequence, 1);
    if (trace_.bytes().empty()) {
      packet.number(packet::kSequenceFlags, packet::kIncrementalStateCleared);
    }
    packet.message(field, body);
    trace_.message(1, packet);
  }

  void add_process(int device) {
    ProtobufWriter process;
    process.number(track::kPid, uuid_of(device));
    process.text(track::kProcessName, device == kHost ? "host" : "device " + std::to_string(device));
    ProtobufWriter descriptor;
    descriptor.number(track::kUuid, uuid_of(device));
    descriptor.message(track::kProcess, process);
    add(descriptor, packet::kTrackDescriptor, 0);
  }

  // Returns the track with this name of a device, and describes it at its first use.
  uint64_t track_of(int device, const std::string& name) {
    const auto [at, is_new] = tracks_.emplace(std::pair(device, name), (uint64_t{1} << 32) + tracks_.size());
    if (is_new) {
      ProtobufWriter descriptor;
      descriptor.number(track::kUuid, at->second);
      descriptor.text(track::kName, name);
      descriptor.number(track::kParent, uuid_of(device));
      if (name == "live bytes") {
        ProtobufWriter counter;
        counter.number(track::kUnit, track::kUnitBytes);
        descriptor.message(track::kCounter, counter);
      }
      add(descriptor, packet::kTrackDescriptor, 0);
    }
    return at->second;
  }

  // Returns the first track of exchanges of a device that is free at `begin`; slices of one track must not overlap.
  uint64_t exchange_track(int device, int64_t begin, int64_t end) {
    std::vector<int64_t>& lanes = lanes_[device];
    const auto free = std::ranges::find_if(lanes, [&](int64_t busy_until) { return busy_until <= begin; });
    const size_t lane = static_cast<size_t>(free - lanes.begin());
    if (free == lanes.end()) {
      lanes.push_back(end);
    }
    lanes[lane] = std::max(begin, end);
    return track_of(device, lane == 0 ? "exchanges" : "exchanges " + std::to_string(lane + 1));
  }

  static void annotate(ProtobufWriter& event, const char* name, int64_t value) {
    ProtobufWriter annotation;
    annotation.text(event::kAnnotationName, name);
    annotation.number(event::kAnnotationInt, static_cast<uint64_t>(value));
    event.message(event::kAnnotations, annotation);
  }

  void add_slice(const Instruction& one) {
    const auto index = static_cast<size_t>(one.id.index);
    const int64_t begin = whole_nanoseconds(times_.instructions[index].start);
    const int64_t end = whole_nanoseconds(times_.instructions[index].end);
    const uint64_t track =
        one.stream == Stream::kCompute ? track_of(one.device, "computes") : exchange_track(one.device, begin, end);
    ProtobufWriter event;
    event.number(event::kType, event::kBegin);
    event.number(event::kTrack, track);
    event.text(event::kCategories, name_of(one.kind));
    event.text(event::kName, label_of(plan_.training, one));
    annotate(event, "id", one.id.index);
    annotate(event, "bytes", one.bytes);
    annotate(event, "group", one.group);
    if (const std::string source = source_of(plan_, one); !source.empty()) {
      ProtobufWriter annotation;
      annotation.text(event::kAnnotationName, "source");
      annotation.text(event::kAnnotationText, source);
      event.message(event::kAnnotations, annotation);
    }
    for (const uint64_t flow : starts_[index]) {
      event.fixed64(event::kFlows, flow);
    }
    for (const uint64_t flow : ends_[index]) {
      event.fixed64(event::kEndingFlows, flow);
    }
    add(event, packet::kTrackEvent, begin);
    add_end(track, end);
    const MeasuredTime run = measured_ == nullptr ? MeasuredTime() : measured_->instructions[index];
    if (run.known() && one.stream == Stream::kCompute) {
      const uint64_t measured = track_of(one.device, "run");
      ProtobufWriter slice;
      slice.number(event::kType, event::kBegin);
      slice.number(event::kTrack, measured);
      slice.text(event::kCategories, "measured");
      slice.text(event::kName, label_of(plan_.training, one));
      add(slice, packet::kTrackEvent, whole_nanoseconds(run.begin));
      add_end(measured, whole_nanoseconds(run.end));
    }
  }

  void add_end(uint64_t track, int64_t time) {
    ProtobufWriter event;
    event.number(event::kType, event::kEnd);
    event.number(event::kTrack, track);
    add(event, packet::kTrackEvent, time);
  }

  void add_counter(const MemoryCurve& curve) {
    const uint64_t track = track_of(curve.device, "live bytes");
    for (const MemoryPoint& point : curve.points) {
      ProtobufWriter event;
      event.number(event::kType, event::kCounter);
      event.number(event::kTrack, track);
      event.number(event::kCounterValue, static_cast<uint64_t>(point.bytes));
      add(event, packet::kTrackEvent, whole_nanoseconds(point.time));
    }
  }

  const Plan& plan_;
  const MeasuredTimes* measured_;
  ProgramTimes times_;
  ProtobufWriter trace_;
  std::map<std::pair<int, std::string>, uint64_t> tracks_;
  std::map<int, std::vector<int64_t>> lanes_;  // the time until which each track of exchanges is busy; key: device
  std::vector<std::vector<uint64_t>> starts_;  // flows that start at an instruction
  std::vector<std::vector<uint64_t>> ends_;    // flows that end there
};

}  // namespace

std::string perfetto_trace(const Plan& plan, const MeasuredTimes* measured) {
  return TraceWriter(plan, measured).write();
}

}  // namespace xrun::planner
