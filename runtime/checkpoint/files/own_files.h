// Makes and recognises the names of files that saves write. A directory of checkpoints may also contain files of the
// user or of another program, so a save removes only files with such names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "graph/os/io.h"
#include "runtime/checkpoint/files/owner.h"

namespace xrun::runtime {

std::string step_name(int64_t step);                         // "step-000400"
std::optional<int64_t> step_of_name(std::string_view name);  // nullopt for other names, such as unfinished steps

// Whether the text has the form of a digest in file names: 32 hex digits in lower case.
bool is_digest(std::string_view text);
std::string class_names_file(std::string_view digest);  // "classes-XXH3.json"
std::optional<std::string> digest_of_class_names_file(std::string_view name);

// Suffixes of temporary names. pending_tail, for unfinished files and directories, is ".tmp-", the owner, and 16 random
// hex digits. former_tail, for a complete step that is renamed to make place for a new one of the same name, has
// ".was-" instead of ".tmp-".
std::string pending_tail();
std::string former_tail();
struct Pending {
  std::string name;  // the final name: a step, "latest", "best", a file of class names
  Owner owner;
  bool former = false;  // a complete step that was renamed to make place for a new one
};
std::optional<Pending> pending_of_name(std::string_view name);

// Removes a step directory. Removes nothing if the directory contains anything but ordinary files with names of saves,
// or if `path` is a link. The directory is first renamed to an unfinished step, durably: if the power is cut during the
// removal, the remaining files do not look like a complete step, and the next save removes them.
void remove_step(const std::string& path, Io& io);

// Removes `path` if it is an ordinary file.
void remove_own_file(const std::string& path, Io& io);

}  // namespace xrun::runtime
