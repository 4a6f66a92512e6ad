#pragma once
// Sixteen floats in registers: one zmm with AVX-512, two ymm with AVX2. Every CPU kernel is written against this type
// and compiled twice (see kernels/CMakeLists.txt), so both builds do the same operations on the same lanes in the same
// order and give the same bits.
//
// Include only from files that are compiled with TANDEM_ISA set. These files call no inline function of the standard
// library: the linker could keep the AVX-512 copy for everyone.

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns of the undefined operands in its own intrinsics.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#else
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>

#define TANDEM_INLINE inline __attribute__((always_inline))

namespace tandem::TANDEM_ISA {

inline constexpr int kLanes = 16;

#if defined(__AVX512F__)

struct F16 {
  __m512 v;
};

TANDEM_INLINE __mmask16 FirstLanes(int count) {
  return static_cast<__mmask16>((1U << count) - 1U);
}
TANDEM_INLINE F16 Set(float x) {
  return {_mm512_set1_ps(x)};
}
TANDEM_INLINE F16 Zero16() {
  return {_mm512_setzero_ps()};
}
TANDEM_INLINE F16 Load(const float* p) {
  return {_mm512_loadu_ps(p)};
}
// The first `count` (0 to 16) lanes from memory, zero in the others.
TANDEM_INLINE F16 Load(const float* p, int count) {
  return {_mm512_maskz_loadu_ps(FirstLanes(count), p)};
}
TANDEM_INLINE void Store(float* p, F16 a) {
  _mm512_storeu_ps(p, a.v);
}
TANDEM_INLINE void Store(float* p, F16 a, int count) {
  _mm512_mask_storeu_ps(p, FirstLanes(count), a.v);
}
// The first `count` lanes of a, the others of b.
TANDEM_INLINE F16 Blend(F16 a, F16 b, int count) {
  return {_mm512_mask_blend_ps(FirstLanes(count), b.v, a.v)};
}
TANDEM_INLINE F16 Add(F16 a, F16 b) {
  return {_mm512_add_ps(a.v, b.v)};
}
TANDEM_INLINE F16 Sub(F16 a, F16 b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
TANDEM_INLINE F16 Mul(F16 a, F16 b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
TANDEM_INLINE F16 Div(F16 a, F16 b) {
  return {_mm512_div_ps(a.v, b.v)};
}
TANDEM_INLINE F16 Sqrt(F16 a) {
  return {_mm512_sqrt_ps(a.v)};
}
TANDEM_INLINE F16 Fma(F16 a, F16 b, F16 c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
// b where a or b is not a number.
TANDEM_INLINE F16 Max(F16 a, F16 b) {
  return {_mm512_max_ps(a.v, b.v)};
}
TANDEM_INLINE F16 Min(F16 a, F16 b) {
  return {_mm512_min_ps(a.v, b.v)};
}
// value, with zero where x < limit.
TANDEM_INLINE F16 ZeroWhereLess(F16 value, F16 x, F16 limit) {
  return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, limit.v, _CMP_NLT_UQ), value.v)};
}
// value * 2^n, n being the integer in the low bits of `biased` (see Exp).
TANDEM_INLINE F16 ScaleByBits(F16 value, F16 biased) {
  return {_mm512_castsi512_ps(
      _mm512_add_epi32(_mm512_castps_si512(value.v), _mm512_slli_epi32(_mm512_castps_si512(biased.v), 23)))};
}
TANDEM_INLINE __m256 LowHalf(F16 a) {
  return _mm512_castps512_ps256(a.v);
}
TANDEM_INLINE __m256 HighHalf(F16 a) {
  return _mm512_extractf32x8_ps(a.v, 1);
}

#else

struct F16 {
  __m256 lo, hi;
};

TANDEM_INLINE __m256i FirstLanes8(int count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
TANDEM_INLINE F16 Set(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
TANDEM_INLINE F16 Zero16() {
  return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}
TANDEM_INLINE F16 Load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
TANDEM_INLINE F16 Load(const float* p, int count) {
  if (count == kLanes) return Load(p);
  return {_mm256_maskload_ps(p, FirstLanes8(count)), _mm256_maskload_ps(p + 8, FirstLanes8(count - 8))};
}
TANDEM_INLINE void Store(float* p, F16 a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
TANDEM_INLINE void Store(float* p, F16 a, int count) {
  if (count == kLanes) return Store(p, a);
  _mm256_maskstore_ps(p, FirstLanes8(count), a.lo);
  _mm256_maskstore_ps(p + 8, FirstLanes8(count - 8), a.hi);
}
TANDEM_INLINE F16 Blend(F16 a, F16 b, int count) {
  return {_mm256_blendv_ps(b.lo, a.lo, _mm256_castsi256_ps(FirstLanes8(count))),
          _mm256_blendv_ps(b.hi, a.hi, _mm256_castsi256_ps(FirstLanes8(count - 8)))};
}
TANDEM_INLINE F16 Add(F16 a, F16 b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
TANDEM_INLINE F16 Sub(F16 a, F16 b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
TANDEM_INLINE F16 Mul(F16 a, F16 b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
TANDEM_INLINE F16 Div(F16 a, F16 b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
TANDEM_INLINE F16 Sqrt(F16 a) {
  return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)};
}
TANDEM_INLINE F16 Fma(F16 a, F16 b, F16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
TANDEM_INLINE F16 Max(F16 a, F16 b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
TANDEM_INLINE F16 Min(F16 a, F16 b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
TANDEM_INLINE F16 ZeroWhereLess(F16 value, F16 x, F16 limit) {
  return {_mm256_and_ps(value.lo, _mm256_cmp_ps(x.lo, limit.lo, _CMP_NLT_UQ)),
          _mm256_and_ps(value.hi, _mm256_cmp_ps(x.hi, limit.hi, _CMP_NLT_UQ))};
}
TANDEM_INLINE __m256 ScaleByBits8(__m256 value, __m256 biased) {
  return _mm256_castsi256_ps(
      _mm256_add_epi32(_mm256_castps_si256(value), _mm256_slli_epi32(_mm256_castps_si256(biased), 23)));
}
TANDEM_INLINE F16 ScaleByBits(F16 value, F16 biased) {
  return {ScaleByBits8(value.lo, biased.lo), ScaleByBits8(value.hi, biased.hi)};
}
TANDEM_INLINE __m256 LowHalf(F16 a) {
  return a.lo;
}
TANDEM_INLINE __m256 HighHalf(F16 a) {
  return a.hi;
}

#endif

// Asks for the cache line at p in the second-level cache; any address is allowed.
TANDEM_INLINE void Prefetch(const float* p) {
  _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T1);
}

// Sum of the lanes in one fixed order: halves, then halves of halves.
TANDEM_INLINE float SumLanes(F16 a) {
  const __m256 eight = _mm256_add_ps(LowHalf(a), HighHalf(a));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

TANDEM_INLINE float MaxLanes(F16 a) {
  const __m256 eight = _mm256_max_ps(LowHalf(a), HighHalf(a));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// e^x within 2 units in the last place; 0 below -87.3, e^88.3 above 88.3, exactly 1 at 0. Reduction to
// [-ln2/2, ln2/2] with ln2 in two parts, then the polynomial of Cephes expf.
TANDEM_INLINE F16 Exp(F16 x) {
  const F16 clamped = Min(Set(88.3F), Max(Set(-87.3F), x));
  const F16 magic = Set(12582912.0F);  // 1.5 * 2^23: adding it rounds to an integer, which stands in the low bits
  const F16 biased = Fma(clamped, Set(1.44269504088896341F), magic);
  const F16 n = Sub(biased, magic);
  F16 r = Fma(n, Set(-0.693359375F), clamped);
  r = Fma(n, Set(2.12194440e-4F), r);
  F16 p = Fma(Set(1.9875691500e-4F), r, Set(1.3981999507e-3F));
  p = Fma(p, r, Set(8.3334519073e-3F));
  p = Fma(p, r, Set(4.1665795894e-2F));
  p = Fma(p, r, Set(1.6666665459e-1F));
  p = Fma(p, r, Set(5.0000001201e-1F));
  p = Add(Fma(p, Mul(r, r), r), Set(1.0F));
  return ZeroWhereLess(ScaleByBits(p, biased), x, Set(-87.3F));
}

TANDEM_INLINE float ExpScalar(float x) {
  return _mm_cvtss_f32(_mm256_castps256_ps128(LowHalf(Exp(Set(x)))));
}

}  // namespace tandem::TANDEM_ISA
