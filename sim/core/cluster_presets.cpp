#include "sim/core/cluster_presets.hpp"

#include <array>

namespace parplan {
namespace {

/// Data-sheet figures; bandwidths are per direction and GPU.
struct Sheet {
  ClusterPreset preset;
  const char* device;
  std::int64_t memory_gib;
  double half_flop_per_s;  ///< bfloat16 and float16
  double float32_flop_per_s;
  double float64_flop_per_s;
  double memory_bytes_per_s;
  double link_bytes_per_s;     ///< NVLink
  double network_bytes_per_s;  ///< InfiniBand
};

// Sources: NVIDIA A100, H100 and B200 data sheets (dense tensor-core peak of the 16-bit types,
// non-tensor float32 and float64 peaks, HBM
// bandwidth, half of the bidirectional NVLink figure); 200 or 400 Gbit/s InfiniBand per GPU as in
// the DGX reference systems.
constexpr std::array kSheets{
    Sheet{{"dgx-a100", "8 x A100 80 GB, NVLink 3, HDR InfiniBand"},
          "A100-SXM4-80GB",
          80,
          312e12,
          19.5e12,
          9.7e12,
          2.039e12,
          300e9,
          25e9},
    Sheet{{"dgx-h100", "8 x H100 80 GB, NVLink 4, NDR InfiniBand"},
          "H100-SXM5-80GB",
          80,
          989e12,
          67e12,
          34e12,
          3.35e12,
          450e9,
          50e9},
    Sheet{{"dgx-b200", "8 x B200 180 GB, NVLink 5, NDR InfiniBand"},
          "B200-180GB",
          180,
          2250e12,
          80e12,
          40e12,
          8.0e12,
          900e9,
          50e9},
};

constexpr std::array kClusterPresets{kSheets[0].preset, kSheets[1].preset, kSheets[2].preset};

}  // namespace

std::span<const ClusterPreset> cluster_presets() { return kClusterPresets; }

std::optional<Cluster> make_cluster_preset(std::string_view name, int nodes) {
  for (const Sheet& sheet : kSheets) {
    if (sheet.preset.name != name) continue;
    Cluster c;
    c.name = sheet.preset.name;
    c.nodes = nodes;
    c.devices_per_node = 8;
    c.device.name = sheet.device;
    c.device.memory = Bytes{sheet.memory_gib << 30};
    c.device.peak[DType::kBFloat16] = FlopPerSecond{sheet.half_flop_per_s};
    c.device.peak[DType::kFloat16] = FlopPerSecond{sheet.half_flop_per_s};
    c.device.peak[DType::kFloat32] = FlopPerSecond{sheet.float32_flop_per_s};
    c.device.peak[DType::kFloat64] = FlopPerSecond{sheet.float64_flop_per_s};
    c.device.memory_bandwidth = BytesPerSecond{sheet.memory_bytes_per_s};
    // Launch of one kernel from a stream that is kept full: a few microseconds on all of these.
    c.device.operation_overhead = Seconds{4e-6};
    c.device.process_bytes = Bytes{std::int64_t{1} << 29};
    c.intra_node.name = "nvlink";
    c.intra_node.latency = Seconds{5e-6};
    c.intra_node.bandwidth = BytesPerSecond{sheet.link_bytes_per_s};
    c.inter_node.name = "infiniband";
    c.inter_node.latency = Seconds{1e-5};
    c.inter_node.bandwidth = BytesPerSecond{sheet.network_bytes_per_s};
    c.provenance.versions = "data sheet";
    return c;
  }
  return std::nullopt;
}

}  // namespace parplan
