#pragma once

#include "sim/core/dtype.hpp"
#include "sim/core/op_code.hpp"
#include "sim/core/units.hpp"

namespace parplan {

/// Arithmetic of one operation. Matrix products count 2 x rows x columns x inner; attention forward
/// 4 x batch x heads x queries x keys x head_dim (two products), backward five such products (one
/// recomputes the scores); causal masks halve both. Element-wise codes count a few flop per
/// element.
Flop flop_of(OpCode code, const OpShape& shape, bool causal = false);

/// Least memory traffic of one operation: each operand once, outputs once more when accumulating is
/// part of the code's meaning. For tensor collectives the payload.
Bytes traffic_of(OpCode code, const OpShape& shape, DType dtype);

}  // namespace parplan
