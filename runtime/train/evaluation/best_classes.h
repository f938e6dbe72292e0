// Reads the best classes of each row from an inference program, and their probabilities.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/train/evaluation/inference.h"
#include "runtime/train/session/session.h"

namespace xrun::runtime {

// The output of a program that ranks the classes of a row, and the number of classes to read.
struct ClassScores {
  std::optional<ValueId> logits;  // an output [N, C] of f32, bf16 or f16; nullopt: a sharded head
  size_t head = 0;                // index in Program::heads, for a sharded head
  int64_t k = 1;                  // number of classes per row, at most C; a head uses the number in its plan instead
  double scale = 1;               // scale of the loss on dense logits; a head uses the scale of its own loss
};

// The k best classes of each row, best first, [rows, k]; if logits are equal, the lower class comes first. Logits are
// those of the model, without margins; a cosine head returns cosines. Probabilities are softmax(scale · logits) over
// all C classes, not over the k that are kept.
struct BestClasses {
  int64_t k = 0;
  std::vector<int32_t> classes;
  std::vector<float> logits;
  std::vector<float> probabilities;
};

// Reads the best classes after a step of an inference program. The session outlives it. Threads: those of the session.
class BestReader {
 public:
  BestReader(const Session& session, const ClassScores& from);

  int64_t k() const { return k_; }
  // Appends the best classes of the first `count` rows of the last step.
  Status read(int64_t count, BestClasses& to);

 private:
  Status read_head(int64_t count, BestClasses& to);
  Status read_dense(int64_t count, BestClasses& to);

  const Session& session_;
  ClassScores from_;
  int64_t k_;
  // Reused for each batch.
  std::vector<int32_t> classes_;
  std::vector<float> logits_;
  std::vector<ops::RowSoftmax> softmax_;
  std::vector<std::byte> dense_;
};

// Returns the best classes of samples [first, first + rows): one result for each entry of `from`. Broken samples are
// added to `broken`, and the results in their rows are meaningless; if `broken` is null, a broken sample is an error
// (XG0412).
Result<std::vector<BestClasses>> predict_classes(Session& session, RowSource& source,
                                                 const std::vector<ClassScores>& from, int64_t first, int64_t rows,
                                                 EventSink* events = nullptr, std::vector<BrokenRow>* broken = nullptr);

}  // namespace xrun::runtime
