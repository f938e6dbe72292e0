// Builds records of MXNet (recordio.h, image_record.h) and the lines of the texts that accompany them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/base/units.h"

namespace xrun::runtime {

/// Appends a record with these contents. It is cut into pieces at each magic that lies at a multiple of 4 in the
/// contents, as MXNet's writer does. REQUIRES: fewer than 2^29 bytes.
void append_record(std::span<const std::byte> contents, std::vector<std::byte>& to);

/// Appends the record of a picture, with one label or a list of them. `id`: the number in its header, by custom the key
/// in the index. REQUIRES: at least one label.
void append_image_record(uint64_t id, std::span<const float> labels, std::span<const std::byte> picture,
                         std::vector<std::byte>& to);

/// The line of an index: the record with this key begins at this byte.
std::string index_line(int64_t key, Bytes offset);

/// The line of a list by im2rec. REQUIRES: the path has no tab and no line break.
std::string list_line(int64_t key, int64_t label, const std::string& path);

}  // namespace xrun::runtime
