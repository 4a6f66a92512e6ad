#pragma once
// The store's jobs and events as messages of the protocol.

#include "services/jobs/job_store.h"
#include "tandem/v1/trainer.pb.h"

namespace tandem::trainer {

void ToProto(const jobs::JobRecord& job, v1::Job& out);
void ToProto(const jobs::JobEvent& event, v1::JobEvent& out);
void ToProto(const jobs::Progress& progress, v1::JobEvent& out);

}  // namespace tandem::trainer
