// What can be written in a file, as pages for people: operators, readers, stages of data, optimizers, curves, settings,
// declarations. The records that the checker reads are what the pages say.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/op_def.h"

namespace xrun::lang {

struct Topic {
  std::string name;          // "conv", "train.checkpoint.every", "train"
  std::string kind;          // "operator", "setting"
  std::string title;         // half a sentence
  bool is_available = true;  // false: known and checked, but not carried out yet
  std::string page;          // lines of text, the last one ended
};

// All topics, by kind and then in the order of their tables.
std::vector<Topic> all_topics(const OpRegistry& ops);

// The topics that `name` names: usually one, several where a word has more meanings, as `steps` has. A setting may be
// named without its declaration, and with a name of the user in the place of capitals: "schedule.shard.id.over".
std::vector<Topic> find_topics(std::string_view name, const std::vector<Topic>& topics);

}  // namespace xrun::lang
