// What ranks say of their end to the `--restarts` that watches over them: a launcher that has lost a host ends with an
// exit code of its own, which tells nothing of the ranks.
#pragma once

#include <string>
#include <vector>

namespace xrun::cli {

// A file that the ranks of this machine add their exit codes to; a variable of the environment names it to them. It is
// removed at the end. Where none can be made, no rank says anything.
class RankExits {
 public:
  RankExits();
  ~RankExits();
  RankExits(const RankExits&) = delete;
  RankExits& operator=(const RankExits&) = delete;

  // Those of the ranks that have ended since the last call; killed ones have none.
  std::vector<int> take();

 private:
  std::string path_;
};

// Adds the exit code of this process, where --restarts watches over it; gives it back.
int tell_exit(int exit);

}  // namespace xrun::cli
