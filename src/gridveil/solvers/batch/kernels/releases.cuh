// What releases in rows do with points between two solves, in the memory where these lie: each row has PLACES places for
// points, and the arrays of its two streams. A row that an operation is asked for has WIDE numbers of its own (``asked``) and gets
// ANSWERED numbers back. The structures are declared by Python (row_kernels.py); settings are those of the structured solver.
// LANES threads of a GPU work on a row together, or one of a CPU.
#ifdef __CUDACC__
#define HERE __device__ __forceinline__
#else
#include <cmath>
#include <thread>
#include <vector>
#define HERE static inline
#define LANES 1
using std::sqrt;
#endif

HERE double size(double a) { return a < 0.0 ? -a : a; }
HERE double larger(double a, double b) { return a > b ? a : b; }
HERE double smaller(double a, double b) { return a < b ? a : b; }
#ifdef __CUDACC__
template <class Join> HERE double joined(double mine, Join join) {
  __shared__ double said[LANES];
  said[threadIdx.x] = mine;
  for (int half = LANES / 2; half > 0; half /= 2) {
    __syncthreads();
    if ((int)threadIdx.x < half) said[threadIdx.x] = join(said[threadIdx.x], said[threadIdx.x + half]);
  }
  __syncthreads();
  double all = said[0];
  __syncthreads();
  return all;
}
HERE double sum_of_lanes(double mine) { return joined(mine, [](double a, double b) { return a + b; }); }
HERE double largest_of_lanes(double mine) { return joined(mine, [](double a, double b) { return a > b ? a : b; }); }
#else
HERE double sum_of_lanes(double mine) { return mine; }
HERE double largest_of_lanes(double mine) { return mine; }
#endif
#define EACH(i, count) for (int i = lane; i < (count); i += LANES)

// A place for a point: the joint point, O at its demands, the demands themselves and their prices, the demands of O, scales.
struct Place { double *raw, *follower, *demand, *prices, *follower_demand, *scales; };
enum Scales { OF_ROW, OF_OBJECTIVE };
HERE Place place_of(const RowNet& n, const RowState& s, long long row, int place) {
  double* at = s.places + (PLACES * row + place) * (n.n_joint + n.n_dispatch + 3LL * n.n_demand + 2);
  Place p;
  p.raw = at; at += n.n_joint;
  p.follower = at; at += n.n_dispatch;
  p.demand = at; at += n.n_demand;
  p.prices = at; at += n.n_demand;
  p.follower_demand = at; at += n.n_demand;
  p.scales = at;
  return p;
}
// The multipliers of a point by a factor, its variables as they are.
HERE double of_point(int n_bus, int n_local, const double* point, int i, double factor) {
  bool variable = i < 4 * n_bus ? i % 4 < 2 : i < 4 * n_bus + n_local;
  return variable ? point[i] : factor * point[i];
}
HERE double clipped(double bound) { return smaller(larger(bound, -UNBOUNDED), UNBOUNDED); }

