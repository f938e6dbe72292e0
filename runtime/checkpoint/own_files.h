// Recognises the files of saves by their names. A directory of checkpoints may also contain files of the user or of
// another program: a save removes only files that it would write itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "graph/base/io.h"
#include "runtime/checkpoint/owner.h"

namespace xrun::runtime {

std::string step_name(int64_t step);                         // "step-000400"
std::optional<int64_t> step_of_name(std::string_view name);  // nullopt for other names, also of unfinished steps

// Whether the text is a digest as in file names: 32 hex digits in lower case.
bool is_digest(std::string_view text);
std::string class_names_file(std::string_view digest);  // "classes-XXH3.json"
std::optional<std::string> digest_of_class_names_file(std::string_view name);

// Suffixes of names. Unfinished entries end with ".tmp-", the owner, and 16 random hex digits. A complete step that was
// moved aside for a new one of the same name has ".was-" instead of ".tmp-".
std::string pending_tail();
std::string former_tail();
struct Pending {
  std::string name;  // its final name: a step, "latest", "best", a file of class names
  Owner owner;
  bool former = false;  // a complete step that was moved aside
};
std::optional<Pending> pending_of_name(std::string_view name);

// Removes a directory of a save if it holds only ordinary files with the names that a save gives; otherwise, and if
// `path` is a link, removes nothing. A step is first renamed to an unfinished one, durably, so that a power cut during
// the removal leaves nothing that looks complete, and the next save removes the rest.
void remove_step(const std::string& path, Io& io);

// Removes a file, if it is an ordinary one.
void remove_own_file(const std::string& path, Io& io);

}  // namespace xrun::runtime
