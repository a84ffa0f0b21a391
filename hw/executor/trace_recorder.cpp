#include "hw/executor/trace_recorder.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "hw/copy_bytes.hpp"
#include "sim/core/error.hpp"
#include "sim/core/op_work.hpp"

namespace parplan::hw {
namespace {

std::size_t stamps_of(const BoundStep& step) {
  std::size_t stamps = 2;
  for (const BoundInstruction& instruction : step.instructions) {
    if (instruction.kind == InstructionKind::kRun) {
      stamps += 1 + static_cast<std::size_t>(instruction.op_end - instruction.op_begin);
    } else if (!is_communication(instruction.kind)) {
      stamps += 2;
    }
  }
  return stamps;
}

}  // namespace

TraceRecorder::TraceRecorder(const BoundStep& step, std::int64_t capacity)
    : records_(static_cast<std::size_t>(capacity)) {
  for (StepRecord& record : records_) {
    record.stamps.resize(stamps_of(step));
    record.communication.resize(static_cast<std::size_t>(step.comm_slots));
  }
}

void TraceRecorder::begin_step(std::int64_t step) {
  current_ = &records_[static_cast<std::size_t>(recorded_) % records_.size()];
  ++recorded_;
  current_->step = step;
  next_ = current_->stamps.data();
}

void TraceRecorder::communication(std::int32_t slot, const CommTimes& times) {
  CommunicationRecord& record = current_->communication[static_cast<std::size_t>(slot)];
  record.posted_ns = to_ns(times.posted);
  record.completed_ns = to_ns(times.completed.value_or(times.posted));
  record.peer_arrived_ns = times.peer_arrived ? to_ns(*times.peer_arrived) : record.completed_ns;
  record.progress_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(times.in_progress).count();
}

std::vector<const StepRecord*> TraceRecorder::records() const {
  const auto capacity = static_cast<std::int64_t>(records_.size());
  std::vector<const StepRecord*> kept;
  for (std::int64_t i = std::max<std::int64_t>(0, recorded_ - capacity); i < recorded_; ++i) {
    kept.push_back(&records_[static_cast<std::size_t>(i % capacity)]);
  }
  return kept;
}

ClockLine::ClockLine(ClockOffset before, std::int64_t before_ns, ClockOffset after,
                     std::int64_t after_ns)
    : start_offset_ns_(before.offset.count() * 1e9), drift_(0.0), origin_ns_(before_ns) {
  const double uncertainty = before.uncertainty.count() + after.uncertainty.count();
  const double moved = after.offset.count() - before.offset.count();
  if (std::abs(moved) > uncertainty && after_ns > before_ns) {
    drift_ = moved * 1e9 / static_cast<double>(after_ns - before_ns);
  } else if (after.uncertainty < before.uncertainty) {
    start_offset_ns_ = after.offset.count() * 1e9;
  }
}

double ClockLine::on_rank0(std::int64_t local_ns) const {
  const double since = static_cast<double>(local_ns - origin_ns_);
  return static_cast<double>(local_ns) - start_offset_ns_ - drift_ * since;
}

namespace {

/// Turns one step's record into events and samples, walking the instruction list as the step did.
class StepTranslator {
 public:
  StepTranslator(const BoundStep& step, const TracedRank& traced, const ClockLine& clock,
                 RankTrace& trace)
      : step_(step), traced_(traced), clock_(clock), trace_(trace) {}

  void translate(const StepRecord& record) {
    record_ = &record;
    stamp_ = record.stamps.data();
    point_ = 0;
    const std::int64_t begin = *stamp_++;
    for (std::size_t i = 0; i < step_.instructions.size(); ++i) {
      const Instruction& instruction = traced_.rank_class.instructions[i];
      switch (instruction.kind) {
        case InstructionKind::kRun:
          translate_run(instruction, step_.instructions[i]);
          break;
        case InstructionKind::kOptimizer:
          translate_flat(instruction, OpCode::kAdam);
          break;
        case InstructionKind::kGradientNorm:
          translate_flat(instruction, OpCode::kGradientNorm);
          break;
        case InstructionKind::kSend:
        case InstructionKind::kReceive:
        case InstructionKind::kReduce:
        case InstructionKind::kReduceTied:
        case InstructionKind::kReduceNorm:
          translate_communication(instruction, step_.instructions[i]);
          break;
      }
    }
    const std::int64_t end = *stamp_++;
    TraceEvent& whole = add(Key(Phase::kStep, 0, 0, Key::kNone, 0, Key::kWholeInstruction),
                            Stream::kCompute, begin, end);
    whole.bytes = Bytes{0};
    sample_flat(end);
  }

