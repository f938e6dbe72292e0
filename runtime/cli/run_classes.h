// The classes of a run that goes on from a checkpoint: those of the checkpoint, by which the training source is
// numbered, and with --extend also those that the source has besides.
#pragma once

#include <optional>

#include "graph/module.h"
#include "runtime/data/sample_rows.h"
#include "runtime/train/class_tables.h"
#include "runtime/train/events.h"

namespace xrun::cli {

// The classes of the run, from the training source and, where the run goes on, from its checkpoint; numbers the source
// by them. Notes name the classes that are added, and a warning those that have no samples any more (XG0416).
//   trained  the classes of the checkpoint; none: the run begins, and the source decides
//   extend   classes that the checkpoint lacks come after its own
// Errors: XG0402 a class that the checkpoint lacks, without `extend`; names where it has numbers; more classes than the
// model has.
Result<runtime::ClassTables> settle_classes(runtime::SampleRows& rows,
                                            const std::optional<runtime::ClassTables>& trained, const Module& module,
                                            bool extend, runtime::EventSink& events);

}  // namespace xrun::cli