// A joint problem: where it starts and what it asks for.
enum Kind { NEAREST, CUT, PUSH };
enum AskedJoint { J_ROW, J_KIND, J_FROM, J_BASE, J_WARM, J_SAME_ROW, J_COLD, J_LOW, J_HIGH, J_MISSING, J_STEEPNESS, J_DELTA, J_START };
#define OF_TASK 5  // kind, cost low and high, δ, least value of the cut
HERE void begin_joint(const RowNet& n, const RowState& s, const double* a, double*, int lane) {
  long long row = (long long)a[J_ROW];
  int kind = (int)a[J_KIND], half = n.n_demand / 2;
  Place from = place_of(n, s, row, (int)a[J_FROM]), base = place_of(n, s, row, (int)a[J_BASE]);
  const double* target = s.noisy + row * n.n_demand;
  double *normal = s.normal + row * n.n_demand, *task = s.task + OF_TASK * row, *rows = s.rows + 5 * row;
  double farthest = 0.0, steepest = 0.0, reached = 0.0, ahead = 0.0;
  EACH(d, n.n_demand) {
    double weight = kind == CUT ? base.prices[d] / a[J_STEEPNESS] : 0.0;
    normal[d] = weight;
    farthest = larger(farthest, size(target[d]));
    steepest = larger(steepest, size(weight));
    reached += weight * base.demand[d];
    ahead += weight * target[d];
    (d < half ? s.joint_p[row * half + d] : s.joint_q[row * half + d - half]) = target[d];
  }
  farthest = largest_of_lanes(farthest); steepest = largest_of_lanes(steepest);
  double least = kind == CUT ? sum_of_lanes(reached) + a[J_MISSING] / a[J_STEEPNESS] : 0.0;
  ahead = sum_of_lanes(ahead);
  double scale = kind == PUSH ? 1.0 : smaller(DISTANCE_SCALE, DISTANCE_GRADIENT / larger(2.0 * farthest, 1.0)), row_scale = 1.0;
  if (kind == PUSH) row_scale = 0.5 / sqrt(larger(a[J_DELTA], LEAST_RADIUS_SQUARED));
  if (kind == CUT) row_scale = 1.0 / larger(steepest, LEAST_WEIGHT);
  double* local = s.local + row * 5 * n.n_local;
  EACH(k, n.n_local) {
    local[k] = n.bounds[k]; local[n.n_local + k] = n.bounds[n.n_local + k];
    local[2 * n.n_local + k] = local[3 * n.n_local + k] = local[4 * n.n_local + k] = 0.0;
  }
#ifdef __CUDACC__
  __syncthreads();
#endif
  EACH(d, n.n_demand) {
    int k = n.demand_at[d];
    double low = -UNBOUNDED, high = UNBOUNDED;
    if (n.low != nullptr) {
      low = n.low[d] - target[d]; high = n.high[d] - target[d];
      bool fixed = high - low <= FIXED_WIDTH;
      double middle = 0.5 * (low + high);
      low = clipped(fixed ? middle : low - RELAXATION * larger(1.0, size(low)));
      high = clipped(fixed ? middle : high + RELAXATION * larger(1.0, size(high)));
    }
    local[k] = low; local[n.n_local + k] = high;
    local[2 * n.n_local + k] = kind == PUSH ? 0.0 : 2.0 * scale;
    local[3 * n.n_local + k] = kind == PUSH && d < half ? -1.0 : 0.0;
    local[4 * n.n_local + k] = normal[d] * row_scale;
  }
  if (a[J_COLD] == 0.0) {
    double* to = s.joint_from + row * n.n_joint;
    double of_last = a[J_SAME_ROW] != 0.0 ? from.scales[OF_ROW] / row_scale : 0.0;
    EACH(i, n.n_joint) to[i] = of_point(n.n_bus, n.n_local, from.raw, i, i < n.n_joint - 2 ? a[J_WARM] : a[J_WARM] * of_last);
  }
  if (lane != 0) return;
  for (int k = 0; k < 6; k++) s.joint_start[6 * row + k] = a[J_START + k];
  task[0] = kind; task[1] = a[J_LOW]; task[2] = a[J_HIGH]; task[3] = a[J_DELTA]; task[4] = least;
  rows[0] = clipped((a[J_HIGH] - n.constant) * n.joint_scale); rows[1] = clipped((a[J_LOW] - n.constant) * n.joint_scale);
  rows[2] = kind == PUSH ? a[J_DELTA] * row_scale : UNBOUNDED;
  rows[3] = kind == CUT ? (least - ahead) * row_scale : -UNBOUNDED;
  rows[4] = kind == PUSH ? 2.0 * row_scale : 0.0;
  s.scale[row] = scale; s.row_scale[2 * row] = n.joint_scale; s.row_scale[2 * row + 1] = row_scale;
}

