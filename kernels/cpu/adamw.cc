// One AdamW step. Scalars are computed in fp64 and rounded once, elements in fp32, in torch's order of operations.

#include <math.h>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace tandem::TANDEM_ISA {
namespace {

struct Scalars {
  F16 clip, decay, one_less_beta1, beta2, one_less_beta2, root_correction, epsilon, step_size;
};

Scalars MakeScalars(const AdamWOptions& o) {
  const auto set = [](double x) { return Set(static_cast<float>(x)); };
  const double correction1 = 1.0 - pow(o.beta1, static_cast<double>(o.step));
  const double correction2 = 1.0 - pow(o.beta2, static_cast<double>(o.step));
  return {set(o.clip_scale),  set(1.0 - o.learning_rate * o.weight_decay),
          set(1.0 - o.beta1), set(o.beta2),
          set(1.0 - o.beta2), set(sqrt(correction2)),
          set(o.epsilon),     set(o.learning_rate / correction1)};
}

void Update(const Scalars& s, const float* gradient, float* parameter, float* m, float* v, int lanes) {
  const F16 g = Mul(Load(gradient, lanes), s.clip);
  const F16 old_m = Load(m, lanes);
  const F16 new_m = Fma(Sub(g, old_m), s.one_less_beta1, old_m);
  const F16 new_v = Fma(Mul(g, g), s.one_less_beta2, Mul(Load(v, lanes), s.beta2));
  const F16 denominator = Add(Div(Sqrt(new_v), s.root_correction), s.epsilon);
  const F16 decayed = Mul(Load(parameter, lanes), s.decay);
  Store(m, new_m, lanes);
  Store(v, new_v, lanes);
  Store(parameter, Sub(decayed, Mul(s.step_size, Div(new_m, denominator))), lanes);
}

}  // namespace

void CpuKernels::AdamW(const AdamWOptions& options, int64_t n, const float* gradient, float* parameter, float* m,
                       float* v) {
  const Scalars scalars = MakeScalars(options);
  ParallelRange(pool_, n, 4, kLanes, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kLanes) {
      const int lanes = end - i < kLanes ? static_cast<int>(end - i) : kLanes;
      Update(scalars, gradient + i, parameter + i, m + i, v + i, lanes);
    }
  });
}

}  // namespace tandem::TANDEM_ISA
