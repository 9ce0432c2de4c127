// Between scenarios: write the result of the finished one, take the next, and make its first iterate.

// Scenarios of a batch are taken in their order. Those of a stream stand in a ring, and only as many are there as the host has
// put in; of what is put in during a kernel its caches may know nothing, so the count is of before (AVAILABLE).
enum Counter { TAKEN, ENDED, AVAILABLE };
FN int available(const Batch& b) { return b.queue == nullptr ? b.n_scenarios : *(volatile int*)(b.counter + AVAILABLE); }
FN int take_scenario(const Batch& b) {
  int at = b.queue == nullptr ? take_one(b.counter + TAKEN) : take_below(b.counter + TAKEN, available(b));
  if (b.queue != nullptr) return at < 0 ? -1 : b.queue[at % b.n_scenarios];
  return at < b.n_scenarios ? at : -1;
}

FN void write_result(const Net& n, const Batch& b, double* w, int lane, bool on) {
  long long s = (long long)SCALAR(SCENARIO);
  double cost = 0.0;
  for (int k = lane; on && k < n.n_local; k += LANES) {
    Local v = local_at(n, w, k);
    double u = AT(n.o_u, k), quadratic = v.quadratic, linear = v.linear;
    if (ROWS > 0) { quadratic = constant(n.local + 4 * k + 2); linear = constant(n.local + 4 * k + 3); }
    cost += (0.5 * quadratic * u + linear) * u;
  }
  cost = lanes_sum(cost);
  if (!on) return;
  if (lane == 0) {
    if (b.queue != nullptr) { b.ended[s]++; if (b.working != nullptr) take_one(b.working + 1); }
    take_one(b.counter + ENDED);
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
  to += n.n_limit;
  for (int i = lane; i < 2 * ROWS; i += LANES) to[i] = ROW(i / 2, ROW_LIMIT + i % 2);
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
    for (int i = lane; i < OWN_SIZE * n.n_local; i += LANES) AT(n.o_own, i) = b.local[s * OWN_SIZE * n.n_local + i];
  SCALAR(OUT_0) = b.outage == nullptr ? -1 : b.outage[2 * s];
  SCALAR(OUT_1) = b.outage == nullptr ? -1 : b.outage[2 * s + 1];
#if ROWS > 0
  const double* bound = b.rows + (2 * ROWS + 1) * s;
  for (int r = lane; r < ROWS; r += LANES) {
    ROW(r, ROW_ON) = 0.0;
    for (int side = 0; side < 2; side++) {
      bool exists = absolute(bound[2 * r + side]) < UNBOUNDED;
      ROW(r, ROW_BOUND + side) = bound[2 * r + side];
      ROW(r, ROW_EXISTS + side) = exists;
      if (exists) ROW(r, ROW_ON) = 1.0;
      ROW(r, ROW_LIMIT + side) = 0.0; ROW(r, ROW_SLACK + side) = 1.0;
      ROW(r, ROW_DS + side) = 0.0; ROW(r, ROW_DS + 2 + side) = 0.0;
    }
  }
  if (lane == 0) ROW_CURVATURE = bound[2 * ROWS];
#endif
}
// Where a local variable starts cold: in the middle of its bounds, or near zero where one is missing.
FN double cold_value(const Local& v) {
  if (v.has_low == v.has_high) return v.has_low ? 0.5 * (v.low + v.high) : 0.0;
  if (v.has_low) return most_of(0.0, v.low + START_PUSH * most_of(1.0, absolute(v.low)));
  return least_of(0.0, v.high - START_PUSH * most_of(1.0, absolute(v.high)));
}

FN void known_point(const Net& n, const Batch& b, double* w, int lane, long long s, bool warm) {
  const double* from = b.warm + (b.warm_each ? s * n.n_point : 0);
  for (int i = lane; i < n.n_bus; i += LANES)
    for (int e = 0; e < 4; e++)
      AT(n.o_point, 4 * i + e) = warm ? from[4 * i + e] : e < 2 ? constant(n.start + 2 * i + e) : 0.0;
  from += 4 * n.n_bus;
  for (int k = lane; k < n.n_local; k += LANES) {
    Local v = local_at(n, w, k);
    AT(n.o_u, k) = warm ? from[k] : cold_value(v);
    AT(n.o_z_low, k) = warm ? from[n.n_local + k] : 0.0;
    AT(n.o_z_high, k) = warm ? from[2 * n.n_local + k] : 0.0;
  }
  from += 3 * n.n_local;
  for (int i = lane; i < n.n_limit; i += LANES) AT(n.o_limit, i) = warm ? from[i] : 0.0;
  from += n.n_limit;
  for (int i = lane; i < 2 * ROWS; i += LANES) ROW(i / 2, ROW_LIMIT + i % 2) = warm ? from[i] : 0.0;
}

// Largest violation of balances, limits, bounds and rows at the known point.
FN double known_violation(const Net& n, const double* w, int lane, bool on) {
  double worst = 0.0;
  RowSums value = {{0.0}};
  Outages out = outages(n, w);
  for (int q = lane; on && q < n.n_bus; q += LANES) {
    int i = bus_at(n, q), i_bus = i, flags = constant(n.bus_flag + i);
    double va = AT(n.o_point, 4 * i), v = AT(n.o_point, 4 * i + 1);
    double bp = AT(n.o_draw, 2 * i) + V(0) * v * v, bq = AT(n.o_draw, 2 * i + 1) + V(1) * v * v;
    if (flags & 1) worst = most_of(worst, v - V(2));
    if (flags & 2) worst = most_of(worst, V(3) - v);
    for (int q = constant(n.end_ptr + i); q < constant(n.end_ptr + i + 1); q++) {
      End e = end_at(n, out, q);
      if (is_out(out, e.branch)) continue;
      const double* c = e.c;
      double v2 = AT(n.o_point, 4 * e.far + 1), va2 = AT(n.o_point, 4 * e.far), angle = e.is_to ? va2 - va : va - va2, p, q2, cs, sn;
      sine_cosine(angle, sn, cs);
      end_flow(c + 6 * e.is_to, v, v2, cs, sn, p, q2);
      bp += p; bq += q2;
      int flags = e.flags >> e.is_to;
      if (flags & 1) worst = most_of(worst, C(13) * (p * p + q2 * q2 - C(12)));
      if (flags & 4) worst = most_of(worst, e.is_to ? C(15) - angle : angle - C(14));
    }
    for (int k = constant(n.local_ptr + i); k < constant(n.local_ptr + i + 1); k++) {
      Local y = local_at(n, w, k);
      double u = y.is_free ? AT(n.o_u, k) : y.low;
      if (y.row) bq -= y.sign * u; else bp -= y.sign * u;
      worst = most_of(worst, most_of(y.low - u, u - y.high));
      add_value(value, y, u);
    }
    worst = most_of(worst, most_of(absolute(bp), absolute(bq)));
  }
  lanes_join(value);
  for (int r = 0; on && r < ROWS; r++)
    for (int side = 0; side < 2; side++)
      if (ROW(r, ROW_EXISTS + side) != 0.0) worst = most_of(worst, row_room(n, w, r, side, value.of[r]));
  return lanes_max(worst);
}
// Magnitudes as far from their bounds as a cold start has them.
FN void move_magnitudes(const Net& n, double* w, int lane) {
  for (int i_bus = lane; i_bus < n.n_bus; i_bus += LANES) {
    double high = V(2), low = V(3), room = START_PUSH * least_of(most_of(1.0, low), high - low);
    if (constant(n.fixed + i_bus) & 2) continue;
    AT(n.o_point, 4 * i_bus + 1) = least_of(most_of(AT(n.o_point, 4 * i_bus + 1), low + room), high - room);
  }
}

FN void set_limit(const Net& n, double* w, float* soft, int i, bool exists, double h, bool cold, double push, double mu) {
  double s = exists ? most_of(cold ? absolute(h) : -h, push) : 1.0;
  AT(n.o_slack, i) = s;
  AT(n.o_limit, i) = exists ? most_of(AT(n.o_limit, i), mu / s) : 0.0;
  soft[i * WIDTH] = (float)SOFTNESS;
}

// Move the known point off its bounds; slacks follow from the limits, multipliers keep products of at least mu.
FN void move_inside(const Net& n, double* w, float* soft, int lane, bool cold, double push, double share, double mu,
                    RowSums& value) {
  Outages out = outages(n, w);
  for (int q = lane; q < n.n_bus; q += LANES) {
    int i = bus_at(n, q), i_bus = i, flags = constant(n.bus_flag + i), at = 4 * n.n_branch + 2 * i;
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
    for (int e = 0; !n.lean && e < 2; e++) AT(n.o_trade, 2 * i + e) = 0.0;
  }
  for (int k = lane; k < n.n_local; k += LANES) {
    Local v = local_at(n, w, k);
    double room = share * least_of(v.high - v.low, 1.0);
    double u = least_of(most_of(AT(n.o_u, k), v.low + room), v.high - room);
    AT(n.o_u, k) = v.is_free ? u : v.low;
    AT(n.o_z_low, k) = v.is_free && v.has_low ? most_of(AT(n.o_z_low, k), mu / (u - v.low)) : 0.0;
    AT(n.o_z_high, k) = v.is_free && v.has_high ? most_of(AT(n.o_z_high, k), mu / (v.high - u)) : 0.0;
    add_value(value, v, v.is_free ? u : v.low);
  }
}
FN void set_rows(const Net& n, double* w, const RowSums& value, bool cold, double push, double mu) {
  for (int r = 0; r < ROWS; r++) {
    ROW(r, ROW_VALUE) = value.of[r];
    for (int side = 0; side < 2; side++) {
      if (ROW(r, ROW_EXISTS + side) == 0.0) continue;
      double h = row_room(n, w, r, side, value.of[r]), s = most_of(cold ? absolute(h) : -h, push);
      ROW(r, ROW_SLACK + side) = s;
      ROW(r, ROW_LIMIT + side) = most_of(ROW(r, ROW_LIMIT + side), mu / s);
    }
  }
}

// What is tried next: a run to hard balances from where soft ones ended; -1: nothing more.
FN int next_attempt(const Net& n, const double* w) {
  return (int)SCALAR(ATTEMPT) == SOFTENED && (int)SCALAR(RESULT) == CONVERGED ? AFTER_SOFTENED : -1;
}


// All lanes of a warp run through every phase together, whatever their slots do: ``on`` says who has work.
FN void phase_start(const Net& n, const Batch& b, double* w, float* soft, int lane) {
  int state = (int)SCALAR(STATE);
  bool on = state == DONE || state == EMPTY;
  // A start takes a warp as long as most of a round, whether of one slot or of all: wait for most of them, but not for
  // stragglers, and not if nothing is left to wait for.
  int ended = count_lanes(on);
  double waited = SCALAR(WAITED);
  bool busy = any_lane(!on && state != IDLE), more = any_lane(*(volatile int*)(b.counter + TAKEN) < available(b));
  bool enough = ended >= n.refill_at_once || (ended >= n.refill && any_lane(on && waited >= 2.0));
  if (ended == 0 || (b.queue != nullptr && !more && !any_lane(state == DONE))) return;
  if (busy && more && !enough && !any_lane(on && waited >= n.refill_rounds)) {
    if (on && lane == 0) SCALAR(WAITED) = waited + 1.0;
    return;
  }
  bool managed = b.start != nullptr;  // the caller has chosen a start for every scenario, and what follows a failure
  int attempt = state == DONE ? next_attempt(n, w) : -1, s = (int)SCALAR(SCENARIO);
  bool fresh = on && attempt < 0;
  double earlier = fresh ? 0.0 : SCALAR(EARLIER_ITERATIONS) + SCALAR(ITERATIONS);
  double factorisations = fresh ? 0.0 : SCALAR(FACTORISATIONS);
  write_result(n, b, w, lane, fresh && state == DONE);
  int taken = fresh && lane == 0 ? take_scenario(b) : 0;
  taken = from_first_lane(taken);
  if (fresh) {
    s = taken;
    attempt = n.soften ? SOFTENED : b.warm == nullptr ? COLD : WARM;
    if (s < 0) { SCALAR(STATE) = b.queue == nullptr ? IDLE : EMPTY; on = fresh = false; }
  }
  const double* chosen = b.start + 6LL * s;  // attempt, push and mu for a feasible point; the same for any other
  if (managed && fresh) attempt = (int)chosen[0];
  bool cold = attempt == COLD || attempt == SOFTENED;
  double mu = attempt == WARM || attempt == AFTER_SOFTENED ? WARM_MU : attempt == SOFTENED ? MU_SOFTENED : MU_DISPATCH;
  double push = cold ? START_PUSH : attempt == WARM ? WARM_PUSH : SOFTENED_PUSH;
  if (fresh) load_scenario(n, b, w, lane, s);
  lanes_meet();
  if (on && attempt != AFTER_SOFTENED) known_point(n, b, w, lane, s, from_point(attempt));
  lanes_meet();
  if (any_lane(managed && fresh)) {
    bool feasible = known_violation(n, w, lane, fresh) <= FEASIBLE;
    if (managed && fresh) {
      if (!feasible) chosen += 3;
      attempt = (int)chosen[0]; push = chosen[1]; mu = chosen[2];
      cold = !from_point(attempt) || attempt == AT_POINT;
      if (lane == 0) b.feasible[s] = feasible;
    }
    lanes_meet();
  }
  if (on && lane == 0) {
    SCALAR(SCENARIO) = s; SCALAR(STATE) = RUNNING; SCALAR(ATTEMPT) = attempt; SCALAR(RESULT) = ITERATION_LIMIT;
    SCALAR(ITERATIONS) = 0.0; SCALAR(EARLIER_ITERATIONS) = earlier; SCALAR(FACTORISATIONS) = factorisations;
    SCALAR(MU) = mu; SCALAR(FREE) = !is_held(attempt); SCALAR(SHIFT) = 0.0; SCALAR(LAST_SHIFT) = 0.0; SCALAR(TRIES) = 0.0;
    SCALAR(SHORT_STEPS) = 0.0; SCALAR(SET) = 0.0; SCALAR(THETA_LIMIT) = -1.0; SCALAR(FILTER_SIZE) = 0.0;
    SCALAR(BEST_PRIMAL) = 1e300; SCALAR(SINCE_BEST) = 0.0; SCALAR(WAITED) = 0.0;
    for (int k = 0; k < MEMORY; k++) SCALAR(RECENT_0 + k) = 1e300;
  }
  bool elsewhere = attempt == AT_POINT;
  if (on && elsewhere) move_magnitudes(n, w, lane);
  lanes_meet();
  RowSums value = {{0.0}};
  double share = elsewhere ? WARM_PUSH : cold ? 0.0 : push;
  if (on) move_inside(n, w, soft, lane, cold, push, share, mu, value);
  lanes_join(value);
  lanes_meet();
  if (on && lane == 0) set_rows(n, w, value, cold, push, mu);
}