// Keep the point of a joint problem; one that is no farther from d̃ than a row says becomes d̃.
enum AskedKept { K_ROW, K_PLACE, K_OTHER };  // the last: that distance, or of dispatches the place to compare with
enum ToldOfJoint { DISTANCE, PROXY, TOTAL };
HERE void keep_joint(const RowNet& n, const RowState& s, const double* a, double* told, int lane) {
  long long row = (long long)a[K_ROW];
  int half = n.n_demand / 2;
  Place to = place_of(n, s, row, (int)a[K_PLACE]);
  const double *found = s.joint_found + row * n.n_joint, *target = s.noisy + row * n.n_demand;
  double distance = 0.0, proxy = 0.0, total = 0.0;
  EACH(d, n.n_demand) {
    double demand = target[d] + found[4 * n.n_bus + n.demand_at[d]], away = demand - target[d];
    distance += away * away;
  }
  distance = sum_of_lanes(distance);
  bool at_noisy = distance <= a[K_OTHER];
  EACH(d, n.n_demand) {
    double demand = at_noisy ? target[d] : target[d] + found[4 * n.n_bus + n.demand_at[d]];
    to.demand[d] = demand;
    if (d < half) proxy += demand;
    total += size(demand);
  }
  EACH(i, n.n_joint) to.raw[i] = found[i];
  proxy = sum_of_lanes(proxy); total = sum_of_lanes(total);
  if (lane != 0) return;
  to.scales[OF_ROW] = s.task[OF_TASK * row] == NEAREST ? 0.0 : s.row_scale[2 * row + 1];
  to.scales[OF_OBJECTIVE] = s.scale[row];
  told[DISTANCE] = distance; told[PROXY] = proxy; told[TOTAL] = total;
}

// A dispatch at the demands of a point. As structured.backend.warmest says: with the point's own multipliers, or those of the last
// dispatch; n.choices are the starts by rank, and the two of the first.
enum AskedDispatch { D_ROW, D_FROM, D_LAST, D_HAS_LAST, D_RANK };
enum Choices { FIRST_WARM = 7 };  // the first seven by StartRank, whose FIRST is without multipliers
HERE void begin_dispatch(const RowNet& n, const RowState& s, const double* a, double*, int lane) {
  long long row = (long long)a[D_ROW];
  int half = n.n_demand / 2, rank = (int)a[D_RANK], tail = 4 * n.n_bus + 3 * n.n_dispatch_local;
  Place from = place_of(n, s, row, (int)a[D_FROM]), last = place_of(n, s, row, (int)a[D_LAST]);
  double moved = 0.0;
  EACH(d, n.n_demand) {
    moved = larger(moved, size(from.demand[d] - last.follower_demand[d]));
    (d < half ? s.dispatch_p[row * half + d] : s.dispatch_q[row * half + d - half]) = from.demand[d];
  }
  moved = largest_of_lanes(moved);
  double weight = (from.raw[n.n_joint - 4] - from.raw[n.n_joint - 3]) * n.joint_scale / from.scales[OF_OBJECTIVE];
  bool first = rank == 0, has_last = a[D_HAS_LAST] != 0.0, priced = weight * n.steepest > LEAST_COST_WEIGHT;
  bool staying = first && has_last && moved < NEARBY, of_last = first && has_last && !priced && !staying;
  bool own = first && priced && !staying;
  double factor = own ? n.dispatch_scale / (from.scales[OF_OBJECTIVE] * weight) : 0.0, *to = s.dispatch_from + row * n.n_dispatch;
  EACH(i, n.n_dispatch) {
    int k = i - 4 * n.n_bus, which = k / n.n_dispatch_local;
    int j = k < 0 ? i : i < tail ? 4 * n.n_bus + which * n.n_local + n.generation[k % n.n_dispatch_local]
                                 : i - tail + 4 * n.n_bus + 3 * n.n_local;
    bool variable = k < 0 ? i % 4 < 2 : k < n.n_dispatch_local;
    double value = variable ? from.raw[j] : factor * from.raw[j];
    to[i] = staying || (of_last && !variable) ? last.follower[i] : value;
  }
  int chosen = own || of_last || staying ? FIRST_WARM : rank;
  EACH(k, 6) s.dispatch_start[6 * row + k] = n.choices[6 * chosen + k];
}

