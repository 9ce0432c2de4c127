// A slot: the memory of one scenario while it is solved. Element e lies at w[e * WIDTH], so that the slots of a tile
// are read together. Net, Batch and Work are declared by Python (layout.py), which also numbers the offsets.
#define AT(offset, i) w[((offset) + (i)) * WIDTH]
#define SCALAR(k) w[(n.o_scalar + (k)) * WIDTH]
// The step arrays exist twice: the Newton step (0) and its second-order correction (1).
#define STEP(offset, set, i) w[((offset) + (set) * n.n_step + (i)) * WIDTH]

// N numbers of a slot that lie behind each other, from an even place on: two at a time where slots are not interleaved.
#if defined(__CUDACC__) && LANES >= 32
template <int N> FN void load_run(const double* w, int at, double* to) {
  const double2* from = reinterpret_cast<const double2*>(w + at);
#pragma unroll
  for (int k = 0; k < N / 2; k++) { double2 two = from[k]; to[2 * k] = two.x; to[2 * k + 1] = two.y; }
}
template <int N> FN void store_run(double* w, int at, const double* from) {
  double2* to = reinterpret_cast<double2*>(w + at);
#pragma unroll
  for (int k = 0; k < N / 2; k++) to[k] = make_double2(from[2 * k], from[2 * k + 1]);
}
#else
template <int N> FN void load_run(const double* w, int at, double* to) {
#pragma unroll
  for (int k = 0; k < N; k++) to[k] = w[(at + k) * WIDTH];
}
template <int N> FN void store_run(double* w, int at, const double* from) {
#pragma unroll
  for (int k = 0; k < N; k++) w[(at + k) * WIDTH] = from[k];
}
#endif
FN void load_softness(const float* soft, int at, double* to) {
#if defined(__CUDACC__) && LANES >= 32
  const float2* from = reinterpret_cast<const float2*>(soft + at);
#pragma unroll
  for (int k = 0; k < 2; k++) { float2 two = from[k]; to[2 * k] = two.x; to[2 * k + 1] = two.y; }
#else
#pragma unroll
  for (int k = 0; k < 4; k++) to[k] = soft[(at + k) * WIDTH];
#endif
}

enum Scalar {
  STATE, SCENARIO, ATTEMPT, ITERATIONS, EARLIER_ITERATIONS, FACTORISATIONS, MU, FREE, SHIFT, LAST_SHIFT, TRIES, SHORT_STEPS,
  RECENT_0, RECENT_1, RECENT_2, RECENT_3, THETA, THETA_LIMIT, PRIMAL, DUAL, LARGEST_PRODUCT_, LEAST_PRODUCT, MEAN_PRODUCT,
  HIGHEST_PRICE, LENGTH, DUAL_LENGTH, SLOPE, PHI, RELATIVE, RESULT, SET, CORRECTIONS, THETA_BEFORE, LENGTH_BEFORE,
  LENGTH_CORRECTED, DUAL_CORRECTED, OUT_0, OUT_1, BEST_PRIMAL, SINCE_BEST, WAITED, NEGATIVE, PREPARED, FILTER_SIZE, FILTER
};
#define FILTER_CAPACITY 16
#define N_SCALARS (FILTER + 2 * FILTER_CAPACITY)

// RUNNING has a new iterate, READY an assembled system; RETRYING waits for one with another shift.
enum State { RUNNING, READY, RETRYING, SEARCHING, CORRECTING, DONE, IDLE, EMPTY };
// How far the system of a READY slot is: a round of few slots asks more than once whether there is something to factor.
enum Prepared { ASSEMBLED, FACTORED, BORDERED };
// HELD is COLD with a held barrier parameter; NEAR keeps a primal point but not its multipliers, AT_POINT only its place; THIN is
// NEAR where the interior is thin, and goes on through short steps.
enum Attempt { COLD, WARM, SOFTENED, AFTER_SOFTENED, HELD, NEAR, NEAR_HELD, AT_POINT, THIN };
FN bool is_held(int attempt) { return attempt == HELD || attempt == NEAR_HELD; }
FN bool from_point(int attempt) { return attempt == WARM || attempt >= NEAR; }
// As in structured/ipm.py, and two more: ROUNDED is feasible and complementary but only nearly stationary, no step improves
// it; UNBALANCED needs power from outside even with soft balances.
enum Result { CONVERGED, ITERATION_LIMIT, SINGULAR, NO_STEP, DIVERGED, STALLED, ROUNDED, UNBALANCED };

struct Outages { int first, second; };
FN Outages outages(const Net& n, const double* w) {
  Outages o;
  o.first = (int)SCALAR(OUT_0);
  o.second = (int)SCALAR(OUT_1);
  return o;
}
FN bool is_out(const Outages& o, int branch) { return branch == o.first || branch == o.second; }

