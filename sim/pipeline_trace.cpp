#include "sim/pipeline_trace.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "sim/core/error.hpp"

namespace parplan::sim {
namespace {

constexpr std::array<StepKind, 2> kKinds{StepKind::kForward, StepKind::kBackward};

/// The steps of one stage, unfolded on demand.
class StageSteps {
 public:
  explicit StageSteps(const std::vector<OrderPiece>& pieces) : pieces_(&pieces) {
    for (const OrderPiece& piece : pieces) {
      begin_.push_back(count_);
      count_ += static_cast<std::int64_t>(piece.steps.size()) * piece.repeat;
    }
  }

  std::int64_t count() const { return count_; }

  struct Place {
    std::size_t piece = 0;
    std::int64_t round = 0;   // repetition of the piece
    std::int64_t offset = 0;  // within it
    std::int64_t rounds_left = 0;
  };
  /// Of step `k` < count().
  Place place(std::int64_t k) const {
    const auto after = std::upper_bound(begin_.begin(), begin_.end(), k);
    const auto piece = static_cast<std::size_t>(after - begin_.begin()) - 1;
    const auto length = static_cast<std::int64_t>((*pieces_)[piece].steps.size());
    const std::int64_t within = k - begin_[piece];
    return {piece, within / length, within % length, (*pieces_)[piece].repeat - within / length};
  }
  StepKind kind(std::int64_t k) const {
    const Place at = place(k);
    return (*pieces_)[at.piece].steps[static_cast<std::size_t>(at.offset)];
  }
  std::int64_t length_of_piece_at(std::int64_t k) const {
    return static_cast<std::int64_t>((*pieces_)[place(k).piece].steps.size());
  }
  /// Steps of `wanted` kind in [begin, end), cut to the steps that exist.
  std::int64_t count(StepKind wanted, std::int64_t begin, std::int64_t end) const {
    std::int64_t found = 0;
    for (std::int64_t k = std::max<std::int64_t>(begin, 0); k < std::min(end, count_); ++k) {
      found += kind(k) == wanted ? 1 : 0;
    }
    return found;
  }

 private:
  const std::vector<OrderPiece>* pieces_;
  std::vector<std::int64_t> begin_;
  std::int64_t count_ = 0;
};

/// How far everything is. Plain counts, so that a loop is skipped by adding multiples.
struct Progress {
  std::vector<std::int64_t> done;                        // steps, by stage
  std::array<std::vector<std::int64_t>, 2> transferred;  // [kind][receiving stage]
  std::array<std::vector<std::int64_t>, 2> used;         // transfers whose step has run, same index
  std::array<std::vector<std::int64_t>, 2> sent;         // [kind][sending stage]

  explicit Progress(std::size_t stages) : done(stages, 0) {
    for (auto* columns : {&transferred, &used, &sent}) {
      columns->fill(std::vector<std::int64_t>(stages, 0));
    }
  }
  template <class Visit>
  static void for_each_column(Progress& a, const Progress& b, Visit visit) {
    visit(a.done, b.done);
    for (std::size_t kind = 0; kind < 2; ++kind) {
      visit(a.transferred[kind], b.transferred[kind]);
      visit(a.used[kind], b.used[kind]);
      visit(a.sent[kind], b.sent[kind]);
    }
  }
  /// this += times * (this - earlier)
  void repeat(const Progress& earlier, std::int64_t times) {
    for_each_column(*this, earlier, [&](auto& mine, const auto& theirs) {
      for (std::size_t i = 0; i < mine.size(); ++i) mine[i] += times * (mine[i] - theirs[i]);
    });
  }
};

/// Runs the schedule by logic alone, wave by wave, and watches for a wave that begins like an
/// earlier one: what lies between is the body of a loop.
class Tracer {
 public:
  Tracer(const PipelineOrder& order, TransferMode mode, std::array<int, 2> depth)
      : stages_(static_cast<int>(order.size())),
        holds_(mode != TransferMode::kEager),
        overlap_(step_overlap(mode)),
        depth_(depth),
        at_(order.size()) {
    for (const auto& pieces : order) steps_.emplace_back(pieces);
  }

  /// Nothing if it got stuck.
  std::optional<PipelineTrace> run() {
    PipelineTrace trace;
    trace.stages = stages_;
    trace.clocks = overlap_;
    trace.depth = depth_;
    for (const StageSteps& steps : steps_) {
      trace.last_clock.push_back(static_cast<int>((steps.count() - 1) % overlap_));
    }
    std::vector<TraceWave> waves;  // not yet in a block
    while (!is_finished()) {
      if (!fold(waves, trace.blocks)) seen_.insert_or_assign(state(), Seen{waves.size(), at_});
      TraceWave wave = next_wave();
      if (wave.steps.empty() && wave.transfers.empty()) return std::nullopt;
      waves.push_back(std::move(wave));
    }
    trace.blocks.push_back({std::move(waves), 1});
    return trace;
  }