// Keep O at the demands of a point; how steep its prices are, and how far they have turned from those of another place.
enum ToldOfDispatch { STEEPNESS, TURNED };
HERE double price_at(const RowNet& n, const double* found, int d) {
  int half = n.n_demand / 2;
  return found[d < half ? n.load_at[d] + 2 : n.load_at[d - half] + 3] / n.dispatch_scale;
}
HERE void keep_dispatch(const RowNet& n, const RowState& s, const double* a, double* told, int lane) {
  long long row = (long long)a[K_ROW];
  Place to = place_of(n, s, row, (int)a[K_PLACE]), other = place_of(n, s, row, (int)a[K_OTHER]);
  const double* found = s.dispatch_found + row * n.n_dispatch;
  double steep = 0.0, steep_other = 0.0, turned = 0.0;
  EACH(d, n.n_demand) {
    double price = price_at(n, found, d), before = other.prices[d];
    steep += price * price;
    steep_other += before * before;
  }
  steep = sqrt(sum_of_lanes(steep)); steep_other = sqrt(sum_of_lanes(steep_other));
  EACH(d, n.n_demand) {
    double price = price_at(n, found, d), apart = price / steep - other.prices[d] / steep_other;
    turned += apart * apart;
    to.prices[d] = price;
    to.follower_demand[d] = to.demand[d];
  }
  EACH(i, n.n_dispatch) to.follower[i] = found[i];
  turned = sum_of_lanes(turned);
  if (lane == 0) { told[STEEPNESS] = steep; told[TURNED] = turned; }
}

// What a row ends with: the fresh dispatch, or O as it was known at the place of its best point.
enum AskedEnd { E_ROW, E_PLACE, E_FRESH };
HERE void end_row(const RowNet& n, const RowState& s, const double* a, double*, int lane) {
  long long row = (long long)a[E_ROW];
  const double* from = a[E_FRESH] != 0.0 ? s.dispatch_found + row * n.n_dispatch : place_of(n, s, row, (int)a[E_PLACE]).follower;
  EACH(i, n.n_dispatch) s.solution[row * n.n_dispatch + i] = from[i];
}

#define WIDE 18
#define ANSWERED 3
#define OPERATIONS(DO) DO(begin_joint) DO(keep_joint) DO(begin_dispatch) DO(keep_dispatch) DO(end_row)
#ifdef __CUDACC__
// One block for each row.
#define OPERATION(name) \
  extern "C" __global__ void __launch_bounds__(LANES) rows_##name(const RowNet n, const RowState s, const double* asked, double* told) { \
    name(n, s, asked + WIDE * (long long)blockIdx.x, told + ANSWERED * (long long)blockIdx.x, threadIdx.x); \
  }
OPERATIONS(OPERATION)
#else
typedef void (*Operation)(const RowNet&, const RowState&, const double*, double*, int);
static const Operation operations[] = {
#define OPERATION(name) name,
    OPERATIONS(OPERATION)
};
extern "C" void gridveil_rows(int which, const RowNet* n, const RowState* s, const double* asked, double* told, int count,
                              int n_threads) {
  auto work = [=](int first) {
    for (long long k = first; k < count; k += n_threads) operations[which](*n, *s, asked + WIDE * k, told + ANSWERED * k, 0);
  };
  std::vector<std::thread> threads;
  for (int t = 1; t < n_threads; t++) threads.emplace_back(work, t);
  work(0);
  for (auto& thread : threads) thread.join();
}
extern "C" void gridveil_rows_sizes(long long* sizes) { sizes[0] = sizeof(RowNet); sizes[1] = sizeof(RowState); }
#endif
