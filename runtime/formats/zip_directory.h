// The directory of a zip archive, with the place of each member in the file, so that stored members can be read at any
// offset. Sizes are taken from the directory alone: writers that stream leave zeros in the headers of the members.
// Other archives are read by visit_archive (runtime/formats/files.h).
// Source: PKWARE, "APPNOTE.TXT - .ZIP File Format Specification", version 6.3.10, 2022.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "graph/base/units.h"
#include "runtime/formats/random_file.h"

namespace xrun::runtime {

struct ZipMember {
  std::string name;
  bool is_deflated = false;  // false: stored as it is
  Bytes packed_bytes = 0;
  Bytes bytes = 0;   // after unpacking
  Bytes header = 0;  // offset of the member's header in the file
  uint32_t crc = 0;  // checksum of the unpacked bytes
};

// Reads the directory at the end of the file, also in the form zip64. Errors: XG0401; XG0412 there is no directory, it
// contradicts itself or the size of the file, two members have one name, or a member is encrypted or compressed by
// another method than deflate.
Result<std::vector<ZipMember>> read_zip_directory(const RandomFile& file);

// Returns the offset at which the data of a member begins. Errors: XG0401; XG0412 the member's header is not there, or
// its data does not fit the file.
Result<Bytes> zip_data_offset(const RandomFile& file, const ZipMember& member);

// Unpacks the first `most` bytes of a member, or all if it is shorter; of a whole member the checksum is checked.
// Errors: XG0401; XG0412 damaged data; kInterrupted.
Result<std::vector<std::byte>> unpack_member(const RandomFile& file, const ZipMember& member, Bytes most,
                                             StopFlag stop = nullptr);

}  // namespace xrun::runtime
