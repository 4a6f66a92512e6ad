#pragma once
// The generated protocol headers and gRPC, precompiled once for every target that speaks the protocol.
#include <grpcpp/grpcpp.h>

#include "tandem/v1/arbiter.grpc.pb.h"
#include "tandem/v1/inference.grpc.pb.h"
#include "tandem/v1/trainer.grpc.pb.h"
