#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace parplan::tools {

/// A rank that a signal ended, as the launcher reports it.
struct DeadRank {
  int rank = 0;
  int signal = 0;

  bool operator==(const DeadRank&) const = default;
};

/// Reads what Open MPI's mpirun and the ranks below it print on standard error, and passes on what
/// tells something: each reason of a rank once ("parplan: rank 1: ..."), whichever ranks have it,
/// every other line as it is. The launcher's boxes between dashed lines about ranks that ended
/// early only repeat that in many words; they, and its own errors while it ends a job, are held
/// back until it is known whether anything else was said. Boxes about anything else pass.
class JobMessages {
 public:
  using Sink = std::function<void(std::string_view)>;

  /// `progress` gets what a rank says about how far it is (kProgressMark), nothing when it is done.
  explicit JobMessages(Sink sink, Sink progress = {})
      : sink_(std::move(sink)), progress_(std::move(progress)) {}

  /// Any piece of the stream; complete lines are looked at.
  void add(std::string_view bytes);
  /// The stream has ended. `unexplained`: the job failed in a way that the caller has no words for;
  /// then boxes that were held back are passed on, unless a rank gave its reason. Returns whether
  /// one did.
  bool finish(bool unexplained);

  /// Known from a box that was held back.
  [[nodiscard]] const std::optional<DeadRank>& dead_rank() const { return dead_rank_; }

 private:
  void take_line(const std::string& line);
  void close_box();
  void pass_on(const std::string& line);

  Sink sink_;
  Sink progress_;
  std::string partial_;             ///< a line whose end has not come yet
  std::optional<std::string> box_;  ///< while inside one: its lines so far
  std::string held_;
  std::set<std::string> reasons_;  ///< without the ranks
  bool explained_ = false;
  std::optional<DeadRank> dead_rank_;
};

}  // namespace parplan::tools
