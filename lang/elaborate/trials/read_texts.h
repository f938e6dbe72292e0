// Collects the texts that an expansion of a declaration reads: the declaration's own text, the texts of the
// declarations that it names, and so on, and the imported files. If these texts are equal in two checks, both expand
// the declaration alike.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/diagnostic.h"
#include "graph/base/source.h"
#include "lang/elaborate/trials/clean_trials.h"
#include "lang/syntax/loader.h"

namespace xrun::lang {

class ReadTexts {
 public:
  // `sources`, `reported` and `file` outlive the object. Faults that are reported later are not considered.
  ReadTexts(const SourceMap& sources, const Diagnostics& reported, const SourceFile& file);

  // The digest of these texts for a declaration of `file`. Nullopt if the texts are long, or if a fault was reported in
  // one of them: the syntax tree of a faulty text may depend on the text around it.
  std::optional<CleanTrials::Key> digest(const Decl& decl);

 private:
  bool is_faulty(const Decl& decl) const;
  // The declarations of the file that the text of `decl` names. A word in a comment also counts.
  const std::vector<const Decl*>& named_in(const Decl& decl);
  void add_imports(const SourceFile& file, std::vector<const SourceFile*>& met);

  const SourceMap& sources_;
  const SourceFile& file_;
  std::string imports_;           // imported files, and names that were not found
  std::vector<uint32_t> faults_;  // byte offsets at which the faults in the file start
  std::map<const Decl*, std::vector<const Decl*>> named_;
};

}  // namespace xrun::lang