// A dense row: a separable function of all local variables with a bound above (0) and below (1). The first is the cost of
// generation; the second is curved in the demands (a ball) or linear in them (a cut); those that follow are linear in the demands
// (totals that are kept).
enum RowField {
  ROW_ON, ROW_VALUE, ROW_BOUND, ROW_EXISTS = ROW_BOUND + 2, ROW_SLACK = ROW_EXISTS + 2, ROW_LIMIT = ROW_SLACK + 2,
  ROW_DS = ROW_LIMIT + 2, ROW_DL = ROW_DS + 4, ROW_SURPLUS = ROW_DL + 4, ROW_RHO = ROW_SURPLUS + 2, ROW_SCHUR = ROW_RHO + 2,
  ROW_SIZE = ROW_SCHUR + ROWS
};
#define MOST_ROWS (ROWS > 0 ? ROWS : 1)
#define ROW(r, field) w[(n.o_rows + (r) * ROW_SIZE + (field)) * WIDTH]
#define ROW_CURVATURE w[(n.o_rows + ROWS * ROW_SIZE) * WIDTH]
#define UNBOUNDED 1e299

// A local variable (generation, or a demand's deviation from its target): what feeds its bus, its bounds, its share in the
// objective (quadratic, linear), in the Lagrangian without prices and bounds (curvature, slope), in the dense rows. It is
// fixed where the bounds meet.
struct Local {
  double sign, low, high, quadratic, linear, curvature, slope, row_quadratic[MOST_ROWS], row_linear[MOST_ROWS];
  int row;
  bool is_free, has_low, has_high;
};
#define OWN_SIZE (ROWS > 0 ? 3 + ROWS : 4)
FN Local local_at(const Net& n, const double* w, int k) {
  Local v;
  v.sign = 1.0;
  v.row = constant(n.local_row + k);
#if ROWS > 0
  v.sign = constant(n.local_sign + k);
  v.low = AT(n.o_own, k); v.high = AT(n.o_own, n.n_local + k);
  v.quadratic = AT(n.o_own, 2 * n.n_local + k); v.linear = AT(n.o_own, 3 * n.n_local + k);
  v.row_quadratic[0] = constant(n.local + 4 * k + 2); v.row_linear[0] = constant(n.local + 4 * k + 3);
#pragma unroll
  for (int r = 1; r < ROWS; r++) {
    v.row_quadratic[r] = r == 1 && v.sign < 0.0 ? ROW_CURVATURE : 0.0;
    v.row_linear[r] = AT(n.o_own, (3 + r) * n.n_local + k);
  }
  v.curvature = v.quadratic; v.slope = v.linear;
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    double on = ROW(r, ROW_ON), weight = ROW(r, ROW_LIMIT) - ROW(r, ROW_LIMIT + 1);
    v.row_quadratic[r] *= on; v.row_linear[r] *= on;
    v.curvature += weight * v.row_quadratic[r]; v.slope += weight * v.row_linear[r];
  }
  v.has_low = v.low > -UNBOUNDED; v.has_high = v.high < UNBOUNDED; v.is_free = v.high > v.low;
  return v;
#endif
  if (n.varied) {
    v.low = AT(n.o_own, k); v.high = AT(n.o_own, n.n_local + k);
    v.quadratic = AT(n.o_own, 2 * n.n_local + k); v.linear = AT(n.o_own, 3 * n.n_local + k);
  } else {
    const double* c = n.local + 4 * k;
    v.low = constant(c); v.high = constant(c + 1); v.quadratic = constant(c + 2); v.linear = constant(c + 3);
  }
  v.curvature = v.quadratic; v.slope = v.linear;
  v.is_free = v.high > v.low; v.has_low = v.has_high = true;
  return v;
}
FN double row_gradient(const Local& v, int r, double u) { return v.row_quadratic[r] * u + v.row_linear[r]; }
FN double local_pivot(const Local& v, double z_low, double z_high, double u, double shift) {
  double p = v.curvature + z_low * inverse(u - v.low) + z_high * inverse(v.high - u) + shift;
  return absolute(p) < LEAST_PIVOT ? LEAST_PIVOT : p;
}

