// Filter line search (Wächter and Biegler 2006) and the step. A slot tries a few points a round, so that a warp does not wait
// for one of its lanes; more where a slot has a warp to itself, as the last ones of a batch do.
#define TRIALS (LANES >= 32 ? 8 : n.trials)

struct Trial { double theta, objective; LogSum logs; bool outside; RowSums value; };
template <class R, class T> FN void try_limit(R& t, T s, T h, T multiplier, double mu) {
  s = widened(s, h, multiplier, mu);
  t.theta += absolute(h + s);
  t.outside |= !(s > 0.0);
  add_log(t.logs, s);
}
FN void try_bus(const Net& n, const double* w, const Outages& out, int i, int set, double length, double mu, bool softened,
                Trial& t) {
  int i_bus = i, flags = constant(n.bus_flag + i), at = 4 * n.n_branch + 2 * i;
  double va, v;
  moved_voltage(n, w, i, set, length, va, v);
  double bp = AT(n.o_draw, 2 * i) + V(0) * v * v, bq = AT(n.o_draw, 2 * i + 1) + V(1) * v * v;
#pragma unroll
  for (int e = 0; e < 2; e++) {
    double s = AT(n.o_slack, at + e) + length * STEP(n.o_ds, set, at + e), l = AT(n.o_limit, at + e);
    if (flags >> e & 1) try_limit(t, s, e ? V(3) - v : v - V(2), l, mu);
  }
  for (int q = constant(n.end_ptr + i); !WIDE && q < constant(n.end_ptr + i + 1); q++) {
    End e = end_at(n, out, q);
    if (is_out(out, e.branch)) continue;
    const double* c = e.c;
    int at = 4 * e.branch + e.is_to, flags = e.flags >> e.is_to;  // this end sees its flow limit and one of the angle
    double s = AT(n.o_slack, at) + length * STEP(n.o_ds, set, at), l = AT(n.o_limit, at);
    double s2 = AT(n.o_slack, at + 2) + length * STEP(n.o_ds, set, at + 2), l2 = AT(n.o_limit, at + 2);
    double va2, v2, p, q2, cs, sn;
    moved_voltage(n, w, e.far, set, length, va2, v2);
    double angle = e.is_to ? va2 - va : va - va2;
    sine_cosine(angle, sn, cs);
    end_flow(c + 6 * e.is_to, v, v2, cs, sn, p, q2);
    bp += p; bq += q2;
    if (flags & 1) try_limit(t, s, C(13) * (p * p + q2 * q2 - C(12)), l, mu);
    if (flags & 4) try_limit(t, s2, e.is_to ? C(15) - angle : angle - C(14), l2, mu);
  }
  add_flows(i, bp, bq);
  for (int k = constant(n.local_ptr + i); k < constant(n.local_ptr + i + 1); k++) {
    Local y = local_at(n, w, k);
    double u = AT(n.o_u, k) + (y.is_free ? length * STEP(n.o_du, set, k) : 0.0);
    if (y.row) bq -= y.sign * u; else bp -= y.sign * u;
    add_value(t.value, y, u);
    if (!y.is_free) continue;
    t.objective += (0.5 * y.quadratic * u + y.linear) * u;
    t.outside |= !(u > y.low && u < y.high);
    if (y.has_low) add_log(t.logs, u - y.low);
    if (y.has_high) add_log(t.logs, y.high - u);
  }
  if (softened) {
    double tp = AT(n.o_trade, 2 * i) + length * STEP(n.o_dtrade, set, 2 * i);
    double tq = AT(n.o_trade, 2 * i + 1) + length * STEP(n.o_dtrade, set, 2 * i + 1);
    bp -= tp; bq -= tq;
    t.objective += 0.5 * FIRM * (tp * tp + tq * tq);
  }
  t.theta += absolute(bp) + absolute(bq);
}
FN void visit(const Net& n, const double* w, int lane, bool on, int set, double length, double mu, double& theta, double& phi) {
  Trial t = {0.0, 0.0, {1.0, 0}, false, {{0.0}}};
  if (on) {
    Outages out = outages(n, w);
    bool softened = (int)SCALAR(ATTEMPT) == SOFTENED;
    try_branches(n, w, out, set, length, mu, t);
    for (int q = lane; q < n.n_bus; q += LANES) try_bus(n, w, out, bus_at(n, q), set, length, mu, softened, t);
  }
  lanes_join(t.value);
  for (int r = 0; on && lane == 0 && r < ROWS; r++)
    for (int side = 0; side < 2; side++) {
      double s = ROW(r, ROW_SLACK + side) + length * ROW(r, ROW_DS + 2 * set + side);
      if (ROW(r, ROW_EXISTS + side) == 0.0) continue;
      try_limit(t, s, row_room(n, w, r, side, t.value.of[r]), ROW(r, ROW_LIMIT + side), mu);
    }
  theta = lanes_sum(t.theta);
  double outside = lanes_sum(t.outside ? 1.0 : 0.0), objective = lanes_sum(t.objective);
  double logs = lanes_sum(t.outside ? 0.0 : log_value(t.logs));
  phi = outside > 0.0 ? INFINITE : objective - mu * logs;
}