 private:
  Picoseconds at(std::int64_t local_ns) const {
    return Picoseconds{std::llround(clock_.on_rank0(local_ns))};
  }
  TraceEvent& add(Key key, Stream stream, std::int64_t begin, std::int64_t end) {
    TraceEvent event;
    event.key = key;
    event.rank = traced_.rank;
    event.step = static_cast<std::int32_t>(record_->step);
    event.stream = stream;
    event.start = at(begin);
    event.end = at(end);
    trace_.events.push_back(event);
    return trace_.events.back();
  }

  void translate_run(const Instruction& instruction, const BoundInstruction& bound) {
    const Body& body = traced_.rank_class.bodies[static_cast<std::size_t>(instruction.body)];
    const std::int64_t begin = *stamp_++;
    const std::size_t whole = trace_.events.size();
    add(instruction.key, instruction.stream, begin, begin);
    std::int64_t previous = begin;
    Flop flop{0.0};
    Bytes bytes{0};
    for (std::int32_t k = instruction.op_begin; k < instruction.op_end; ++k) {
      const parplan::Operation& operation = body.operations[static_cast<std::size_t>(k)];
      const auto index = static_cast<std::size_t>(bound.op_begin + k - instruction.op_begin);
      const std::int64_t end = *stamp_++;
      sample(previous);
      TraceEvent& event = add(operation_key(traced_.model, body, operation, instruction.microbatch),
                              instruction.stream, previous, end);
      event.flop = operation.flop;
      event.bytes = operation.bytes;
      flop += operation.flop;
      bytes += operation.bytes;
      if (const std::int32_t slot = step_.operations[index].comm_slot; slot >= 0) {
        event.waiting = waiting(record_->communication[static_cast<std::size_t>(slot)]);
      }
      previous = end;
    }
    trace_.events[whole].end = at(previous);
    trace_.events[whole].flop = flop;
    trace_.events[whole].bytes = bytes;
  }

  void translate_flat(const Instruction& instruction, OpCode code) {
    const std::int64_t begin = *stamp_++;
    const std::int64_t end = *stamp_++;
    sample(begin);
    TraceEvent& event = add(instruction.key, instruction.stream, begin, end);
    event.bytes = instruction.bytes;
    event.flop =
        flop_of(code, {.rows = 1, .columns = instruction.flat_end - instruction.flat_begin});
  }

  void translate_communication(const Instruction& instruction, const BoundInstruction& bound) {
    const CommunicationRecord& record =
        record_->communication[static_cast<std::size_t>(bound.comm_slot)];
    sample(record.posted_ns);
    TraceEvent& event =
        add(instruction.key, instruction.stream, record.posted_ns, record.completed_ns);
    event.waiting = waiting(record);
    event.cpu = Picoseconds{record.progress_ns};
    event.bytes = instruction.bytes;
  }

  static Picoseconds waiting(const CommunicationRecord& record) {
    const std::int64_t arrived =
        std::clamp(record.peer_arrived_ns, record.posted_ns, record.completed_ns);
    return Picoseconds{arrived - record.posted_ns};
  }

