#pragma once
// Events and summaries as the JSON text in which the database keeps them. Private to job_store.

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "services/jobs/job_store.h"

namespace tandem::jobs {

using EventBody = decltype(JobEvent::event);

// "state", "step", "eval", "checkpoint", "log".
const char* KindOf(const EventBody& event);
std::string EventToJson(const EventBody& event);
// DATA_LOSS for a text that EventToJson did not make.
absl::StatusOr<EventBody> EventFromJson(const std::string& kind, const std::string& text);

// Values that are not finite are kept as null and come back as NaN.
std::string MetricsToJson(const std::map<std::string, double>& metrics);
absl::StatusOr<std::map<std::string, double>> MetricsFromJson(const std::string& text);

std::string SummaryToJson(const JobSummary& summary);
absl::StatusOr<JobSummary> SummaryFromJson(const std::string& text);

}  // namespace tandem::jobs
