// Which names in a directory of checkpoints are those of a save. A directory may hold what belongs to the user or to
// another program: a save removes nothing but what it would write itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "graph/base/io.h"
#include "runtime/checkpoint/owner.h"

namespace xrun::runtime {

std::string step_name(int64_t step);                         // "step-000400"
std::optional<int64_t> step_of_name(std::string_view name);  // none for other names, those of unfinished ones included

// A digest as names have it: 32 hex digits in lower case.
bool is_digest(std::string_view text);
std::string class_names_file(std::string_view digest);  // "classes-XXH3.json"
std::optional<std::string> digest_of_class_names_file(std::string_view name);

// What stands behind the name of something unfinished: ".tmp-", its owner, and 16 hex digits that it draws. ".was-"
// stands in place of ".tmp-" behind the name of a whole step that makes room for a new one of the same name.
std::string pending_tail();
std::string former_tail();
struct Pending {
  std::string name;  // that it would get: a step, "latest", "best", a file of class names
  Owner owner;
  bool former = false;  // it had the name
};
std::optional<Pending> pending_of_name(std::string_view name);

// Removes a directory that a save has made, if all that it holds are ordinary files with the names that a save gives.
// Otherwise, and where `path` is a link, nothing is removed. A step first gets the name of an unfinished one, durably,
// so that a removal that a power cut ends leaves nothing that looks whole, and the next save removes the rest.
void remove_step(const std::string& path, Io& io);

// Removes a file, if it is an ordinary one.
void remove_own_file(const std::string& path, Io& io);

}  // namespace xrun::runtime
