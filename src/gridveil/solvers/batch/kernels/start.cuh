// Between scenarios: write the result of the finished one, take the next, and make its first iterate.

FN void write_result(const Net& n, const Batch& b, double* w, int lane, bool on) {
  long long s = (long long)SCALAR(SCENARIO);
  double cost = 0.0;
  for (int k = lane; on && k < n.n_local; k += LANES) {
    Local v = local_at(n, w, k);
    double u = AT(n.o_u, k);
    cost += (0.5 * v.quadratic * u + v.linear) * u;
  }
  cost = lanes_sum(cost);
  if (!on) return;
  if (lane == 0) {
    take_one(b.counter + 1);
    b.cost[s] = cost / n.objective_scale;
    b.status[s] = (int)SCALAR(RESULT);
    b.iterations[s] = (int)(SCALAR(EARLIER_ITERATIONS) + SCALAR(ITERATIONS));
    b.factorisations[s] = (int)SCALAR(FACTORISATIONS);
  }
  double* to = b.point + s * n.n_point;
  for (int i = lane; i < 4 * n.n_bus; i += LANES) to[i] = AT(n.o_point, i);
  to += 4 * n.n_bus;
  for (int k = lane; k < n.n_local; k += LANES) {
    to[k] = AT(n.o_u, k);
    to[n.n_local + k] = AT(n.o_z_low, k);
    to[2 * n.n_local + k] = AT(n.o_z_high, k);
  }
  to += 3 * n.n_local;
  for (int i = lane; i < n.n_limit; i += LANES) to[i] = AT(n.o_limit, i);
}

// The data of scenario s: draws of the loads, outages, and its own bounds and costs where they vary.
FN void load_scenario(const Net& n, const Batch& b, double* w, int lane, long long s) {
  for (int i = lane; i < n.n_bus; i += LANES) {
    double p = 0.0, q = 0.0;
    for (int k = constant(n.load_ptr + i); k < constant(n.load_ptr + i + 1); k++) {
      int d = constant(n.load + k);
      p += b.demand_p[s * n.n_load + d];
      q += b.demand_q[s * n.n_load + d];
    }
    AT(n.o_draw, 2 * i) = p;
    AT(n.o_draw, 2 * i + 1) = q;
  }
  if (n.varied)
    for (int i = lane; i < 4 * n.n_local; i += LANES) AT(n.o_own, i) = b.local[s * 4 * n.n_local + i];
  SCALAR(OUT_0) = b.outage == nullptr ? -1 : b.outage[2 * s];
  SCALAR(OUT_1) = b.outage == nullptr ? -1 : b.outage[2 * s + 1];
}

FN void known_point(const Net& n, const Batch& b, double* w, int lane, long long s, bool warm) {
  const double* from = b.warm + (b.warm_each ? s * n.n_point : 0);
  for (int i = lane; i < n.n_bus; i += LANES)
    for (int e = 0; e < 4; e++)
      AT(n.o_point, 4 * i + e) = warm ? from[4 * i + e] : e < 2 ? constant(n.start + 2 * i + e) : 0.0;
  from += 4 * n.n_bus;
  for (int k = lane; k < n.n_local; k += LANES) {
    Local v = local_at(n, w, k);
    AT(n.o_u, k) = warm ? from[k] : 0.5 * (v.low + v.high);
    AT(n.o_z_low, k) = warm ? from[n.n_local + k] : 0.0;
    AT(n.o_z_high, k) = warm ? from[2 * n.n_local + k] : 0.0;
  }
  from += 3 * n.n_local;
  for (int i = lane; i < n.n_limit; i += LANES) AT(n.o_limit, i) = warm ? from[i] : 0.0;
}

FN void set_limit(const Net& n, double* w, float* soft, int i, bool exists, double h, bool cold, double push, double mu) {
  double s = exists ? most_of(cold ? absolute(h) : -h, push) : 1.0;
  AT(n.o_slack, i) = s;
  AT(n.o_limit, i) = exists ? most_of(AT(n.o_limit, i), mu / s) : 0.0;
  soft[i * WIDTH] = (float)SOFTNESS;
}