// Whether a trial is accepted; unless it lowers φ as Armijo asks, the filter remembers the point that it left.
FN bool accepts(const Net& n, double* w, double length, double theta, double phi) {
  if (!is_number(theta + phi) || theta > SCALAR(THETA_LIMIT)) return false;
  int size = (int)SCALAR(FILTER_SIZE);
  for (int k = 0; k < size; k++)
    if (!(theta < SCALAR(FILTER + 2 * k) || phi < SCALAR(FILTER + 2 * k + 1))) return false;
  double theta0 = SCALAR(THETA), phi0 = SCALAR(PHI), slope = SCALAR(SLOPE), forgiven = ROUNDING * absolute(phi0);
  if (slope < 0.0 && theta0 <= THETA_MIN && length * pow(-slope, S_PHI) > DELTA * pow(theta0, S_THETA))
    return phi - phi0 <= ETA_PHI * length * slope + forgiven;
  if (!(theta <= (1.0 - GAMMA_THETA) * theta0 || phi - phi0 <= forgiven - GAMMA_PHI * theta0)) return false;
  double new_theta = (1.0 - GAMMA_THETA) * theta0, new_phi = phi0 - GAMMA_PHI * theta0;
  int kept = 0;
  for (int k = 0; k < size; k++) {
    double a = SCALAR(FILTER + 2 * k), b = SCALAR(FILTER + 2 * k + 1);
    if (a >= new_theta && b >= new_phi) continue;
    SCALAR(FILTER + 2 * kept) = a;
    SCALAR(FILTER + 2 * kept + 1) = b;
    kept++;
  }
  if (kept == FILTER_CAPACITY) kept--;
  SCALAR(FILTER + 2 * kept) = new_theta;
  SCALAR(FILTER + 2 * kept + 1) = new_phi;
  SCALAR(FILTER_SIZE) = kept + 1;
  return true;
}
FN double shortest_length(double theta, double slope) {
  double least = GAMMA_THETA;
  if (slope < 0.0) {
    least = least_of(least, GAMMA_PHI * theta / -slope);
    if (theta <= THETA_MIN) least = least_of(least, DELTA * pow(theta, S_THETA) / pow(-slope, S_PHI));
  }
  return GAMMA_ALPHA * least;
}

FN void accept_step(const Net& n, double* w, int set, double length, double dual) {
  SCALAR(STATE) = RUNNING; SCALAR(SET) = set; SCALAR(LENGTH) = length; SCALAR(DUAL_LENGTH) = dual;
  SCALAR(ITERATIONS) = SCALAR(ITERATIONS) + 1.0;
  double running = length < SHORT_STEP ? SCALAR(SHORT_STEPS) + 1.0 : 0.0;
  SCALAR(SHORT_STEPS) = running;
  int attempt = (int)SCALAR(ATTEMPT);
  bool patient = attempt == SOFTENED || attempt == AFTER_SOFTENED || attempt == THIN || is_held(attempt);
  if (running >= PATIENCE && !patient) finish(n, w, STALLED);
}
FN void refuse_step(const Net& n, double* w) {
  SCALAR(LENGTH) = 0.0;
  SCALAR(STATE) = RUNNING;
  SCALAR(ITERATIONS) = SCALAR(ITERATIONS) + 1.0;
  if (SCALAR(FREE) != 0.0) { hold_barrier(n, w, SCALAR(MEAN_PRODUCT)); return; }
  double tolerance = tolerance_of(n, w);
  bool rounded = SCALAR(PRIMAL) <= tolerance && SCALAR(LARGEST_PRODUCT_) <= ROUNDED_PRODUCT * tolerance &&
                 SCALAR(DUAL) <= ROUNDED_DUAL * tolerance;
  finish(n, w, rounded ? ROUNDED : NO_STEP);
}