// Flows of a branch with their derivatives by (angle, vf, vt), the gradients of its flow limits, and all its limits.
template <class T> struct BranchOf {
  T pf, qf, pt, qt, pfa, pff, pft, qfa, qff, qft, pta, ptf, ptt, qta, qtf, qtt;
  T lfa, lff, lft, lta, ltf, ltt, hf, ht, hu, hl, cs, sn;
};
using Branch = BranchOf<double>;
// One branch's constants: 12 flow coefficients (own, cos, sin of Pf, Qf, Pt, Qt), rate², scale, angle high and low, 1/|y|.
#define BRANCH_SIZE 17
FN double coefficient(const double* c, int i) { return constant(c + i); }
#define C(i) coefficient(c, i)
template <class K, class T>
FN void flow_with_gradient(const K& c, int k, T own, T other, T cs, T sn, T& f, T& by_a, T& by_own, T& by_other) {
  T e = C(k + 1) * cs + C(k + 2) * sn, o = C(k + 2) * cs - C(k + 1) * sn;
  f = C(k) * own * own + own * other * e;
  by_a = own * other * o;
  by_own = 2.0 * C(k) * own + other * e;
  by_other = own * e;
}
template <class K, class T> FN void evaluate_branch(const K& c, T vf, T vt, T angle, BranchOf<T>& b) {
  sine_cosine(angle, b.sn, b.cs);
  flow_with_gradient(c, 0, vf, vt, b.cs, b.sn, b.pf, b.pfa, b.pff, b.pft);
  flow_with_gradient(c, 3, vf, vt, b.cs, b.sn, b.qf, b.qfa, b.qff, b.qft);
  flow_with_gradient(c, 6, vt, vf, b.cs, b.sn, b.pt, b.pta, b.ptt, b.ptf);
  flow_with_gradient(c, 9, vt, vf, b.cs, b.sn, b.qt, b.qta, b.qtt, b.qtf);
  T twice = 2.0 * C(13);
  b.lfa = twice * (b.pf * b.pfa + b.qf * b.qfa); b.lff = twice * (b.pf * b.pff + b.qf * b.qff);
  b.lft = twice * (b.pf * b.pft + b.qf * b.qft); b.lta = twice * (b.pt * b.pta + b.qt * b.qta);
  b.ltf = twice * (b.pt * b.ptf + b.qt * b.qtf); b.ltt = twice * (b.pt * b.ptt + b.qt * b.qtt);
  b.hf = C(13) * (b.pf * b.pf + b.qf * b.qf - C(12));
  b.ht = C(13) * (b.pt * b.pt + b.qt * b.qt - C(12));
  b.hu = angle - C(14);
  b.hl = C(15) - angle;
}
// The flow into one end alone, of which c are the coefficients, and the limits at this end.
template <class K, class T> FN void end_flow(const K& c, T own, T other, T cs, T sn, T& p, T& q) {
  T product = own * other;
  p = C(0) * own * own + product * (C(1) * cs + C(2) * sn);
  q = C(3) * own * own + product * (C(4) * cs + C(5) * sn);
}

// Multipliers, slacks and capped stiffness of a branch's four limits; those that do not exist have slack 1, multiplier 0.
template <class T> struct LimitsOf { T l[4], s[4], k[4], softness[4]; };
using Limits = LimitsOf<double>;
template <class T> FN T capped(T multiplier, T slack, T softness) {
  return multiplier * inverse(slack + softness * multiplier);
}
FN void load_limits(const Net& n, const double* w, const float* soft, int b, Limits& m) {
  load_run<4>(w, n.o_limit + 4 * b, m.l);
  load_run<4>(w, n.o_slack + 4 * b, m.s);
  load_softness(soft, 4 * b, m.softness);
}
template <class K, class T> FN void find_stiffness(const K& c, const BranchOf<T>& b, LimitsOf<T>& m) {
  m.softness[0] *= (b.lfa * b.lfa + b.lff * b.lff + b.lft * b.lft) * C(16);
  m.softness[1] *= (b.lta * b.lta + b.ltf * b.ltf + b.ltt * b.ltt) * C(16);
  m.softness[2] *= C(16);
  m.softness[3] *= C(16);
#pragma unroll
  for (int e = 0; e < 4; e++) m.k[e] = capped(m.l[e], m.s[e], m.softness[e]);
}
// One end of a branch as its bus sees it: the branch, whether this is its to end, the far bus, the block they share.
struct End { int branch, is_to, far, block, is_first, flags; const double* c; };
FN End end_at(const Net& n, const Outages& out, int q) {
  End e;
  int code = constant(n.end + 3 * q), block = constant(n.end + 3 * q + 2);
  e.branch = code >> 1; e.is_to = code & 1; e.far = constant(n.end + 3 * q + 1);
  e.block = block >> 1; e.is_first = block & 1;
  e.flags = is_out(out, e.branch) ? 0 : constant(n.branch_flag + e.branch);
  e.c = n.branch + BRANCH_SIZE * e.branch;
  return e;
}
// The q-th bus in loops over branch ends: where lanes take buses side by side, those with as many ends come together.
FN int bus_at(const Net& n, int q) { return SPLIT == 1 ? q : constant(n.by_ends + q); }
// One bus's constants: shunt of P and Q, v high, v low, 1/|y|.
#define BUS_SIZE 5
#define V(i) constant(n.bus + BUS_SIZE * i_bus + (i))

FN void clear_filter(const Net& n, double* w) { SCALAR(FILTER_SIZE) = 0.0; }
FN double tolerance_of(const Net& n, const double* w) {
  return (int)SCALAR(ATTEMPT) == SOFTENED ? SOFT_TOLERANCE : n.tolerance;
}
FN void hold_barrier(const Net& n, double* w, double mean) {
  clear_filter(n, w);
  SCALAR(MU) = most_of(LEAST_MU * tolerance_of(n, w), HELD_START * mean);
  SCALAR(FREE) = 0.0;
}
FN void finish(const Net& n, double* w, int result) { SCALAR(STATE) = DONE; SCALAR(RESULT) = result; }
