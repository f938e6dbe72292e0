// Searches plans with another number of rows in a row block (`norm_rows`) than the text's. Kernels are made for a
// number of rows, so their facts are collected again.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "planner/search/choose.h"
#include "planner/search/options.h"

namespace xrun::planner {

// The input of a search for plans with another row block. Its members refer to one another, so it cannot be copied or
// moved.
class OtherRows {
 public:
  // Makes the input of a search with row blocks of `norm_rows` rows. `base` must outlive the result. Measured times are
  // assumed to be proportional to the rows. Errors: those of `facts_of` and layer_hints.
  static Result<std::unique_ptr<OtherRows>> make(const FitInput& base, const FactsOf& facts_of, int64_t norm_rows);
  OtherRows(const OtherRows&) = delete;
  OtherRows& operator=(const OtherRows&) = delete;

  // Returns the result of `choose` for a batch of `batch` rows, which must be a multiple of the row block. Errors:
  // those of legal_settings, search and choose.
  Result<Choice> choose_plan(int64_t batch, const MemoryLimits& limits, const Effort& effort) const;
  int64_t norm_rows() const { return training_.train.norm_rows; }

 private:
  OtherRows(const FitInput& base, int64_t norm_rows);

  const FitInput& base_;
  Module training_;
  Module inference_;
  KernelFacts facts_;
  KernelFacts inference_facts_;
  std::optional<CostModel> cost_;
  std::optional<CostModel> inference_cost_;
  Chain chain_;
  Chain inference_chain_;
};

// Whether a batch norm of the model takes its statistics from a row block, so that the size of the block changes what
// is learned.
bool has_coupled_rows(const Graph& graph);

// Returns the smaller values that `norm_rows` of a text may have, in descending order: the divisors of the batch that,
// if `coupled` is true, are at least the number of rows that statistics of a batch norm need.
std::vector<int64_t> smaller_row_blocks(const TrainSpec& train, bool coupled);

}  // namespace xrun::planner
