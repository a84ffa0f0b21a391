#include "tools/launch/job_messages.hpp"

#include <csignal>
#include <string>
#include <vector>

#include "tests/catch2_compat.hpp"

using parplan::tools::DeadRank;
using parplan::tools::JobMessages;

namespace {

const std::string kDashes = std::string(74, '-') + "\n";
const std::string kAbort = kDashes +
                           "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\n"
                           "with errorcode 2.\n\nNOTE: invoking MPI_ABORT causes Open MPI to kill "
                           "all MPI processes.\n" +
                           kDashes;
const std::string kNonZero = kDashes +
                             "mpirun detected that one or more processes exited with non-zero "
                             "status, thus causing\nthe job to be terminated.\n" +
                             kDashes;
const std::string kKilled = kDashes +
                            "mpirun noticed that process rank 1 with PID 0 on node a exited on "
                            "signal 9 (Killed).\n" +
                            kDashes;
const std::string kNoSlots =
    kDashes + "There are not enough slots available in the system\n" + kDashes;

struct Passed {
  std::string text;
  std::optional<DeadRank> dead;
};

/// In pieces of `piece` bytes.
Passed passed(const std::string& stream, bool unexplained, std::size_t piece = 7) {
  Passed result;
  JobMessages messages([&](std::string_view text) { result.text += text; });
  for (std::size_t at = 0; at < stream.size(); at += piece) {
    messages.add(std::string_view(stream).substr(at, piece));
  }
  messages.finish(unexplained);
  result.dead = messages.dead_rank();
  return result;
}

}  // namespace

TEST_CASE("a reason of several ranks is said once, with the rank, without boxes", "[tools]") {
  const std::string stream = "parplan: rank 0: disk full\n" + kAbort +
                             "parplan: rank 1: disk full\n" + kNonZero +
                             "[a:77] 1 more process has sent help message help-mpi-api.txt\n" +
                             "[a:77] [[28747,0],0] ORTE_ERROR_LOG: Data unpack failed\n" +
                             "[a:77] Set MCA parameter \"orte_base_help_aggregate\" to 0\n" +
                             "parplan: rank 1: no memory\n";
  for (const std::size_t piece : {1, 7, 4096}) {
    CHECK(passed(stream, true, piece).text ==
          "parplan: rank 0: disk full\nparplan: rank 1: no memory\n");
  }
}

TEST_CASE("a reason that is written while the launcher writes a box is not lost", "[tools]") {
  std::string stream = kAbort;
  stream.insert(stream.find("with errorcode"),
                "parplan: rank 2 (group world) waited 3.0 s for rank 1\n");
  CHECK(passed(stream, true).text == "parplan: rank 2 (group world) waited 3.0 s for rank 1\n");
}

TEST_CASE("what nobody explains is passed on at the end", "[tools]") {
  CHECK(passed(kNonZero, true).text == kNonZero);
  CHECK(passed("[a:77] a library's warning\n" + kNonZero, true).text ==
        "[a:77] a library's warning\n" + kNonZero);
  CHECK(passed(kNonZero, false).text.empty());  // the ranks were interrupted
  CHECK(passed("sh: no such program\n" + kNonZero, true).text == "sh: no such program\n");
}

TEST_CASE("a box about anything but the end passes", "[tools]") {
  CHECK(passed(kNoSlots, true).text == kNoSlots);
  CHECK(passed("parplan: rank 0: disk full\n" + kNoSlots + kAbort, false).text ==
        "parplan: rank 0: disk full\n" + kNoSlots);
  const std::string open_box = kDashes + "cut short\nand its last line";
  CHECK(passed(open_box, true).text == open_box + "\n");
}

TEST_CASE("the rank that a signal ended is known", "[tools]") {
  const Passed result = passed(kKilled, false);
  CHECK(result.text.empty());
  CHECK(result.dead == DeadRank{1, SIGKILL});
  CHECK(passed("[a:76] Read -1, expected 940800, errno = 3\n" + kKilled, false).text.empty());
  CHECK_FALSE(passed(kAbort + kNonZero, true).dead.has_value());
}

TEST_CASE("lines that only look like reasons or boxes stay as they are", "[tools]") {
  const std::string lines = "ranks 0: x\nrank: x\nrank 12\nrank x: y\n---\nsteps\n\n";
  CHECK(passed(lines, true).text == lines);
  CHECK(passed("no end", true).text == "no end\n");
}

TEST_CASE("how far a rank is goes to the progress line, not to the messages", "[tools]") {
  std::string text;
  std::vector<std::string> progress;
  JobMessages messages([&](std::string_view said) { text += said; },
                       [&](std::string_view shown) { progress.emplace_back(shown); });
  messages.add("parplan-progress: step 1 of 9\nparplan: rank 0: disk");
  messages.add(" full\nparplan-progress: step 2 of 9\r\nparplan-progress:\n");
  messages.finish(false);
  CHECK(text == "parplan: rank 0: disk full\n");
  CHECK(progress == std::vector<std::string>{"step 1 of 9", "step 2 of 9", ""});
}