FN void phase_search(const Net& n, double* w, int lane) {
  int state = (int)SCALAR(STATE);
  bool on = state == READY || state == SEARCHING || state == CORRECTING;
  if (!any_lane(on)) return;
  double mu = SCALAR(MU), dual = SCALAR(DUAL_LENGTH), theta0 = SCALAR(THETA), slope = SCALAR(SLOPE);
  double length = state == CORRECTING ? SCALAR(LENGTH_CORRECTED) : SCALAR(LENGTH);
  double shortest = shortest_length(theta0, slope), before = SCALAR(THETA_BEFORE), refused = SCALAR(LENGTH_BEFORE);
  double corrected_dual = SCALAR(DUAL_CORRECTED), corrections = SCALAR(CORRECTIONS);
  bool first = state == READY, correcting = state == CORRECTING, tiny = state == READY && SCALAR(RELATIVE) < TINY_STEP;
  lanes_meet();  // every lane has read the slot's scalars before the first lane writes them
  if (on && tiny && lane == 0) accept_step(n, w, 0, length, dual);
  on = on && !tiny;
  for (int trial = 0; trial < TRIALS && any_lane(on); trial++) {
    double theta, phi;
    visit(n, w, lane, on, correcting ? 1 : 0, length, mu, theta, phi);
    if (on && lane == 0) {  // one lane decides for all of its slot
      if (accepts(n, w, length, theta, phi)) {
        accept_step(n, w, correcting ? 1 : 0, length, correcting ? corrected_dual : dual);
        on = false;
      } else if (correcting && corrections + 1.0 < P_MAX && theta < KAPPA_SOC * before) {
        SCALAR(CORRECTIONS) = corrections + 1.0; SCALAR(THETA_BEFORE) = theta;
        on = false;
      } else if (first && !n.lean && SCALAR(SINCE_BEST) < n.correct_until && theta >= theta0 && is_number(theta)) {
        SCALAR(STATE) = CORRECTING; SCALAR(CORRECTIONS) = 0.0; SCALAR(THETA_BEFORE) = theta;
        SCALAR(LENGTH_BEFORE) = length; SCALAR(LENGTH_CORRECTED) = length;
        on = false;
      } else {
        length = BACKTRACK * (correcting ? refused : length);
        correcting = false;
        SCALAR(STATE) = SEARCHING; SCALAR(LENGTH) = length;
      }
      if (on && !(length > shortest)) { refuse_step(n, w); on = false; }
    }
    first = false;
    on = from_first_lane(on);
    correcting = from_first_lane(correcting);
    length = from_first_lane(length);
  }
}

template <class T> FN T near_centre(T multiplier, T distance, double mu) {
  T centre = mu * inverse(distance);
  return least_of(most_of(multiplier, centre * (1.0 / KAPPA_SIGMA)), centre * KAPPA_SIGMA);
}
// All limits of a row are fetched before any is written, whether they exist or not: loads behind branches or stores would wait
// for each other.
template <int COUNT>
FN void move_limits_at(const Net& n, double* w, int at, int flags, int set, const double* h, double length, double dual,
                       double mu) {
  double s[COUNT], ds[COUNT], l[COUNT], dl[COUNT];
  load_run<COUNT>(w, n.o_slack + at, s);
  load_run<COUNT>(w, n.o_limit + at, l);
  load_run<COUNT>(w, n.o_ds + set * n.n_step + at, ds);
  load_run<COUNT>(w, n.o_dl + set * n.n_step + at, dl);
#pragma unroll
  for (int k = 0; k < COUNT; k++) {
    double moved = widened(s[k] + length * ds[k], h[k], l[k], mu), multiplier = near_centre(l[k] + dual * dl[k], moved, mu);
    if (flags >> k & 1) { AT(n.o_slack, at + k) = moved; AT(n.o_limit, at + k) = multiplier; }
  }
}
FN void move_limits(const Net& n, double* w, const Outages& out, int i, int set, double length, double dual, double mu) {
  int i_bus = i;
  double va = AT(n.o_point, 4 * i), v = AT(n.o_point, 4 * i + 1), room[2] = {v - V(2), V(3) - v};
  move_limits_at<2>(n, w, 4 * n.n_branch + 2 * i, constant(n.bus_flag + i), set, room, length, dual, mu);
  for (int q = constant(n.end_ptr + i); !WIDE && q < constant(n.end_ptr + i + 1); q++) {
    End e = end_at(n, out, q);
    if (e.is_to) continue;
    const double* c = e.c;
    double va2 = AT(n.o_point, 4 * e.far), v2 = AT(n.o_point, 4 * e.far + 1), angle = va - va2, sn, cs, pf, qf, pt, qt;
    sine_cosine(angle, sn, cs);
    end_flow(c, v, v2, cs, sn, pf, qf);
    end_flow(c + 6, v2, v, cs, sn, pt, qt);
    double h[4] = {C(13) * (pf * pf + qf * qf - C(12)), C(13) * (pt * pt + qt * qt - C(12)), angle - C(14), C(15) - angle};
    move_limits_at<4>(n, w, 4 * e.branch, e.flags, set, h, length, dual, mu);
  }
}