  /// The kind of transfer that only waits for a free register, if that is what is wrong.
  std::optional<StepKind> kind_without_room() const {
    for (const StepKind kind : kKinds) {
      for (int sender = 0; sender < stages_; ++sender) {
        if (is_stage(receiver_of(kind, sender)) && is_sent_and_posted(kind, sender)) return kind;
      }
    }
    return std::nullopt;
  }

  std::string who_is_stuck() const {
    std::string text;
    for (int stage = 0; stage < stages_; ++stage) {
      if (done(stage) == steps_[s(stage)].count()) continue;
      text += (text.empty() ? "" : ", ") + std::string("stage ") + std::to_string(stage) +
              " before step " + std::to_string(done(stage)) + " of its order (a " +
              (steps_[s(stage)].kind(done(stage)) == StepKind::kForward ? "forward" : "backward") +
              ")";
    }
    return text;
  }

 private:
  struct Seen {
    std::size_t wave = 0;
    Progress at;
  };
  static std::size_t s(int stage) { return static_cast<std::size_t>(stage); }
  bool is_stage(int stage) const { return stage >= 0 && stage < stages_; }
  std::int64_t done(int stage) const { return at_.done[s(stage)]; }
  std::int64_t transferred(StepKind kind, int receiver) const {
    return at_.transferred[index_of(kind)][s(receiver)];
  }
  std::int64_t used(StepKind kind, int receiver) const {
    return at_.used[index_of(kind)][s(receiver)];
  }
  std::int64_t sent(StepKind kind, int sender) const { return at_.sent[index_of(kind)][s(sender)]; }
  /// The stage from which a step of `kind` on `stage` receives.
  static int sender_to(StepKind kind, int stage) {
    return kind == StepKind::kForward ? stage - 1 : stage + 1;
  }

  bool is_finished() const {
    for (int stage = 0; stage < stages_; ++stage) {
      if (done(stage) < steps_[s(stage)].count()) return false;
    }
    return true;
  }

  // ---- one wave

  TraceWave next_wave() {
    TraceWave wave;
    for (int stage = 0; stage < stages_; ++stage) {
      if (can_step(stage)) wave.steps.push_back(step(stage));
    }
    for (const StepKind kind : kKinds) {
      for (int sender = 0; sender < stages_; ++sender) {
        if (can_transfer(kind, sender)) wave.transfers.push_back(transfer(kind, sender));
      }
    }
    return wave;
  }

  /// Sends of `kind` in the steps that a stage may have taken without their transfers being over.
  std::int64_t recent_sends(StepKind kind, int stage) const {
    return steps_[s(stage)].count(kind, done(stage) - overlap_ + 1, done(stage));
  }

  bool can_step(int stage) const {
    const std::int64_t k = done(stage);
    if (k == steps_[s(stage)].count()) return false;
    const StepKind kind = steps_[s(stage)].kind(k);
    if (is_stage(sender_to(kind, stage)) && used(kind, stage) == transferred(kind, stage)) {
      return false;
    }
    // Its clock register, and if transfers hold it the stage itself, is needed until they are
    // traced.
    return std::all_of(kKinds.begin(), kKinds.end(), [&](StepKind out) {
      const int receiver = receiver_of(out, stage);
      return !is_stage(receiver) ||
             sent(out, stage) - transferred(out, receiver) <= recent_sends(out, stage);
    });
  }

  TraceStep step(int stage) {
    const std::int64_t k = done(stage);
    const StepKind kind = steps_[s(stage)].kind(k);
    TraceStep step;
    step.stage = stage;
    step.kind = kind;
    step.from_clock = static_cast<int>((k + overlap_ - 1) % overlap_);
    step.to_clock = static_cast<int>(k % overlap_);
    step.arrival = static_cast<int>(used(kind, stage) % depth_[index_of(kind)]);
    if (holds_ && k >= overlap_) {
      const StepKind out = steps_[s(stage)].kind(k - overlap_);
      int arrival = 0;  // where nobody receives, the register stays 0 and does not matter
      if (is_stage(receiver_of(out, stage))) {
        arrival = static_cast<int>((sent(out, stage) - recent_sends(out, stage) - 1) %
                                   depth_[index_of(out)]);
      }
      step.handed_over = TraceStep::HandedOver{out, arrival};
    }
    if (is_stage(sender_to(kind, stage))) ++at_.used[index_of(kind)][s(stage)];
    if (is_stage(receiver_of(kind, stage))) ++at_.sent[index_of(kind)][s(stage)];
    ++at_.done[s(stage)];
    return step;
  }

  bool is_sent_and_posted(StepKind kind, int sender) const {
    const int receiver = receiver_of(kind, sender);
    const std::int64_t number = transferred(kind, receiver);
    if (number == sent(kind, sender)) return false;
    if (!holds_) return true;
    const std::int64_t posted =
        used(kind, receiver) +
        steps_[s(receiver)].count(kind, done(receiver), done(receiver) + overlap_);
    return number < posted;
  }

