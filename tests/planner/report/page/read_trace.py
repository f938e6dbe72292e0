#!/usr/bin/env python3
"""Reads a Perfetto trace with the schema of the Python package `perfetto` and prints its contents as JSON:
  {slices: [{track, name, begin, end, id, flows, ending_flows}], counters: [[track, time, value]], tracks: {uuid: [name, parent]}}

  python3 tests/planner/report/page/read_trace.py plan.pftrace
"""
import json
import sys

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent


def read(path):
    trace = Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    tracks, slices, counters, opened = {}, [], [], {}
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            name = track.process.process_name if track.HasField("process") else track.name
            tracks[track.uuid] = [name, track.parent_uuid]
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        if event.track_uuid not in tracks:
            raise SystemExit(f"event on an unknown track {event.track_uuid}")
        if event.type == TrackEvent.TYPE_COUNTER:
            counters.append([event.track_uuid, packet.timestamp, event.counter_value])
        elif event.type == TrackEvent.TYPE_SLICE_BEGIN:
            notes = {note.name: note.int_value for note in event.debug_annotations}
            opened[event.track_uuid] = {"track": event.track_uuid, "name": event.name, "begin": packet.timestamp,
                                        "id": notes.get("id", -1), "flows": list(event.flow_ids),
                                        "ending_flows": list(event.terminating_flow_ids)}
        else:
            one = opened.pop(event.track_uuid)
            one["end"] = packet.timestamp
            slices.append(one)
    if opened:
        raise SystemExit("slices without an end")
    return {"slices": slices, "counters": counters, "tracks": tracks}


if __name__ == "__main__":
    json.dump(read(sys.argv[1]), sys.stdout)