// Move the known point off its bounds; slacks follow from the limits, multipliers keep products of at least mu.
FN void move_inside(const Net& n, double* w, float* soft, int lane, bool cold, double push, double mu) {
  Outages out = outages(n, w);
  for (int i = lane; i < n.n_bus; i += LANES) {
    int i_bus = i, flags = constant(n.bus_flag + i), at = 4 * n.n_branch + 2 * i;
    double va = AT(n.o_point, 4 * i), v = AT(n.o_point, 4 * i + 1);
    set_limit(n, w, soft, at, flags & 1, v - V(2), cold, push, mu);
    set_limit(n, w, soft, at + 1, flags & 2, V(3) - v, cold, push, mu);
    for (int q = constant(n.end_ptr + i); q < constant(n.end_ptr + i + 1); q++) {
      End e = end_at(n, out, q);
      if (e.is_to) continue;
      Branch f;
      evaluate_branch(e.c, v, AT(n.o_point, 4 * e.far + 1), va - AT(n.o_point, 4 * e.far), f);
      set_limit(n, w, soft, 4 * e.branch, e.flags & 1, f.hf, cold, push, mu);
      set_limit(n, w, soft, 4 * e.branch + 1, e.flags & 2, f.ht, cold, push, mu);
      set_limit(n, w, soft, 4 * e.branch + 2, e.flags & 4, f.hu, cold, push, mu);
      set_limit(n, w, soft, 4 * e.branch + 3, e.flags & 8, f.hl, cold, push, mu);
    }
    AT(n.o_trade, 2 * i) = 0.0;
    AT(n.o_trade, 2 * i + 1) = 0.0;
  }
  for (int k = lane; k < n.n_local; k += LANES) {
    Local v = local_at(n, w, k);
    double room = cold ? 0.0 : push * least_of(v.high - v.low, 1.0);
    double u = least_of(most_of(AT(n.o_u, k), v.low + room), v.high - room);
    AT(n.o_u, k) = v.is_free ? u : v.low;
    AT(n.o_z_low, k) = v.is_free ? most_of(AT(n.o_z_low, k), mu / (u - v.low)) : 0.0;
    AT(n.o_z_high, k) = v.is_free ? most_of(AT(n.o_z_high, k), mu / (v.high - u)) : 0.0;
  }
}

// What is tried next, after a warm run that failed and where soft balances ended; -1: nothing more.
FN int next_attempt(const Net& n, const double* w) {
  int tried = (int)SCALAR(ATTEMPT), result = (int)SCALAR(RESULT);
  if (tried == SOFTENED) return result == CONVERGED ? AFTER_SOFTENED : -1;
  if (result == CONVERGED || result == ROUNDED) return -1;
  return tried == WARM ? COLD : -1;
}

// All lanes of a warp run through every phase together, whatever their slots do: ``on`` says who has work.
FN void phase_start(const Net& n, const Batch& b, double* w, float* soft, int lane) {
  int state = (int)SCALAR(STATE);
  bool on = state == DONE || state == EMPTY;
  // A start takes a warp as long as most of a round, whether of one slot or of all: wait for most of them, but not for
  // stragglers, and not if nothing is left to wait for.
  int ended = count_lanes(on);
  double waited = SCALAR(WAITED);
  bool busy = any_lane(!on && state != IDLE), more = any_lane(*(volatile int*)b.counter < b.n_scenarios);
  bool enough = ended >= n.refill_at_once || (ended >= n.refill && any_lane(on && waited >= 2.0));
  if (ended == 0) return;
  if (busy && more && !enough && !any_lane(on && waited >= n.refill_rounds)) {
    if (on && lane == 0) SCALAR(WAITED) = waited + 1.0;
    return;
  }
  int attempt = state == DONE ? next_attempt(n, w) : -1, s = (int)SCALAR(SCENARIO);
  bool fresh = on && attempt < 0;
  double earlier = fresh ? 0.0 : SCALAR(EARLIER_ITERATIONS) + SCALAR(ITERATIONS);
  double factorisations = fresh ? 0.0 : SCALAR(FACTORISATIONS);
  write_result(n, b, w, lane, fresh && state == DONE);
  int taken = fresh && lane == 0 ? take_one(b.counter) : 0;
  taken = from_first_lane(taken);
  if (fresh) {
    s = taken;
    attempt = n.soften ? SOFTENED : b.warm == nullptr ? COLD : WARM;
    if (s >= b.n_scenarios) { SCALAR(STATE) = IDLE; on = fresh = false; }
  }
  bool warm = attempt == WARM, cold = attempt == COLD || attempt == SOFTENED;
  double mu = warm || attempt == AFTER_SOFTENED ? WARM_MU : attempt == SOFTENED ? MU_SOFTENED : MU_DISPATCH;
  double push = cold ? START_PUSH : warm ? WARM_PUSH : SOFTENED_PUSH;
  if (on && lane == 0) {
    SCALAR(SCENARIO) = s; SCALAR(STATE) = RUNNING; SCALAR(ATTEMPT) = attempt; SCALAR(RESULT) = ITERATION_LIMIT;
    SCALAR(ITERATIONS) = 0.0; SCALAR(EARLIER_ITERATIONS) = earlier; SCALAR(FACTORISATIONS) = factorisations;
    SCALAR(MU) = mu; SCALAR(FREE) = 1.0; SCALAR(SHIFT) = 0.0; SCALAR(LAST_SHIFT) = 0.0; SCALAR(TRIES) = 0.0;
    SCALAR(SHORT_STEPS) = 0.0; SCALAR(SET) = 0.0; SCALAR(THETA_LIMIT) = -1.0; SCALAR(FILTER_SIZE) = 0.0;
    SCALAR(BEST_PRIMAL) = 1e300; SCALAR(SINCE_BEST) = 0.0; SCALAR(WAITED) = 0.0;
    for (int k = 0; k < MEMORY; k++) SCALAR(RECENT_0 + k) = 1e300;
  }
  if (fresh) load_scenario(n, b, w, lane, s);
  lanes_meet();
  if (on && attempt != AFTER_SOFTENED) known_point(n, b, w, lane, s, warm);
  lanes_meet();
  if (on) move_inside(n, w, soft, lane, cold, push, mu);
}
