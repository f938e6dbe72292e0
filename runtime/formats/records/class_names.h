// The names of classes next to records and tar shards, whose samples have only numbers as labels:
//
//   number<tab>name       one line for each class, the numbers ascending from 0
//
// In a name, a backslash is written as \\, a line break as \n and a carriage return as \r. The file is called after the
// data: train.classes for train.rec, and also for the shards train-000000.tar, train-000001.tar ...
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "graph/base/units.h"

namespace xrun::runtime {

/// The file of names of a file of data: the extension, and the number of a shard with the character before it, are
/// replaced by ".classes". A shard whose name is only a number has "shards.classes".
std::string class_names_path(std::string_view data);

/// The line of a class.
std::string class_name_line(int64_t number, std::string_view name);

/// Reads a file of names. Errors: XG0401; XG0412 with the line: another form, numbers that do not ascend from 0, an
/// empty name, or one that two classes have; kInterrupted.
Result<std::vector<std::string>> read_class_names(const std::string& path, StopFlag stop);

/// The names next to any of these files; empty if no file of names exists. Errors: those of read_class_names; XG0412
/// two files of names differ.
Result<std::vector<std::string>> find_class_names(std::span<const std::string> data, StopFlag stop);

/// The memory that names take.
Bytes class_names_memory(std::span<const std::string> names);

}  // namespace xrun::runtime
