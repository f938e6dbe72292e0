// The classes of a run that goes on from a checkpoint: the checkpoint's classes number those of the training source;
// with --extend, classes that only the source has are added.
#pragma once

#include <optional>

#include "graph/module.h"
#include "runtime/data/sample_rows.h"
#include "runtime/train/class_tables.h"
#include "runtime/train/events.h"

namespace xrun::cli {

// Determines the classes of the run from the training source and, if the run goes on, from its checkpoint, and numbers
// the source by them. Notes name the classes that are added, and a warning those that have no samples any more
// (XG0416).
//   trained  the classes of the checkpoint; empty: the run begins, and the source decides
//   extend   classes that the checkpoint lacks come after its own
// Errors: XG0402 a class that the checkpoint lacks, without `extend`; names where the checkpoint has numbers, or the
// reverse; more classes than the model has.
Result<runtime::ClassTables> settle_classes(runtime::SampleRows& rows,
                                            const std::optional<runtime::ClassTables>& trained, const Module& module,
                                            bool extend, runtime::EventSink& events);

}  // namespace xrun::cli
