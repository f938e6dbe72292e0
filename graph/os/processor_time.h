// Processor time, for measurements that other programs on the machine must not change.
#pragma once

#include "graph/base/units.h"

namespace xrun {

/// Returns the processor time that the calling thread has used. Threads: any.
Seconds thread_processor_time();

/// Returns the processor time that all threads of this process have used. Threads: any.
Seconds process_processor_time();

}  // namespace xrun
