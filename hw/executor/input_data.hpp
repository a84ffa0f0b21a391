#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "hw/executor/token_file.hpp"
#include "hw/page_buffer.hpp"
#include "sim/core/model.hpp"
#include "sim/core/workload.hpp"

namespace parplan::hw {

/// Throws InputError when the workload names a token file that is broken (see TokenFile), has
/// another length than when the plan was made, or cannot give the model its inputs. Reads no ids.
void check_token_data(const Model& model, const Workload& workload);

/// Looks at the first kIdsChecked ids of the workload's token file, so that a wrong file is refused
/// before any rank starts. InputError: an id outside the vocabulary; uint32 ids that would be read
/// as uint16. Nothing to do without a token file.
void check_token_ids(const Model& model, const Workload& workload);

/// The input and target values of every sample of a data set, as a pure function of the workload
/// and the sample's index, so that any rank can load any sample.
///
/// Synthetic, with K(name) = tensor_key(seed, name) and e the element's index in the value's
/// [samples, positions, features] array:
///   token ids    keyed_u64(K("tokens"), e) % vocabulary of the embedding that reads them
///   classes      keyed_u64(K("targets"), e) % vocabulary of the loss
///   features     keyed_normal(K("inputs"), e)
///   real targets keyed_normal(K("targets"), e)
/// With several values of a role, all but the first use their own names instead; if one of them has
/// the name above, they all do.
/// Token file: tokens and classes of the file (see TokenFile); other inputs do not exist.
class InputData {
 public:
  /// `loaded`: the values this rank will load; what is kept in memory is drawn here. InputError for
  /// a token file that is broken or does not fit the model. The model must outlive it.
  InputData(const Model& model, const Workload& workload, std::span<const ValueId> loaded);

  std::int64_t samples() const { return samples_; }
  /// Writes the value's rows of these samples, one after the other: int32 for ids, the workload's
  /// precision for reals.
  void load(ValueId value, std::span<const std::int64_t> samples, std::byte* out) const;

 private:
  struct Source {
    ValueRole role = ValueRole::kTokens;
    std::uint64_t key = 0;
    std::int64_t row = 0;         ///< elements per sample
    std::int64_t vocabulary = 0;  ///< ids
    PageBuffer kept;              ///< all samples, where kept_input_bytes says so
  };

  Source make_source(const Model& model, ValueId value) const;
  void load_ids(const Source& source, std::span<const std::int64_t> samples,
                std::int32_t* out) const;
  /// Elements [first, first + count) of the value's array, in the workload's precision.
  void draw_reals(const Source& source, std::int64_t first, std::int64_t count,
                  std::byte* out) const;
  void load_reals(const Source& source, std::span<const std::int64_t> samples,
                  std::byte* out) const;

  const Workload workload_;
  std::int64_t samples_ = 0;
  std::unique_ptr<TokenFile> file_;
  std::map<ValueId, Source> sources_;
};

}  // namespace parplan::hw
