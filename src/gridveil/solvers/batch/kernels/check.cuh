// The independent check of optimality, on every answer. It shares no line with the kernels that solve: flows and gradients are
// complex, computed anew from the network as it was read, the scenario or task, and the answer. Multipliers of simple bounds are
// not asked for: a gradient that pushes against a bound counts only as far as the variable is away from that bound.
// The structures are declared by Python (compiled_check.py). LANES threads of a GPU check an answer together, or one of a CPU.
#ifdef __CUDACC__
#define HERE __device__ __forceinline__
#define NO_NUMBER __longlong_as_double(0x7ff8000000000000LL)
#else
#include <cmath>
#include <thread>
#include <vector>
#define HERE static inline
#define LANES 1
#endif
#define LARGE 1e300  // what is larger counts as infinite

struct Complex { double re, im; };
HERE Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
HERE Complex operator*(double a, Complex b) { return {a * b.re, a * b.im}; }
HERE Complex operator*(Complex a, Complex b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
HERE Complex conjugate(Complex a) { return {a.re, -a.im}; }
HERE double squared(Complex a) { return a.re * a.re + a.im * a.im; }
HERE double size(double a) { return a < 0.0 ? -a : a; }
HERE double larger(double a, double b) { return a > b ? a : b; }
HERE double smaller(double a, double b) { return a < b ? a : b; }
HERE bool is_finite(double a) { return size(a) < LARGE; }
// Keep the largest; what is no number is kept for good.
HERE void raise(double& worst, double value) { if (worst == worst && !(value <= worst)) worst = value; }

// What one lane has found: the largest residuals so far, the size of prices and costs to compare them with, and sums.
struct Found { double primal, dual, product, scale, cost, distance, reached, steepest; };

HERE double bounded(double room) { return is_finite(room) ? room : 1.0; }
// A gradient that no bound explains.
HERE double pushed(double gradient, double value, double low, double high) {
  double room = gradient > 0.0 ? value - low : high - value;
  return size(gradient) * (room == room ? smaller(larger(room, 0.0), 1.0) : room);
}

HERE bool is_out(const CheckBatch& b, long long row, int branch) {
  for (int k = 0; k < b.n_out; k++)
    if (b.branch_out[row * b.n_out + k] == branch) return true;
  return false;
}
HERE double of_generator(const double* own, const double* usual, long long row, int n_gen, int g) {
  return own ? own[row * n_gen + g] : usual[g];
}

// A point and its scales; multipliers are in units of the cost, or of a task's objective.
struct Point { const double* at; double scale; };
HERE double of_bus(const CheckNet& n, const Point& p, int i, int which) { return p.at[n.bus_at[i] + which]; }
HERE Complex price_of(const CheckNet& n, const Point& p, int i) {
  return {of_bus(n, p, i, 2) / p.scale, of_bus(n, p, i, 3) / p.scale};
}
// 0, 1: of |S|² at the from and the to end; 2, 3: of the angle, above and below.
HERE double multiplier_of(const CheckNet& n, const Point& p, int branch, int which) {
  double value = p.at[n.limit_at[4 * branch + which]] / p.scale;
  return which < 2 ? value * n.flow_scale[branch] : value;
}

// One end of a branch as its bus sees it: its flow in two parts (of the end's own voltage alone, and the rest), and their pull.
struct Seen { Complex power; double by_angle, by_magnitude; };
HERE Seen see_end(const CheckNet& n, const CheckBatch& b, const Point& p, long long row, int i, int end, Found& f) {
  int branch = end < n.n_branch ? end : end - n.n_branch, is_to = end >= n.n_branch;
  int j = is_to ? n.branch_from[branch] : n.branch_to[branch], other = is_to ? branch : branch + n.n_branch;
  bool here = !is_out(b, row, branch);
  double vi = of_bus(n, p, i, 1), vj = of_bus(n, p, j, 1), across = of_bus(n, p, i, 0) - of_bus(n, p, j, 0), sine, cosine;
#ifdef __CUDACC__
  sincos(across, &sine, &cosine);
#else
  sine = std::sin(across); cosine = std::cos(across);
#endif
  Complex y_own = {n.y_own[2 * end], n.y_own[2 * end + 1]}, y_mutual = {n.y_mutual[2 * end], n.y_mutual[2 * end + 1]};
  Complex z_own = {n.y_own[2 * other], n.y_own[2 * other + 1]}, z_mutual = {n.y_mutual[2 * other], n.y_mutual[2 * other + 1]};
  Complex voltages = (vi * vj) * Complex{cosine, sine}, none = {0.0, 0.0};
  Complex own = here ? (vi * vi) * conjugate(y_own) : none, mutual = here ? voltages * conjugate(y_mutual) : none;
  Complex far_own = here ? (vj * vj) * conjugate(z_own) : none;
  Complex far_mutual = here ? conjugate(voltages) * conjugate(z_mutual) : none;
  Complex power = own + mutual, far_power = far_own + far_mutual;
  double flow = multiplier_of(n, p, branch, is_to), far_flow = multiplier_of(n, p, branch, 1 - is_to), rate = n.rate[branch];
  Complex weight = price_of(n, p, i) + (2.0 * flow) * power, far_weight = price_of(n, p, j) + (2.0 * far_flow) * far_power;
  Complex by_mutual = conjugate(weight) * mutual, far_by_mutual = conjugate(far_weight) * far_mutual;
  double above = multiplier_of(n, p, branch, 2), below = multiplier_of(n, p, branch, 3), push = above - below;
  raise(f.primal, sqrt(squared(power)) - rate);
  raise(f.dual, -flow);
  raise(f.product, size(flow * (here ? bounded(rate * rate - squared(power)) : 1.0)));
  if (!is_to) {
    double room_above = n.angle_max[branch] - across, room_below = across - n.angle_min[branch];
    if (here) { raise(f.primal, -room_above); raise(f.primal, -room_below); }
    raise(f.dual, -above);
    raise(f.dual, -below);
    raise(f.product, size(above * (here ? bounded(room_above) : 1.0)));
    raise(f.product, size(below * (here ? bounded(room_below) : 1.0)));
  }
  // The mutual term follows the angles as exp(j(θ_i − θ_j)) and is linear in both magnitudes; the own one is quadratic in one.
  Seen seen = {power, (is_to ? -push : push) + far_by_mutual.im - by_mutual.im,
               2.0 * (conjugate(weight) * own).re + far_by_mutual.re + by_mutual.re};
  return seen;
}

// One of the numbers of a task, which may lie beside each other.
HERE double of_task(const CheckBatch& b, const double* number, long long row) { return number[row * b.task_step]; }
// (price of cost, price of cut or ball) of a task.
HERE Complex row_prices(const CheckNet& n, const CheckBatch& b, const Point& p, long long row) {
  const double* limit = p.at + n.n_point - 2 * (2 + n.n_kept);
  const double* scale = b.row_scale + (2 + n.n_kept) * row;
  return {(limit[0] - limit[1]) * scale[0] / p.scale, (limit[2] - limit[3]) * scale[1] / p.scale};
}
// Price of a total that is kept, and the weight of a demand in it.
HERE double kept_price(const CheckNet& n, const CheckBatch& b, const Point& p, long long row, int r) {
  const double* limit = p.at + n.n_point - 2 * (n.n_kept - r);
  return (limit[0] - limit[1]) * b.row_scale[(2 + n.n_kept) * row + 2 + r] / p.scale;
}
HERE double kept_weight(const CheckNet& n, const CheckBatch& b, long long row, int r, int d) {
  return b.kept[(row * n.n_kept + r) * 2 * n.n_load + d];
}
HERE double demand_of(const CheckNet& n, const CheckBatch& b, const Point& p, long long row, int d) {
  double given = d < n.n_load ? b.demand_p[row * b.demand_step + d] : b.demand_q[row * b.demand_step + d - n.n_load];
  return b.kind ? given + p.at[n.load_at[d]] : given;
}

HERE void check_bus(const CheckNet& n, const CheckBatch& b, const Point& p, long long row, int i, Found& f) {
  double va = of_bus(n, p, i, 0), vm = of_bus(n, p, i, 1), by_angle = 0.0, by_magnitude = 0.0;
  Complex price = price_of(n, p, i), mismatch = (vm * vm) * Complex{n.shunt_g[i], -n.shunt_b[i]};
  for (int k = n.end_ptr[i]; k < n.end_ptr[i + 1]; k++) {
    Seen end = see_end(n, b, p, row, i, n.end[k], f);
    mismatch = mismatch + end.power;
    by_angle += end.by_angle;
    by_magnitude += end.by_magnitude;
  }
  for (int k = n.load_ptr[i]; k < n.load_ptr[i + 1]; k++)
    mismatch = mismatch + Complex{demand_of(n, b, p, row, n.load[k]), demand_of(n, b, p, row, n.load[k] + n.n_load)};
  for (int k = n.gen_ptr[i]; k < n.gen_ptr[i + 1]; k++) {
    int g = n.gen[k];
    for (int s = n.part_ptr[g]; s < n.part_ptr[g + 1]; s++) mismatch.re -= p.at[n.part_at[s]];
    mismatch.im -= p.at[n.qg_at[g]];
  }
  by_magnitude = by_magnitude / vm + 2.0 * vm * (n.shunt_g[i] * price.re - n.shunt_b[i] * price.im);
  raise(f.primal, size(mismatch.re));
  raise(f.primal, size(mismatch.im));
  raise(f.primal, vm - n.v_max[i]);
  raise(f.primal, n.v_min[i] - vm);
  raise(f.primal, n.is_reference[i] ? size(va) : 0.0);
  raise(f.dual, n.is_reference[i] ? 0.0 : size(by_angle));
  raise(f.dual, pushed(by_magnitude, vm, n.v_min[i], n.v_max[i]));
  raise(f.scale, sqrt(squared(price)));
}

HERE void check_generator(const CheckNet& n, const CheckBatch& b, const Point& p, long long row, int g, double of_cost, Found& f) {
  bool on = b.gen_on ? b.gen_on[row * n.n_gen + g] : true;
  double pg = 0.0, qg = p.at[n.qg_at[g]];
  for (int s = n.part_ptr[g]; s < n.part_ptr[g + 1]; s++) pg += p.at[n.part_at[s]];
  double p_min = of_generator(b.p_min, n.p_min, row, n.n_gen, g), p_max = of_generator(b.p_max, n.p_max, row, n.n_gen, g);
  double q_min = of_generator(b.q_min, n.q_min, row, n.n_gen, g), q_max = of_generator(b.q_max, n.q_max, row, n.n_gen, g);
  double c_1 = of_generator(b.cost_1, n.cost_1, row, n.n_gen, g), c_2 = of_generator(b.cost_2, n.cost_2, row, n.n_gen, g);
  raise(f.primal, larger(pg - (on ? p_max : 0.0), (on ? p_min : 0.0) - pg));
  raise(f.primal, larger(qg - (on ? q_max : 0.0), (on ? q_min : 0.0) - qg));
  if (!on) return;
  double slope_low = c_1 + 2.0 * c_2 * pg, slope_high = slope_low;
  f.cost += n.cost_0[g] + (c_1 + c_2 * pg) * pg;
  if (n.line_ptr[g] < n.line_ptr[g + 1]) {  // the largest of straight lines; at a corner any slope between the two will do
    double best = -2.0 * LARGE, best_low = -2.0 * LARGE, best_high = -2.0 * LARGE, low = 0.0, high = 0.0;
    for (int k = n.line_ptr[g]; k < n.line_ptr[g + 1]; k++) {
      double slope = n.line_slope[k], intercept = n.line_intercept[k];
      double at = slope * pg + intercept, left = slope * (pg - CORNER) + intercept, right = slope * (pg + CORNER) + intercept;
      best = larger(best, at);
      if (left > best_low) { best_low = left; low = slope; }
      if (right > best_high) { best_high = right; high = slope; }
    }
    f.cost += best;
    slope_low += low;
    slope_high += high;
  }
  Complex price = price_of(n, p, n.gen_bus[g]);
  double to_left = of_cost * slope_low - price.re, to_right = of_cost * slope_high - price.re;
  double by_p = larger(smaller(to_left, to_right), 0.0) + smaller(larger(to_left, to_right), 0.0);
  raise(f.dual, to_left == to_left && to_right == to_right ? pushed(by_p, pg, p_min, p_max) : to_left + to_right);
  raise(f.dual, pushed(-price.im, qg, q_min, q_max));
  raise(f.scale, size(of_cost) * larger(size(slope_low), size(slope_high)));
}

// Demands of a task: nearest (0), nearest beyond a cut (1), or a push within a ball (2).
HERE void check_demand(const CheckNet& n, const CheckBatch& b, const Point& p, long long row, int d, double of_other, Found& f) {
  int kind = (int)of_task(b, b.kind, row);
  double demand = demand_of(n, b, p, row, d), away = p.at[n.load_at[d]];
  Complex price = price_of(n, p, n.load_bus[d % n.n_load]);
  double gradient = d < n.n_load ? price.re : price.im;
  if (kind == 2) gradient += 2.0 * of_other * away - (d < n.n_load ? 1.0 : 0.0);
  else gradient += 2.0 * away;
  if (kind == 1) {
    double weight = d < n.n_load ? b.weight_p[row * b.weight_step + d] : b.weight_q[row * b.weight_step + d - n.n_load];
    gradient += of_other * weight;
    f.reached += weight * demand;
    raise(f.steepest, size(weight));
  }
  for (int r = 0; r < n.n_kept; r++) gradient += kept_price(n, b, p, row, r) * kept_weight(n, b, row, r, d);
  f.distance += away * away;
  double low = b.low ? b.low[d] : -2.0 * LARGE, high = b.high ? b.high[d] : 2.0 * LARGE;
  if (b.low) raise(f.primal, larger(demand - high, low - demand));
  raise(f.dual, b.low ? pushed(gradient, demand, low, high) : size(gradient));
}
HERE void check_dense_row(Found& f, double value, double low, double high, double measure, double multiplier) {
  raise(f.primal, (low - value) / measure);
  raise(f.primal, (value - high) / measure);
  raise(f.product, size(multiplier * bounded(multiplier > 0.0 ? high - value : value - low)));
}
HERE void check_kept(const CheckNet& n, const CheckBatch& b, const Point& p, long long row, int r, Found& f) {
  double total = 0.0, steepest = LEAST_WEIGHT;
  for (int d = 0; d < 2 * n.n_load; d++) {
    double weight = kept_weight(n, b, row, r, d);
    total += weight * demand_of(n, b, p, row, d);
    steepest = larger(steepest, size(weight));
  }
  long long at = row * n.n_kept + r;
  check_dense_row(f, total, b.kept_low[at], b.kept_high[at], steepest, kept_price(n, b, p, row, r));
}

// What is left when all lanes have added up what they found.
HERE void conclude(const CheckBatch& b, long long row, double* residuals, Complex of_rows, Found& f) {
  double cost = b.cost[row] + b.constant;
  raise(f.primal, size(cost - f.cost) / larger(1.0, size(f.cost)));
  if (b.kind) {
    double low = of_task(b, b.cost_low, row), high = of_task(b, b.cost_high, row), kind = of_task(b, b.kind, row);
    check_dense_row(f, cost, low, high, larger(1.0, is_finite(high) ? size(high) : 1.0), of_rows.re);
    raise(f.product, size(of_rows.re * larger(cost - f.cost, 0.0)));  // a cost stated too high has room as well
    if (kind == 1) {
      double least = of_task(b, b.least, row);
      check_dense_row(f, f.reached, least, 2.0 * LARGE, larger(f.steepest, LEAST_WEIGHT), of_rows.im);
    }
    if (kind == 2) {
      double delta = of_task(b, b.delta, row);
      check_dense_row(f, f.distance, -2.0 * LARGE, delta, larger(2.0 * sqrt(delta), LEAST_BALL), of_rows.im);
    }
  }
  double scale = is_finite(f.scale) ? f.scale : 0.0;  // prices without bound would make anything small
  residuals[0] = f.primal;
  residuals[1] = f.dual / scale;
  residuals[2] = f.product / scale;
}

// Numbers are those of a row; only some of the rows may be asked about.
HERE long long row_at(const CheckBatch& b, long long k) { return b.rows ? b.rows[k] : k; }
HERE Found look_at(const CheckNet& n, const CheckBatch& b, long long row, int lane, Complex& of_rows) {
  Point p = {b.point + row * n.n_point, b.scale ? b.scale[row] : n.scale};
  Found f = {0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0};
  of_rows = b.kind ? row_prices(n, b, p, row) : Complex{1.0, 0.0};
  for (int i = lane; i < n.n_bus; i += LANES) check_bus(n, b, p, row, i, f);
  for (int g = lane; g < n.n_gen; g += LANES) check_generator(n, b, p, row, g, of_rows.re, f);
  for (int d = lane; b.kind && d < 2 * n.n_load; d += LANES) check_demand(n, b, p, row, d, of_rows.im, f);
  for (int r = lane; r < n.n_kept; r += LANES) check_kept(n, b, p, row, r, f);
  return f;
}

#ifdef __CUDACC__
// One block for each answer.
extern "C" __global__ void __launch_bounds__(LANES) check_rows(const CheckNet n, const CheckBatch b) {
  __shared__ Found said[LANES];
  Complex of_rows;
  long long row = row_at(b, blockIdx.x);
  said[threadIdx.x] = look_at(n, b, row, threadIdx.x, of_rows);
  for (int half = LANES / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x >= half) continue;
    Found &a = said[threadIdx.x], &c = said[threadIdx.x + half];
    raise(a.primal, c.primal); raise(a.dual, c.dual); raise(a.product, c.product); raise(a.scale, c.scale);
    raise(a.steepest, c.steepest);
    a.cost += c.cost; a.distance += c.distance; a.reached += c.reached;
  }
  if (threadIdx.x == 0) conclude(b, row, b.residuals + 3LL * blockIdx.x, of_rows, said[0]);
}
#else
extern "C" void gridveil_check(const CheckNet* n, const CheckBatch* b, int n_threads) {
  auto work = [=](int first) {
    for (long long k = first; k < b->n_rows; k += n_threads) {
      Complex of_rows;
      Found f = look_at(*n, *b, row_at(*b, k), 0, of_rows);
      conclude(*b, row_at(*b, k), b->residuals + 3 * k, of_rows, f);
    }
  };
  std::vector<std::thread> threads;
  for (int t = 1; t < n_threads; t++) threads.emplace_back(work, t);
  work(0);
  for (auto& thread : threads) thread.join();
}
extern "C" void gridveil_check_sizes(long long* sizes) { sizes[0] = sizeof(CheckNet); sizes[1] = sizeof(CheckBatch); }
#endif