  void sample(std::int64_t local_ns) {
    add_sample(traced_.replay.points[point_].live, local_ns);
    ++point_;
  }
  void sample_flat(std::int64_t local_ns) {
    MemoryByKind flat;
    for (const TensorKind kind :
         {TensorKind::kParameter, TensorKind::kGradient, TensorKind::kOptimizerState}) {
      flat.bytes[static_cast<std::size_t>(kind)] = traced_.replay.peak.of(kind).value;
    }
    add_sample(flat, local_ns);
  }
  void add_sample(const MemoryByKind& live, std::int64_t local_ns) {
    MemorySample sample = sample_of(live);
    sample.rank = traced_.rank;
    sample.step = static_cast<std::int32_t>(record_->step);
    sample.time = at(local_ns);
    trace_.memory.push_back(sample);
  }

  const BoundStep& step_;
  const TracedRank& traced_;
  const ClockLine& clock_;
  RankTrace& trace_;
  const StepRecord* record_ = nullptr;
  const std::int64_t* stamp_ = nullptr;
  std::size_t point_ = 0;
};

}  // namespace

RankTrace build_rank_trace(const TraceRecorder& recorder, const BoundStep& step,
                           const TracedRank& traced, const ClockLine& clock) {
  RankTrace trace;
  StepTranslator translator(step, traced, clock, trace);
  for (const StepRecord* record : recorder.records()) translator.translate(*record);
  return trace;
}

namespace {

/// Structs of plain numbers as bytes; all ranks run the same build.
template <class T>
void append(std::string& bytes, const std::vector<T>& items) {
  static_assert(std::is_trivially_copyable_v<T>);
  const std::uint64_t count = items.size();
  bytes.append(reinterpret_cast<const char*>(&count), sizeof(count));
  bytes.append(reinterpret_cast<const char*>(items.data()), items.size() * sizeof(T));
}

class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}

  template <class T>
  void append_to(std::vector<T>& items) {
    std::uint64_t count = 0;
    take(&count, sizeof(count));
    const std::size_t old = items.size();
    items.resize(old + count);
    take(items.data() + old, count * sizeof(T));
  }

 private:
  void take(void* to, std::size_t size) {
    ensure(at_ + size <= bytes_.size(), "a rank's trace arrives whole");
    copy_bytes(to, bytes_.data() + at_, size);
    at_ += size;
  }
  const std::string& bytes_;
  std::size_t at_ = 0;
};

constexpr std::int64_t kPicosecondsPerNanosecond = 1000;

Picoseconds from_origin(Picoseconds nanoseconds, std::int64_t origin) {
  return Picoseconds{(nanoseconds.value - origin) * kPicosecondsPerNanosecond};
}

void put_origin_at_first_step(Trace& trace) {
  std::int64_t origin = std::numeric_limits<std::int64_t>::max();
  for (const TraceEvent& event : trace.events) {
    if (event.key.phase() == Phase::kStep) origin = std::min(origin, event.start.value);
  }
  for (TraceEvent& event : trace.events) {
    event.start = from_origin(event.start, origin);
    event.end = from_origin(event.end, origin);
    event.waiting = event.waiting * kPicosecondsPerNanosecond;
    event.cpu = event.cpu * kPicosecondsPerNanosecond;
  }
  for (MemorySample& sample : trace.memory) sample.time = from_origin(sample.time, origin);
}

}  // namespace

Trace merge_traces(World& world, RankTrace own, const RankSummary& summary) {
  std::string bytes;
  append(bytes, own.events);
  append(bytes, own.memory);
  append(bytes, std::vector<RankSummary>{summary});
  own = {};
  const std::vector<std::string> gathered = world.gather(bytes);
  Trace trace;
  if (world.rank() != 0) return trace;
  trace.source = TraceSource::kMeasured;
  trace.ranks = world.size();
  for (const std::string& part : gathered) {
    Reader reader(part);
    reader.append_to(trace.events);
    reader.append_to(trace.memory);
    reader.append_to(trace.summaries);
  }
  put_origin_at_first_step(trace);
  std::stable_sort(trace.events.begin(), trace.events.end(),
                   [](const TraceEvent& a, const TraceEvent& b) {
                     return std::pair(a.rank, a.start) < std::pair(b.rank, b.start);
                   });
  return trace;
}

}  // namespace parplan::hw
