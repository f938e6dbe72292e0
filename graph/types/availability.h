// Whether this edition can run a part of the language.
#pragma once

namespace xrun {

// Parts that are kNotYet are known and checked, but planning and training reject models that use them.
enum class Availability { kReady, kNotYet };

}  // namespace xrun
