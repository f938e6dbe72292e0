// The vocabulary of a file, as pages for people: operators, readers, stages of data, optimizers, curves, settings,
// declarations. The pages are made from the records that the checker reads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/op_def.h"

namespace xrun::lang {

struct Topic {
  std::string name;          // "conv", "train.checkpoint.every", "train"
  std::string kind;          // "operator", "setting"
  std::string title;         // a short phrase
  bool is_available = true;  // false: known and checked, but not implemented yet
  std::string page;          // lines of text, each ended by a newline
};

// All topics, by kind and then in the order of their tables.
std::vector<Topic> all_topics(const OpRegistry& ops);

// The topics with the name `name`: usually one, but several if a word has several meanings, as `steps` has. A setting
// may be given without its declaration. Where its name has capitals, a name chosen by the user is also accepted:
// "schedule.shard.id.over".
std::vector<Topic> find_topics(std::string_view name, const std::vector<Topic>& topics);

}  // namespace xrun::lang
