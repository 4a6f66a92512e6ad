#include "services/trainer/step/turn_keeper.h"

#include <utility>

#include "common/base/log.h"
#include "common/base/status.h"

namespace tandem::trainer {
namespace {

constexpr absl::Duration kTurnTimeout = absl::Minutes(10);
constexpr absl::Duration kSlice = absl::Seconds(5);  // how often `check` is asked while waiting

}  // namespace

TurnKeeper::TurnKeeper(tenant::Session& session, const Clock& clock, std::function<absl::Status()> check)
    : session_(session), clock_(clock), check_(std::move(check)) {}

absl::Status TurnKeeper::Acquire() {
  if (turn_.has_value()) return absl::OkStatus();
  const absl::Duration start = clock_.Now();
  while (true) {
    TANDEM_RETURN_IF_ERROR(check_());
    absl::StatusOr<tenant::Turn> turn = session_.RequestTurn(kSlice);
    if (turn.ok()) {
      turn_.emplace(*std::move(turn));
      break;
    }
    const absl::Duration waited = clock_.Now() - start;
    if (!absl::IsDeadlineExceeded(turn.status()) || waited > kTurnTimeout) return turn.status();
    LOG_WARN("trainer has waited {:.0f} s for the turn", absl::ToDoubleSeconds(waited));
  }
  const double waited = absl::ToDoubleSeconds(clock_.Now() - start);
  switch_seconds_ += waited;
  ++turns_;
  LOG_INFO("turn taken token={} waited_ms={:.1f}", turn_->token(), waited * 1e3);
  return absl::OkStatus();
}

absl::Status TurnKeeper::BetweenUnits(const Keep& keep) {
  session_.Progress();
  if (absl::Status go_on = check_(); !go_on.ok()) {
    if (const absl::Status yielded = Yield({}); !yielded.ok()) LOG_WARN("{}", yielded.ToString());
    return go_on;
  }
  if (!turn_->ShouldYield()) return absl::OkStatus();
  TANDEM_RETURN_IF_ERROR(Yield(keep));
  TANDEM_RETURN_IF_ERROR(Acquire());
  for (const tenant::Segment* segment : keep) {
    if (turn_->Lost(*segment)) {
      return absl::DataLossError(absl::StrCat("segment ", segment->name, " was kept and did not come back"));
    }
  }
  return absl::OkStatus();
}

absl::Status TurnKeeper::Yield(const Keep& keep) {
  if (!turn_.has_value()) return absl::OkStatus();
  const absl::Duration start = clock_.Now();
  const uint64_t token = turn_->token();
  absl::Status yielded = turn_->Yield(keep);
  turn_.reset();
  const double seconds = absl::ToDoubleSeconds(clock_.Now() - start);
  switch_seconds_ += seconds;
  LOG_INFO("turn yielded token={} kept={} ms={:.1f}", token, keep.size(), seconds * 1e3);
  return yielded;
}

absl::Status TurnKeeper::BeginWrite(uint64_t set_id) {
  return turn_->BeginWrite(set_id);
}

absl::StatusOr<uint64_t> TurnKeeper::Commit(uint64_t set_id, const std::string& note) {
  return turn_->Commit(set_id, note);
}

}  // namespace tandem::trainer
