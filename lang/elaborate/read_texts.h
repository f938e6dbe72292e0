// The texts that an expansion of a declaration reads: its own, those of the declarations that it names, and so on, and
// the imported files. Two checks in which they are equal expand the declaration alike.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/diagnostic.h"
#include "graph/base/source.h"
#include "lang/clean_trials.h"
#include "lang/syntax/loader.h"

namespace xrun::lang {

class ReadTexts {
 public:
  // All three outlive it. Only what `reported` has now counts.
  ReadTexts(const SourceMap& sources, const Diagnostics& reported, const SourceFile& file);

  // The digest of the texts for a declaration of `file`. Nothing if they are long, or if a fault was reported in one of
  // them: what the parser makes of a faulty text may depend on the text around it.
  std::optional<CleanTrials::Key> digest(const Decl& decl);

 private:
  bool is_faulty(const Decl& decl) const;
  // The declarations of the file that the text of `decl` names. A word in a comment counts, too.
  const std::vector<const Decl*>& named_in(const Decl& decl);
  void add_imports(const SourceFile& file, std::vector<const SourceFile*>& met);

  const SourceMap& sources_;
  const SourceFile& file_;
  std::string imports_;           // the imported files, and what was not found
  std::vector<uint32_t> faults_;  // where faults in the file begin
  std::map<const Decl*, std::vector<const Decl*>> named_;
};

}  // namespace xrun::lang
