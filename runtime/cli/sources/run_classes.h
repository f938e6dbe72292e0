// The classes of a run that continues from a checkpoint. The classes of the training source get the numbers that they
// have in the checkpoint; with --extend, classes that only the source has are added.
#pragma once

#include <optional>

#include "graph/module.h"
#include "runtime/data/sample_rows.h"
#include "runtime/train/events/events.h"
#include "runtime/train/state/class_tables.h"

namespace xrun::cli {

// Decides the classes of the run from the training source and, if the run continues, from its checkpoint. Numbers the
// source's classes accordingly. Notes name the classes that are added; a warning names those that have no samples any
// more (XG0416).
//   trained  the classes of the checkpoint; empty: this is a new run, and the source decides
//   extend   classes that the checkpoint lacks are added after its own
// Errors: XG0402 a class that the checkpoint lacks, without `extend`; the checkpoint has numbers where the source has
// names, or the reverse; the model has too few classes.
Result<runtime::ClassTables> settle_classes(runtime::SampleRows& rows,
                                            const std::optional<runtime::ClassTables>& trained, const Module& module,
                                            bool extend, runtime::EventSink& events);

}  // namespace xrun::cli
