// Branches side by side in vectors, where a slot has one lane: on a processor. Every branch is evaluated once, and reaches the
// buses at both its ends; elsewhere each bus evaluates its branches, so that no two lanes write to one place.
#if WIDE
using LogSums = LogSumOf<Reals, Longs>;
FN void join(LogSum& to, const LogSums& from) {
  for (int k = 0; k < SIDE; k++) { add_log(to, (double)from.product[k]); to.exponent += (int)from.exponent[k]; }
}

// Branches from the first on. Those after the last one of the network repeat it; they and branches that are out are not alive,
// have no limits and reach nobody.
struct Group { int branch[SIDE], from[SIDE], to[SIDE]; bool alive[SIDE]; Longs exists[4]; };
FN Group group_at(const Net& n, const Outages& out, int first) {
  Group g;
  Longs flags;
  for (int k = 0; k < SIDE; k++) {
    int b = first + k < n.n_branch ? first + k : n.n_branch - 1;
    g.branch[k] = b; g.from[k] = n.branch_end[3 * b]; g.to[k] = n.branch_end[3 * b + 1];
    g.alive[k] = first + k < n.n_branch && !is_out(out, b);
    flags[k] = g.alive[k] ? n.branch_flag[b] : 0;
  }
  for (int e = 0; e < 4; e++) g.exists[e] = (flags >> e & 1) != 0;
  return g;
}
FN void load_coefficients(const Net& n, const Group& g, Reals* c) {
#define OF_BRANCH(k) n.branch[BRANCH_SIZE * g.branch[k] + i]
  for (int i = 0; i < BRANCH_SIZE; i++) c[i] = EACH(OF_BRANCH);
#undef OF_BRANCH
}
// Entry e of the rows of four that all branches, or buses, have at an offset.
FN Reals rows_of_four(const double* w, int at, const int* row, int e) {
#define OF_ROW(k) w[at + 4 * row[k] + e]
  return EACH(OF_ROW);
#undef OF_ROW
}
FN void store_rows_of_four(double* w, int at, const Group& g, const Reals* value) {
  for (int k = 0; k < SIDE; k++)
    if (g.alive[k])
      for (int e = 0; e < 4; e++) w[at + 4 * g.branch[k] + e] = value[e][k];
}
FN void load_limits(const Net& n, const double* w, const float* soft, const Group& g, LimitsOf<Reals>& m) {
#define OF_LIMIT(k) (double)soft[4 * g.branch[k] + e]
  for (int e = 0; e < 4; e++) {
    m.l[e] = rows_of_four(w, n.o_limit, g.branch, e);
    m.s[e] = rows_of_four(w, n.o_slack, g.branch, e);
    m.softness[e] = EACH(OF_LIMIT);
  }
#undef OF_LIMIT
}

// What branches add to buses: an S of doubles for each bus, written by one phase and read by the same.
template <class S> static S* of_buses(int n_bus) {
  static thread_local std::vector<S> kept;
  if ((int)kept.size() < n_bus) kept.resize(n_bus);
  return kept.data();
}
template <class S> FN S* nothing_yet(int n_bus) {
  S* sums = of_buses<S>(n_bus);
  std::memset((void*)sums, 0, sizeof(S) * n_bus);
  return sums;
}
template <class S> FN void reach(S* sums, const Group& g, const int* bus, const Reals* parts) {
  for (int k = 0; k < SIDE; k++) {
    if (!g.alive[k]) continue;
    double* sum = reinterpret_cast<double*>(sums + bus[k]);
    for (unsigned e = 0; e < sizeof(S) / sizeof(double); e++) sum[e] += parts[e][k];
  }
}

FN Reals widened(Reals s, Reals h, Reals multiplier, double mu) {
  Reals r = h + s;
  return (r < 0.0) & (multiplier * (s - r) <= WIDEST_PRODUCT * mu) ? s - r : s;
}

struct Push { double g0, g1; };
struct Flow { double p, q; };
struct Residual { double r0, r1, r2, r3; };
FN void add_pushes(int i, double& g0, double& g1) {
  const Push& own = of_buses<Push>(i)[i];
  g0 += own.g0; g1 += own.g1;
}
FN void add_flows(int i, double& p, double& q) {
  const Flow& own = of_buses<Flow>(i)[i];
  p += own.p; q += own.q;
}
FN void add_residuals(int i, double& r0, double& r1, double& r2, double& r3) {
  const Residual& own = of_buses<Residual>(i)[i];
  r0 += own.r0; r1 += own.r1; r2 += own.r2; r3 += own.r3;
}
#define BRANCHES(name, ...) static void name(__VA_ARGS__);
#else
FN void add_pushes(int i, double& g0, double& g1) {}
FN void add_flows(int i, double& p, double& q) {}
FN void add_residuals(int i, double& r0, double& r1, double& r2, double& r3) {}
#define BRANCHES(name, ...) FN void name(__VA_ARGS__) {}
#endif
struct Error;
struct Predictor;
struct Recovery;
struct Trial;
template <class T> struct LengthsOf { T primal, dual; };
using Lengths = LengthsOf<double>;
BRANCHES(assemble_branches, const Net& n, double* w, const float* soft, const Outages& out, Error& m)
BRANCHES(predict_branches, const Net& n, double* w, const float* soft, const Outages& out, double most, Predictor& p)
BRANCHES(surplus_branches, const Net& n, double* w, const Outages& out, int set, double length, double mu, bool first)
BRANCHES(push_branches, const Net& n, const double* w, const float* soft, const Outages& out)
BRANCHES(correct_branches, const Net& n, double* w, const float* soft, const Outages& out, double fraction, Lengths& a)
BRANCHES(refine_branches, const Net& n, const double* w, const float* soft, const Outages& out)
BRANCHES(recover_branches, const Net& n, double* w, float* soft, const Outages& out, bool reset, double most_product,
         bool is_free, double most_left, Recovery& r)
BRANCHES(try_branches, const Net& n, const double* w, const Outages& out, int set, double length, double mu, Trial& t)
BRANCHES(move_branches, const Net& n, double* w, const Outages& out, int set, double length, double dual, double mu)
