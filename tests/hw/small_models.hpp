#pragma once

#include "sim/core/model_presets.hpp"
#include "sim/core/workload.hpp"

namespace parplan::hw {

// Reduced models with the sizes and the initial values of the PyTorch reference (tests/reference):
// no parameter starts at zero or one, so that no gradient is trivial. Without dropout unless given.

Model small_mlp();
/// Column-parallel with gathered output, then row-parallel with summed output; squared error.
Model small_linear_pair();
Model small_seed_transformer(double dropout = 0.0);
Model small_encoder_decoder(double dropout = 0.0);
/// Learned positions, LayerNorm, GELU, tied embedding.
Model small_gpt2(double dropout = 0.0);
/// Rotary positions, RMSNorm, SwiGLU, grouped-query attention.
Model small_llama(bool tied, double dropout = 0.0);

/// The training of the reference: float64, Adam 1e-3, step t takes samples [t batch, (t + 1)
/// batch).
Workload reference_workload(std::int64_t batch, std::int64_t sequence,
                            std::int64_t source_sequence = 1);

}  // namespace parplan::hw
