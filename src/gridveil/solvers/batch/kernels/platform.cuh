// What differs between NVRTC and g++. LANES threads work on one scenario; a tile of WIDTH slots shares a warp.
// On a CPU both are 1 and every helper below is the identity, except in tests.
#ifdef __CUDACC__
#define FN __device__ __forceinline__
#define FN_APART __device__ __noinline__
#define WIDTH (32 / LANES)
#define ALL_LANES 0xffffffffu
FN long long bits_of(double x) { return __double_as_longlong(x); }
FN double of_bits(long long x) { return __longlong_as_double(x); }
FN int take_one(int* counter) { return atomicAdd(counter, 1); }
FN double constant(const double* p) { return __ldg(p); }
FN int constant(const int* p) { return __ldg(p); }
FN bool any_lane(bool yes) { return __any_sync(ALL_LANES, yes); }
FN int count_lanes(bool yes) { return __popc(__ballot_sync(ALL_LANES, yes)); }
#if LANES == 1
FN void lanes_meet() {}
#else
FN void lanes_meet() { __syncwarp(); }
#endif
FN double lanes_sum(double x) {
  for (int d = WIDTH; d < 32; d *= 2) x += __shfl_xor_sync(ALL_LANES, x, d);
  return x;
}
FN double lanes_max(double x) {
  for (int d = WIDTH; d < 32; d *= 2) { double y = __shfl_xor_sync(ALL_LANES, x, d); x = x > y ? x : y; }
  return x;
}
FN double lanes_min(double x) {
  for (int d = WIDTH; d < 32; d *= 2) { double y = __shfl_xor_sync(ALL_LANES, x, d); x = x < y ? x : y; }
  return x;
}
#if LANES == 1
FN int from_first_lane(int x) { return x; }
FN double from_first_lane(double x) { return x; }
#else
FN int from_first_lane(int x) { return __shfl_sync(ALL_LANES, x, threadIdx.x & (WIDTH - 1)); }
FN double from_first_lane(double x) { return __shfl_sync(ALL_LANES, x, threadIdx.x & (WIDTH - 1)); }
#endif
// Reciprocal without the slow path of the division: two Newton steps on the hardware's 20-bit seed, for normal numbers.
FN double inverse(double x) {
  double r;
  asm("rcp.approx.ftz.f64 %0,%1;" : "=d"(r) : "d"(x));
  double e = fma(-x, r, 1.0);
  r = fma(r, e, r);
  e = fma(-x, r, 1.0);
  return fma(r, e, r);
}
#else
#include <pthread.h>

#include <cmath>
#include <cstring>
#include <thread>
#include <vector>
using std::floor;
using std::log;
using std::pow;
using std::sqrt;
#define FN static inline
#define FN_APART static
#define WIDTH 1
FN long long bits_of(double x) { long long r; std::memcpy(&r, &x, 8); return r; }
FN double of_bits(long long x) { double r; std::memcpy(&r, &x, 8); return r; }
FN int take_one(int* counter) { return __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED); }
FN double constant(const double* p) { return *p; }
FN int constant(const int* p) { return *p; }
#if LANES == 1
FN bool any_lane(bool yes) { return yes; }
FN int count_lanes(bool yes) { return yes; }
FN void lanes_meet() {}
FN double lanes_sum(double x) { return x; }
FN double lanes_max(double x) { return x; }
FN double lanes_min(double x) { return x; }
FN int from_first_lane(int x) { return x; }
FN double from_first_lane(double x) { return x; }
#else
// A warp played by threads, so that tests without a GPU see how lanes share a slot.
struct Team { pthread_barrier_t meeting; double said[LANES]; };
static thread_local Team* team;
static thread_local int own_lane;
FN void lanes_meet() { pthread_barrier_wait(&team->meeting); }
template <class Join> double lanes_joined(double x, Join join) {
  team->said[own_lane] = x;
  lanes_meet();
  double all = team->said[0];
  for (int k = 1; k < LANES; k++) all = join(all, team->said[k]);
  lanes_meet();
  return all;
}
FN double lanes_sum(double x) { return lanes_joined(x, [](double a, double b) { return a + b; }); }
FN double lanes_max(double x) { return lanes_joined(x, [](double a, double b) { return a > b ? a : b; }); }
FN double lanes_min(double x) { return lanes_joined(x, [](double a, double b) { return a < b ? a : b; }); }
FN int count_lanes(bool yes) { return (int)lanes_sum(yes); }
FN bool any_lane(bool yes) { return count_lanes(yes) > 0; }
FN double from_first_lane(double x) { return lanes_joined(x, [](double a, double) { return a; }); }
FN int from_first_lane(int x) { return (int)from_first_lane((double)x); }
#endif
FN double inverse(double x) { return 1.0 / x; }
#endif

FN double absolute(double a) { return a < 0.0 ? -a : a; }
FN double least_of(double a, double b) { return a < b ? a : b; }
FN double most_of(double a, double b) { return a > b ? a : b; }
FN double within(double a, double most) { return least_of(most_of(a, -most), most); }
FN bool is_number(double a) { return a - a == 0.0; }
#define INFINITE of_bits(0x7ff0000000000000LL)

// Sine and cosine of a moderate angle without branches (minimax polynomials on [-pi/4, pi/4]).
FN void sine_cosine(double a, double& s, double& c) {
  double k = floor(a * 0.63661977236758134308 + 0.5);
  double r = (a - k * 1.57079632673412561417) - k * 6.07710050650619224932e-11;
  double z = r * r;
  double ps = -2.50507602534068634195e-08 + z * 1.58969099521155010221e-10;
  ps = 8.33333333332248946124e-03 + z * (-1.98412698298579493134e-04 + z * (2.75573137070700676789e-06 + z * ps));
  ps = r + r * z * (-1.66666666666666324348e-01 + z * ps);
  double pc = 2.08757232129817482790e-09 + z * -1.13596475577881948265e-11;
  pc = -1.38888888888741095749e-03 + z * (2.48015872894767294178e-05 + z * (-2.75573143513906633035e-07 + z * pc));
  pc = 1.0 - 0.5 * z + z * z * (4.16666666666666019037e-02 + z * pc);
  int q = ((int)k) & 3;
  double s1 = (q & 1) ? pc : ps, c1 = (q & 1) ? ps : pc;
  s = (q & 2) ? -s1 : s1;
  c = (q == 1 || q == 2) ? -c1 : c1;
}

// Sum of logarithms as a product with its exponent kept apart: one logarithm for many factors.
struct LogSum { double product; int exponent; };
FN void add_log(LogSum& a, double d) {
  a.product *= d;
  long long bits = bits_of(a.product);
  a.exponent += (int)((bits >> 52) & 0x7ff) - 1023;
  a.product = of_bits((bits & 0x800fffffffffffffLL) | 0x3ff0000000000000LL);
}
FN double log_value(const LogSum& a) { return log(a.product) + a.exponent * 0.69314718055994530942; }
