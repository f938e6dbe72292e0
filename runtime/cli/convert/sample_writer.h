// Writers of samples in the formats of `xrun data convert`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "runtime/cli/convert/target.h"

namespace xrun::cli {

struct ConvertedSample {
  std::string_view name;          // name in the source, for messages
  std::optional<int64_t> label;   // nullopt: the source has no labels
  std::span<const float> labels;  // all labels, if they are to be kept; else empty
  std::span<const std::byte> picture;
  std::string_view extension;  // usual extension of the picture's format, without a dot
};

// The properties of the source on which files depend.
struct ConvertedSource {
  int64_t samples = 0;
  int64_t classes = 0;
  std::vector<std::string> class_names;  // empty: the classes have no names
};

// Receives samples in the order of the target. One thread at a time.
class SampleWriter {
 public:
  virtual ~SampleWriter() = default;
  // Writes the next sample, into file number `file` of the target, which never decreases. Errors: XG0901; XG0402,
  // XG0405 the format cannot hold the label.
  virtual Status add(int64_t file, const ConvertedSample& sample) = 0;
  // Completes all files.
  virtual Status finish() = 0;
  // The files in the order in which they get their names, after `finish`.
  virtual std::vector<std::string> files() const = 0;
  virtual Bytes bytes() const = 0;
  // A warning about labels that readers of the target number otherwise.
  virtual std::optional<Error> warning() const { return std::nullopt; }
};

// The name of a sample in a folder or a shard: its number with at least nine digits, so that the order of names is that
// of numbers.
std::string sample_key(int64_t number);

// Make writers whose files are below `folder`. `source` lives as long as the writer.
std::unique_ptr<SampleWriter> write_records(const std::string& folder, const ConvertTarget& target,
                                            const ConvertedSource& source);
std::unique_ptr<SampleWriter> write_shards(const std::string& folder, const ConvertTarget& target,
                                           const ConvertedSource& source);
// Errors: XG0943 a class cannot be a directory, or two classes would have one directory.
Result<std::unique_ptr<SampleWriter>> write_folder(const std::string& folder, const ConvertTarget& target,
                                                   const ConvertedSource& source);

}  // namespace xrun::cli
