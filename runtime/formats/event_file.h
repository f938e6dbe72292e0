// Writes event files for TensorBoard (docs/reference/formats.md, "Event files"), but only numbers over steps.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace xrun::runtime {

// Frames the bytes as a record of the file: length, masked CRC-32C of the length, bytes, masked CRC-32C of the bytes.
std::string event_record(std::string_view bytes);

// Returns the first record of a file. `time`: seconds since 1970.
std::string first_event(double time);

// Returns the second record of a file: the run begins or resumes at this step. TensorBoard then drops the records of
// earlier files from this step on. Without it, TensorBoard would show steps that a resumed run repeats twice.
std::string start_event(double time, int64_t step);

// Returns a record with the numbers of one step, by tag, as an Event message of TensorFlow's event.proto. Numbers
// become f32.
std::string scalar_event(double time, int64_t step, std::span<const std::pair<std::string, double>> numbers);

}  // namespace xrun::runtime
