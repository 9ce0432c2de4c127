// What differs between NVRTC and g++. LANES threads work on one scenario; a tile of WIDTH slots shares a warp. Where a slot has
// more lanes than a warp, it has a block to itself, and its lanes form teams of a warp each. On a CPU both are 1 and every
// helper below is the identity, except in tests.
#ifndef TEAM
#define TEAM (LANES < 32 ? LANES : 32)
#endif
#define TEAMS (LANES / TEAM)
// SPLIT lanes share a 4×4 block, each with OWN_ROWS rows of it: where a slot has a warp or more, blocks of its lanes would lie
// too far apart to be read together.
#ifndef SPLIT
#define SPLIT (LANES < 32 ? 1 : 4)
#endif
#define OWN_ROWS (4 / SPLIT)
#ifdef __CUDACC__
#define FN __device__ __forceinline__
#define FN_APART __device__ __noinline__
#define WIDTH (32 / TEAM)
#define TILE_THREADS (32 * TEAMS)
#define ALL_LANES 0xffffffffu
FN long long bits_of(double x) { return __double_as_longlong(x); }
FN double of_bits(long long x) { return __longlong_as_double(x); }
FN int take_one(int* counter) { return atomicAdd(counter, 1); }
FN bool take_this(int* counter, int at) { return atomicCAS(counter, at, at + 1) == at; }
FN double constant(const double* p) { return __ldg(p); }
FN int constant(const int* p) { return __ldg(p); }
FN double team_sum(double x) {
  for (int d = WIDTH; d < 32; d *= 2) x += __shfl_xor_sync(ALL_LANES, x, d);
  return x;
}
// Over the lanes of a team that have the same rows.
FN double crews_sum(double x) {
  for (int d = SPLIT * WIDTH; d < 32; d *= 2) x += __shfl_xor_sync(ALL_LANES, x, d);
  return x;
}
#if SPLIT > 1
FN void whole_vector(const double* own, double* whole) {
  int first = threadIdx.x & (32 - SPLIT);
#pragma unroll
  for (int e = 0; e < 4; e++) whole[e] = __shfl_sync(0xfu << first, own[0], first + e);
}
#endif
FN double team_max(double x) {
  for (int d = WIDTH; d < 32; d *= 2) { double y = __shfl_xor_sync(ALL_LANES, x, d); x = x > y ? x : y; }
  return x;
}
FN double team_min(double x) {
  for (int d = WIDTH; d < 32; d *= 2) { double y = __shfl_xor_sync(ALL_LANES, x, d); x = x < y ? x : y; }
  return x;
}
#if TEAMS == 1
FN bool any_lane(bool yes) { return __any_sync(ALL_LANES, yes); }
FN int count_lanes(bool yes) { return __popc(__ballot_sync(ALL_LANES, yes)); }
FN double lanes_sum(double x) { return team_sum(x); }
FN double lanes_max(double x) { return team_max(x); }
FN double lanes_min(double x) { return team_min(x); }
#else
FN bool any_lane(bool yes) { return __syncthreads_or(yes); }
FN int count_lanes(bool yes) { return __syncthreads_count(yes); }
template <class Join> FN double teams_joined(double x, Join join) {
  __shared__ double said[TEAMS];
  if (threadIdx.x % 32 == 0) said[threadIdx.x / 32] = x;
  __syncthreads();
  double all = said[0];
  for (int k = 1; k < TEAMS; k++) all = join(all, said[k]);
  __syncthreads();
  return all;
}
FN double lanes_sum(double x) { return teams_joined(team_sum(x), [](double a, double b) { return a + b; }); }
FN double lanes_max(double x) { return teams_joined(team_max(x), [](double a, double b) { return a > b ? a : b; }); }
FN double lanes_min(double x) { return teams_joined(team_min(x), [](double a, double b) { return a < b ? a : b; }); }
#endif
#if LANES == 1
FN void lanes_meet() {}
FN int from_first_lane(int x) { return x; }
FN double from_first_lane(double x) { return x; }
#elif TEAMS == 1
FN void lanes_meet() { __syncwarp(); }
FN int from_first_lane(int x) { return __shfl_sync(ALL_LANES, x, threadIdx.x & (WIDTH - 1)); }
FN double from_first_lane(double x) { return __shfl_sync(ALL_LANES, x, threadIdx.x & (WIDTH - 1)); }
#else
FN void lanes_meet() { __syncthreads(); }
FN double from_first_lane(double x) {
  __shared__ double said;
  if (threadIdx.x == 0) said = x;
  __syncthreads();
  x = said;
  __syncthreads();
  return x;
}
FN int from_first_lane(int x) { return (int)from_first_lane((double)x); }
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
FN bool take_this(int* counter, int at) {
  return __atomic_compare_exchange_n(counter, &at, at + 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
FN double constant(const double* p) { return *p; }
FN int constant(const int* p) { return *p; }
#if LANES == 1
FN bool any_lane(bool yes) { return yes; }
FN int count_lanes(bool yes) { return yes; }
FN void lanes_meet() {}
FN double lanes_sum(double x) { return x; }
FN double lanes_max(double x) { return x; }
FN double lanes_min(double x) { return x; }
FN double crews_sum(double x) { return x; }
FN int from_first_lane(int x) { return x; }
FN double from_first_lane(double x) { return x; }
#else
// A warp, or a block of them, played by threads, so that tests without a GPU see how lanes share a slot.
struct Party { pthread_barrier_t meeting; double said[LANES]; };
static thread_local Party *everyone, *team, *crew;
static thread_local int own_lane;
FN void meet(Party* party) { pthread_barrier_wait(&party->meeting); }
FN void lanes_meet() { meet(everyone); }
template <class Join> double joined(Party* party, int own, int size, double x, Join join) {
  party->said[own] = x;
  meet(party);
  double all = party->said[0];
  for (int k = 1; k < size; k++) all = join(all, party->said[k]);
  meet(party);
  return all;
}
template <class Join> double lanes_joined(double x, Join join) { return joined(everyone, own_lane, LANES, x, join); }
FN double crews_sum(double x) {
  team->said[own_lane % TEAM] = x;
  meet(team);
  double all = 0.0;
  for (int k = own_lane % SPLIT; k < TEAM; k += SPLIT) all += team->said[k];
  meet(team);
  return all;
}
#if SPLIT > 1
FN void whole_vector(const double* own, double* whole) {
  crew->said[own_lane % SPLIT] = own[0];
  meet(crew);
  for (int e = 0; e < 4; e++) whole[e] = crew->said[e];
  meet(crew);
}
#endif
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

// Where a processor works on a slot with one lane, it evaluates branches side by side in vectors (WIDE).
#if !defined(WIDE) || defined(__clang__)  // whose vectors lack some of GCC's operators
#undef WIDE
#define WIDE 0
#endif
#if WIDE
#ifdef __AVX512F__
#define SIDE 8
#define EACH(f) Reals{f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7)}
#else
#define SIDE 4
#define EACH(f) Reals{f(0), f(1), f(2), f(3)}
#endif
typedef double Reals __attribute__((vector_size(8 * SIDE)));
typedef decltype(Reals{} < Reals{}) Longs;  // whole numbers as wide, which comparisons give
FN Reals all(double x) { return Reals{} + x; }
FN Longs bits_of(Reals x) { return (Longs)x; }
FN Reals of_bits(Longs x) { return (Reals)x; }
FN Reals inverse(Reals x) { return 1.0 / x; }
FN Reals coefficient(const Reals* c, int i) { return c[i]; }
#endif

#if SPLIT == 1
FN void whole_vector(const double* own, double* whole) {
#pragma unroll
  for (int e = 0; e < 4; e++) whole[e] = own[e];
}
#endif

// The next number below a limit, or -1.
FN int take_below(int* counter, int limit) {
  for (;;) {
    int at = *(volatile int*)counter;
    if (at >= limit) return -1;
    if (take_this(counter, at)) return at;
  }
}
// What is written for a type T serves doubles, and on a processor vectors of them (wide.cuh).
template <class T> FN T absolute(T a) { return a < 0.0 ? -a : a; }
template <class T> FN T least_of(T a, T b) { return a < b ? a : b; }
template <class T> FN T most_of(T a, T b) { return a > b ? a : b; }
template <class T> FN T within(T a, T most) { return least_of(most_of(a, -most), most); }
#if WIDE
FN double sum_in(Reals x) { double all = 0.0; for (int k = 0; k < SIDE; k++) all += x[k]; return all; }
FN double most_in(Reals x) { double most = x[0]; for (int k = 1; k < SIDE; k++) most = most_of(most, (double)x[k]); return most; }
FN double least_in(Reals x) { double least = x[0]; for (int k = 1; k < SIDE; k++) least = least_of(least, (double)x[k]); return least; }
FN bool any_in(Longs x) { long long any = 0; for (int k = 0; k < SIDE; k++) any |= x[k]; return any != 0; }
#endif
FN bool is_number(double a) { return a - a == 0.0; }
#define INFINITE of_bits(0x7ff0000000000000LL)

// Sine and cosine of a moderate angle without branches (minimax polynomials on [-pi/4, pi/4]).
template <class T> FN void near_quarter_turn(T a, T k, T& ps, T& pc) {
  T r = (a - k * 1.57079632673412561417) - k * 6.07710050650619224932e-11;
  T z = r * r;
  ps = -2.50507602534068634195e-08 + z * 1.58969099521155010221e-10;
  ps = 8.33333333332248946124e-03 + z * (-1.98412698298579493134e-04 + z * (2.75573137070700676789e-06 + z * ps));
  ps = r + r * z * (-1.66666666666666324348e-01 + z * ps);
  pc = 2.08757232129817482790e-09 + z * -1.13596475577881948265e-11;
  pc = -1.38888888888741095749e-03 + z * (2.48015872894767294178e-05 + z * (-2.75573143513906633035e-07 + z * pc));
  pc = 1.0 - 0.5 * z + z * z * (4.16666666666666019037e-02 + z * pc);
}
FN void sine_cosine(double a, double& s, double& c) {
  double k = floor(a * 0.63661977236758134308 + 0.5), ps, pc;
  near_quarter_turn(a, k, ps, pc);
  int q = ((int)k) & 3;
  double s1 = (q & 1) ? pc : ps, c1 = (q & 1) ? ps : pc;
  s = (q & 2) ? -s1 : s1;
  c = (q == 1 || q == 2) ? -c1 : c1;
}

#if WIDE
FN void sine_cosine(Reals a, Reals& s, Reals& c) {
  const double whole = 6755399441055744.0;  // 1.5 · 2^52: a sum with it ends in the nearest whole number
  Reals turned = a * 0.63661977236758134308 + whole, ps, pc;
  near_quarter_turn(a, turned - whole, ps, pc);
  Longs q = bits_of(turned), odd = (q & 1) != 0;
  Reals s1 = odd ? pc : ps, c1 = odd ? ps : pc;
  s = (q & 2) != 0 ? -s1 : s1;
  c = ((q + 1) & 2) != 0 ? -c1 : c1;
}
#endif

// Sum of logarithms as a product with its exponent kept apart: one logarithm for many factors.
template <class T, class I> struct LogSumOf { T product; I exponent; };
using LogSum = LogSumOf<double, int>;
template <class T, class I> FN void add_log(LogSumOf<T, I>& a, T d) {
  a.product *= d;
  auto bits = bits_of(a.product);
  a.exponent += (I)((bits >> 52) & 0x7ff) - 1023;
  a.product = of_bits((bits & (long long)0x800fffffffffffffLL) | 0x3ff0000000000000LL);
}
FN double log_value(const LogSum& a) { return log(a.product) + a.exponent * 0.69314718055994530942; }