FN void phase_step(const Net& n, double* w, int lane) {
  double length = SCALAR(LENGTH), dual = SCALAR(DUAL_LENGTH), mu = SCALAR(MU);
  bool on = (int)SCALAR(STATE) == RUNNING && length > 0.0;
  if (!any_lane(on)) return;
  int set = (int)SCALAR(SET);
  bool softened = (int)SCALAR(ATTEMPT) == SOFTENED;
  for (int i = lane; on && i < n.n_bus; i += LANES) {
    double x[4], y[4];
    load_run<4>(w, n.o_x + 4 * i, x);
    load_run<4>(w, n.o_point + 4 * i, y);
    if (set) {
#pragma unroll
      for (int e = 0; e < 4; e++) x[e] += STEP(n.o_x, 1, 4 * i + e);
    }
#pragma unroll
    for (int e = 0; e < 4; e++) y[e] += (e < 2 ? length : dual) * x[e];
    store_run<4>(w, n.o_point + 4 * i, y);
    for (int e = 0; softened && e < 2; e++) AT(n.o_trade, 2 * i + e) += length * STEP(n.o_dtrade, set, 2 * i + e);
  }
  lanes_meet();
  Outages out = outages(n, w);
  if (on) move_branches(n, w, out, set, length, dual, mu);
  for (int q = lane; on && q < n.n_bus; q += LANES) move_limits(n, w, out, bus_at(n, q), set, length, dual, mu);
  RowSums value = {{0.0}};
  for (int k = lane; on && k < n.n_local; k += LANES) {
    Local y = local_at(n, w, k);
    if (!y.is_free) { add_value(value, y, AT(n.o_u, k)); continue; }
    double u = AT(n.o_u, k) + length * STEP(n.o_du, set, k), zl = AT(n.o_z_low, k), zh = AT(n.o_z_high, k);
    double dl = STEP(n.o_dz_low, set, k), dh = STEP(n.o_dz_high, set, k);
    AT(n.o_u, k) = u;
    add_value(value, y, u);
    AT(n.o_z_low, k) = y.has_low ? near_centre(zl + dual * dl, u - y.low, mu) : 0.0;
    AT(n.o_z_high, k) = y.has_high ? near_centre(zh + dual * dh, y.high - u, mu) : 0.0;
  }
  lanes_join(value);
  lanes_meet();  // nobody needs the rows' multipliers of the last iterate any more
  for (int r = 0; on && lane == 0 && r < ROWS; r++) {
    ROW(r, ROW_VALUE) = value.of[r];
    for (int side = 0; side < 2; side++) {
      if (ROW(r, ROW_EXISTS + side) == 0.0) continue;
      double l = ROW(r, ROW_LIMIT + side), s = ROW(r, ROW_SLACK + side) + length * ROW(r, ROW_DS + 2 * set + side);
      s = widened(s, row_room(n, w, r, side, value.of[r]), l, mu);
      ROW(r, ROW_SLACK + side) = s;
      ROW(r, ROW_LIMIT + side) = near_centre(l + dual * ROW(r, ROW_DL + 2 * set + side), s, mu);
    }
  }
}