  bool can_transfer(StepKind kind, int sender) const {
    const int receiver = receiver_of(kind, sender);
    if (!is_stage(receiver) || !is_sent_and_posted(kind, sender)) return false;
    // The register is free when the receiver has used it and, if transfers hold, the sender too:
    // all before the first send for whose transfer a coming step waits.
    std::int64_t free = used(kind, receiver);
    if (holds_) {
      const StageSteps& steps = steps_[s(sender)];
      const std::int64_t begin = done(sender) - overlap_;
      const std::int64_t waited_for = std::min(done(sender), steps.count() - overlap_);
      if (steps.count(kind, begin, waited_for) > 0) {
        free = std::min(free, sent(kind, sender) - steps.count(kind, begin, done(sender)));
      }
    }
    return transferred(kind, receiver) < free + depth_[index_of(kind)];
  }

  TraceTransfer transfer(StepKind kind, int sender) {
    const int receiver = receiver_of(kind, sender);
    const std::int64_t number = transferred(kind, receiver);
    const std::int64_t depth = depth_[index_of(kind)];
    TraceTransfer transfer;
    transfer.sender = sender;
    transfer.kind = kind;
    transfer.arrival = static_cast<int>(number % depth);
    transfer.arrival_before = static_cast<int>((number + depth - 1) % depth);
    std::int64_t k = done(sender);
    for (std::int64_t back = sent(kind, sender) - number; back > 0;) {
      if (steps_[s(sender)].kind(--k) == kind) --back;
    }
    transfer.sender_clock = static_cast<int>(k % overlap_);
    if (holds_) {
      std::int64_t into = done(receiver) - 1;
      for (std::int64_t ahead = number - used(kind, receiver) + 1; ahead > 0;) {
        if (steps_[s(receiver)].kind(++into) == kind) --ahead;
      }
      transfer.receiver_clock = static_cast<int>(into % overlap_);
    }
    ++at_.transferred[index_of(kind)][s(receiver)];
    return transfer;
  }

  // ---- loops

  /// All that decides what the next waves look like, as long as no stage comes near the end of its
  /// piece. The logic looks up to two steps back, hence the distance from the piece's beginning.
  std::vector<std::int64_t> state() const {
    std::vector<std::int64_t> key;
    for (int stage = 0; stage < stages_; ++stage) {
      const std::int64_t k = done(stage);
      if (k == steps_[s(stage)].count()) {
        key.push_back(-1);
      } else {
        const auto place = steps_[s(stage)].place(k);
        key.insert(key.end(), {static_cast<std::int64_t>(place.piece), place.offset,
                               std::min<std::int64_t>(place.round, 2), k % overlap_});
      }
      for (const StepKind kind : kKinds) {
        key.push_back(used(kind, stage) % depth_[index_of(kind)]);
        key.push_back(transferred(kind, stage) - used(kind, stage));
        const int receiver = receiver_of(kind, stage);
        if (is_stage(receiver)) key.push_back(sent(kind, stage) - transferred(kind, receiver));
      }
    }
    return key;
  }

  /// If the state was seen: moves what came before and the loop into blocks and goes to its end.
  bool fold(std::vector<TraceWave>& waves, std::vector<TraceBlock>& blocks) {
    const auto earlier = seen_.find(state());
    if (earlier == seen_.end()) return false;
    const Progress& from = earlier->second.at;
    std::int64_t more = INT64_MAX;
    for (int stage = 0; stage < stages_; ++stage) {
      const std::int64_t steps = done(stage) - from.done[s(stage)];
      if (steps == 0) continue;
      const std::int64_t rounds = steps / steps_[s(stage)].length_of_piece_at(done(stage));
      more =
          std::min(more, (steps_[s(stage)].place(done(stage)).rounds_left - kRoundsToEnd) / rounds);
    }
    if (more < 1 || more == INT64_MAX) return false;
    const auto body = waves.begin() + static_cast<std::ptrdiff_t>(earlier->second.wave);
    std::vector<TraceWave> loop(std::make_move_iterator(body),
                                std::make_move_iterator(waves.end()));
    waves.erase(body, waves.end());
    if (!waves.empty()) blocks.push_back({std::exchange(waves, {}), 1});
    blocks.push_back({std::move(loop), 1 + more});
    at_.repeat(from, more);
    seen_.clear();
    return true;
  }

  /// The logic looks up to two steps ahead, which must lie in the same piece after the loop too.
  static constexpr std::int64_t kRoundsToEnd = 3;

  const int stages_;
  const bool holds_;
  const int overlap_;
  const std::array<int, 2> depth_;
  std::vector<StageSteps> steps_;
  Progress at_;
  std::map<std::vector<std::int64_t>, Seen> seen_;
};

}  // namespace

PipelineTrace trace_pipeline(const PipelineOrder& order, TransferMode mode) {
  std::array<int, 2> depth{1, 1};
  while (true) {
    Tracer tracer(order, mode, depth);
    if (auto trace = tracer.run()) return *std::move(trace);
    const auto kind = tracer.kind_without_room();
    if (!kind) throw InputError("the schedule deadlocks: " + tracer.who_is_stuck() + ".");
    depth[index_of(*kind)] *= 2;
  }
}

}  // namespace parplan::sim
