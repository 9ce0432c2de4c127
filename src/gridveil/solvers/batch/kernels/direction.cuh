// The Newton direction: a predictor to products of zero, the corrector (Mehrotra 1992), second-order corrections, and the
// steps of slacks and multipliers that follow from those of the variables.

FN void shorten(Lengths& a, double s, double ds, double l, double dl, double fraction) {
  if (a.primal * ds < -fraction * s) a.primal = -fraction * s * inverse(ds);
  if (a.dual * dl < -fraction * l) a.dual = -fraction * l * inverse(dl);
}

FN void phase_predict(const Net& n, double* w, int lane) {
  bool on = (int)SCALAR(STATE) == READY && SCALAR(FREE) != 0.0;
  if (!any_lane(on)) return;
  substitute_backward<1>(n, w, lane, n.o_x, on);  // the forward half ran with the factorisation
  meet_rows(n, w, lane, on, 0, PREDICTED);
}

struct Predictor { Lengths length; double s0, s1, s2, s3; RowSums change; };
// The predictor's step of one limit: its product with the multiplier's step, which Newton's method neglects.
template <class P, class T> FN T predict_limit(P& p, bool counts, T l, T s, T k, T h, T change) {
  T dl = k * (change + h), ds = -s - s * dl * inverse(l);
  if (counts) {
    shorten(p.length, s, ds, l, dl, 1.0);
    p.s0 += s * l; p.s1 += ds * l; p.s2 += s * dl; p.s3 += ds * dl;
  }
  return ds * dl;
}

FN void predict_bus(const Net& n, double* w, const float* soft, const Outages& out, int i, double shift, double most,
                    Predictor& p) {
  int i_bus = i, flags = constant(n.bus_flag + i), at = 4 * n.n_branch + 2 * i;
  double g0 = 0.0, g1 = 0.0, at_bus[2], step[2];
  load_run<2>(w, n.o_point + 4 * i, at_bus);
  load_run<2>(w, n.o_x + 4 * i, step);
  double va = at_bus[0], v = at_bus[1], xa = step[0], xv = step[1];
#pragma unroll
  for (int e = 0; e < 2; e++) {
    double l = AT(n.o_limit, at + e), s = AT(n.o_slack, at + e), sign = e ? -1.0 : 1.0;
    double k = capped(l, s, soft[(at + e) * WIDTH] * V(4));
    if (!(flags >> e & 1)) continue;
    double q = predict_limit(p, true, l, s, k, e ? V(3) - v : v - V(2), sign * xv);
    STEP(n.o_ds, 0, at + e) = q;
    g1 += sign * k * inverse(l) * within(q, most);
  }
  for (int q = constant(n.end_ptr + i); !WIDE && q < constant(n.end_ptr + i + 1); q++) {
    End e = end_at(n, out, q);
    if (is_out(out, e.branch)) continue;
    double there[2], step2[2];
    load_run<2>(w, n.o_point + 4 * e.far, there);
    load_run<2>(w, n.o_x + 4 * e.far, step2);
    double va2 = there[0], v2 = there[1], xa2 = step2[0], xv2 = step2[1];
    Limits l;
    Branch b;
    load_limits(n, w, soft, e.branch, l);
    double across = e.is_to ? xa2 - xa : xa - xa2, xf = e.is_to ? xv2 : xv, xt = e.is_to ? xv : xv2;
    evaluate_branch(e.c, e.is_to ? v2 : v, e.is_to ? v : v2, e.is_to ? va2 - va : va - va2, b);
    find_stiffness(e.c, b, l);
    double change[4] = {b.lfa * across + b.lff * xf + b.lft * xt, b.lta * across + b.ltf * xf + b.ltt * xt, across, -across};
    double value[4] = {b.hf, b.ht, b.hu, b.hl}, push[4], product[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
      bool exists = e.flags >> k & 1;
      product[k] = exists ? predict_limit(p, !e.is_to, l.l[k], l.s[k], l.k[k], value[k], change[k]) : 0.0;
      push[k] = exists ? l.k[k] * inverse(l.l[k]) * within(product[k], most) : 0.0;
    }
    double pa = push[0] * b.lfa + push[1] * b.lta + push[2] - push[3];
    if (e.is_to) { g0 -= pa; g1 += push[0] * b.lft + push[1] * b.ltt; continue; }
    g0 += pa;
    g1 += push[0] * b.lff + push[1] * b.ltf;
    store_run<4>(w, n.o_ds + 4 * e.branch, product);
  }
  add_pushes(i, g0, g1);
  int fixed = constant(n.fixed + i);
  if (!(fixed & 1)) AT(n.o_right, 4 * i) += g0;
  if (!(fixed & 2)) AT(n.o_right, 4 * i + 1) += g1;
  for (int k = constant(n.local_ptr + i); k < constant(n.local_ptr + i + 1); k++) {
    Local y = local_at(n, w, k);
    if (!y.is_free) continue;
    double u = AT(n.o_u, k), zl = AT(n.o_z_low, k), zh = AT(n.o_z_high, k), below = u - y.low, above = y.high - u;
    double right = y.sign * AT(n.o_point, 4 * i + 2 + y.row) - y.curvature * u - y.slope - pull_of_rows(n, w, y, u, 0);
    double du = (right + y.sign * STEP(n.o_x, 0, 4 * i + 2 + y.row)) * inverse(local_pivot(y, zl, zh, u, shift));
    double dl = y.has_low ? -zl * du * inverse(below) - zl : 0.0, dh = y.has_high ? zh * du * inverse(above) - zh : 0.0;
    add_change(p.change, y, u, du);
    shorten(p.length, below, du, zl, dl, 1.0);
    shorten(p.length, above, -du, zh, dh, 1.0);
    p.s0 += below * zl + above * zh; p.s1 += du * zl - du * zh; p.s2 += below * dl + above * dh; p.s3 += du * dl - du * dh;
    STEP(n.o_dz_low, 0, k) = du * dl;
    STEP(n.o_dz_high, 0, k) = -du * dh;
  }
}

FN void predict_rows(const Net& n, double* w, Predictor& p) {
  for (int r = 0; r < ROWS; r++)
    for (int side = 0; side < 2; side++) {
      if (ROW(r, ROW_EXISTS + side) == 0.0) continue;
      double l = ROW(r, ROW_LIMIT + side), s = ROW(r, ROW_SLACK + side), change = side ? -p.change.of[r] : p.change.of[r];
      double h = row_room(n, w, r, side, ROW(r, ROW_VALUE));
      ROW(r, ROW_DS + side) = predict_limit(p, true, l, s, row_stiffness(n, w, r, side), h, change);
    }
}

FN void phase_aim(const Net& n, double* w, const float* soft, int lane) {
  bool on = (int)SCALAR(STATE) == READY && SCALAR(FREE) != 0.0;
  if (!any_lane(on)) return;
  Predictor p = {{1.0, 1.0}, 0.0, 0.0, 0.0, 0.0, {{0.0}}};
  double mean = SCALAR(MEAN_PRODUCT);
  if (on) {
    Outages out = outages(n, w);
    double shift = SCALAR(SHIFT);
    predict_branches(n, w, soft, out, MOST_CORRECTED * mean, p);
    for (int q = lane; q < n.n_bus; q += LANES)
      predict_bus(n, w, soft, out, bus_at(n, q), shift, MOST_CORRECTED * mean, p);
  }
  lanes_join(p.change);
  if (on && lane == 0) predict_rows(n, w, p);
  double primal = lanes_min(p.length.primal), dual = lanes_min(p.length.dual), before = lanes_sum(p.s0);
  double after = before + primal * lanes_sum(p.s1) + dual * lanes_sum(p.s2) + primal * dual * lanes_sum(p.s3);
  if (!on || lane != 0) return;
  double ratio = after / before, share = least_of(most_of(ratio * ratio * ratio, SIGMA_MIN), 1.0);
  if (SCALAR(SHORT_STEPS) > 0.0 && mean < AHEAD * SCALAR(PRIMAL)) share = RECENTRED;
  SCALAR(MU) = most_of(LEAST_MU * tolerance_of(n, w), share * mean);
}

// One more correction: to what the constraints are now (c = h + s) add what they were found to be at the refused point.
// What is stored is the surplus of that over c; the system being linear, its solution is what the correction adds.
FN double surplus(const Net& n, double* w, int at, double c, double length, bool first, double met) {
  double before = first ? c : AT(n.o_surplus, at) + c, now = length * before + met - c;
  AT(n.o_surplus, at) = now;
  return now;
}
FN double widened(double s, double h, double multiplier, double mu) {
  double r = h + s;
  return r < 0.0 && multiplier * (s - r) <= WIDEST_PRODUCT * mu ? s - r : s;
}
// Angle and magnitude of a bus after a step; the correction's step adds to the Newton step.
FN void moved_voltage(const Net& n, const double* w, int i, int set, double length, double& va, double& v) {
  double from[2], step[2], more[2] = {0.0};
  load_run<2>(w, n.o_point + 4 * i, from);
  load_run<2>(w, n.o_x + 4 * i, step);
  if (set) load_run<2>(w, n.o_x + n.n_step + 4 * i, more);
  va = from[0] + length * (step[0] + more[0]);
  v = from[1] + length * (step[1] + more[1]);
}

FN void surplus_bus(const Net& n, double* w, const Outages& out, int i, int set, double length, double mu, bool first,
                    bool softened, RowSums& value) {
  int i_bus = i, flags = constant(n.bus_flag + i), at = 4 * n.n_branch + 2 * i;
  double va0 = AT(n.o_point, 4 * i), v0 = AT(n.o_point, 4 * i + 1), va, v;
  moved_voltage(n, w, i, set, length, va, v);
  double bp = AT(n.o_draw, 2 * i) + V(0) * v * v, bq = AT(n.o_draw, 2 * i + 1) + V(1) * v * v;
#pragma unroll
  for (int e = 0; e < 2; e++) {
    double h0 = e ? V(3) - v0 : v0 - V(2), h = e ? V(3) - v : v - V(2), s0 = AT(n.o_slack, at + e);
    double s = widened(s0 + length * STEP(n.o_ds, set, at + e), h, AT(n.o_limit, at + e), mu);
    if (flags >> e & 1) surplus(n, w, at + e, h0 + s0, length, first, h + s);
  }
  for (int q = constant(n.end_ptr + i); !WIDE && q < constant(n.end_ptr + i + 1); q++) {
    End e = end_at(n, out, q);
    if (is_out(out, e.branch)) continue;
    double va2, v2;
    moved_voltage(n, w, e.far, set, length, va2, v2);
    Branch b, b0;
    evaluate_branch(e.c, e.is_to ? v2 : v, e.is_to ? v : v2, e.is_to ? va2 - va : va - va2, b);
    if (e.is_to) { bp += b.pt; bq += b.qt; continue; }
    bp += b.pf; bq += b.qf;
    evaluate_branch(e.c, v0, AT(n.o_point, 4 * e.far + 1), va0 - AT(n.o_point, 4 * e.far), b0);
    double h0[4] = {b0.hf, b0.ht, b0.hu, b0.hl}, h[4] = {b.hf, b.ht, b.hu, b.hl};
#pragma unroll
    for (int k = 0; k < 4; k++) {
      int at = 4 * e.branch + k;
      double s0 = AT(n.o_slack, at), s = widened(s0 + length * STEP(n.o_ds, set, at), h[k], AT(n.o_limit, at), mu);
      if (e.flags >> k & 1) surplus(n, w, at, h0[k] + s0, length, first, h[k] + s);
    }
  }
  add_flows(i, bp, bq);
  for (int k = constant(n.local_ptr + i); k < constant(n.local_ptr + i + 1); k++) {
    Local y = local_at(n, w, k);
    double u = AT(n.o_u, k) + (y.is_free ? length * STEP(n.o_du, set, k) : 0.0);
    if (y.row) bq -= y.sign * u; else bp -= y.sign * u;
    add_value(value, y, u);
  }
  if (softened) {
    bp -= AT(n.o_trade, 2 * i) + length * STEP(n.o_dtrade, set, 2 * i);
    bq -= AT(n.o_trade, 2 * i + 1) + length * STEP(n.o_dtrade, set, 2 * i + 1);
  }
  STEP(n.o_x, 1, 4 * i + 2) = -surplus(n, w, n.n_limit + 2 * i, -AT(n.o_right, 4 * i + 2), length, first, bp);
  STEP(n.o_x, 1, 4 * i + 3) = -surplus(n, w, n.n_limit + 2 * i + 1, -AT(n.o_right, 4 * i + 3), length, first, bq);
}

FN void surplus_right(const Net& n, double* w, const float* soft, const Outages& out, int i) {
  int i_bus = i, flags = constant(n.bus_flag + i), at = 4 * n.n_branch + 2 * i, fixed = constant(n.fixed + i);
  double va = AT(n.o_point, 4 * i), v = AT(n.o_point, 4 * i + 1), g0 = 0.0, g1 = 0.0;
#pragma unroll
  for (int e = 0; e < 2; e++) {
    double k = capped(AT(n.o_limit, at + e), AT(n.o_slack, at + e), soft[(at + e) * WIDTH] * V(4));
    if (flags >> e & 1) g1 += (e ? -k : k) * AT(n.o_surplus, at + e);
  }
  for (int q = constant(n.end_ptr + i); !WIDE && q < constant(n.end_ptr + i + 1); q++) {
    End e = end_at(n, out, q);
    if (is_out(out, e.branch)) continue;
    double va2 = AT(n.o_point, 4 * e.far), v2 = AT(n.o_point, 4 * e.far + 1), push[4];
    Limits l;
    Branch b;
    load_limits(n, w, soft, e.branch, l);
    evaluate_branch(e.c, e.is_to ? v2 : v, e.is_to ? v : v2, e.is_to ? va2 - va : va - va2, b);
    find_stiffness(e.c, b, l);
#pragma unroll
    for (int k = 0; k < 4; k++) push[k] = (e.flags >> k & 1) ? l.k[k] * AT(n.o_surplus, 4 * e.branch + k) : 0.0;
    double pa = push[0] * b.lfa + push[1] * b.lta + push[2] - push[3];
    g0 += e.is_to ? -pa : pa;
    g1 += e.is_to ? push[0] * b.lft + push[1] * b.ltt : push[0] * b.lff + push[1] * b.ltf;
  }
  add_pushes(i, g0, g1);
  STEP(n.o_x, 1, 4 * i) = (fixed & 1) ? 0.0 : -g0;
  STEP(n.o_x, 1, 4 * i + 1) = (fixed & 2) ? 0.0 : -g1;
}

FN void surplus_rows(const Net& n, double* w, const RowSums& value, int set, double length, double mu, bool first) {
  for (int r = 0; r < ROWS; r++)
    for (int side = 0; side < 2; side++) {
      if (ROW(r, ROW_EXISTS + side) == 0.0) continue;
      double s0 = ROW(r, ROW_SLACK + side), h = row_room(n, w, r, side, value.of[r]);
      double s = widened(s0 + length * ROW(r, ROW_DS + 2 * set + side), h, ROW(r, ROW_LIMIT + side), mu);
      double c = row_room(n, w, r, side, ROW(r, ROW_VALUE)) + s0, before = first ? c : ROW(r, ROW_SURPLUS + side) + c;
      ROW(r, ROW_SURPLUS + side) = length * before + h + s - c;
    }
}

FN void phase_surplus(const Net& n, double* w, const float* soft, int lane) {
  bool on = (int)SCALAR(STATE) == CORRECTING;
  if (!any_lane(on)) return;
  Outages out = outages(n, w);
  bool first = SCALAR(CORRECTIONS) == 0.0, softened = (int)SCALAR(ATTEMPT) == SOFTENED;
  double length = SCALAR(LENGTH_CORRECTED), mu = SCALAR(MU);
  RowSums value = {{0.0}};
  if (on) surplus_branches(n, w, out, first ? 0 : 1, length, mu, first);
  for (int q = lane; on && q < n.n_bus; q += LANES)
    surplus_bus(n, w, out, bus_at(n, q), first ? 0 : 1, length, mu, first, softened, value);
  lanes_join(value);
  if (on && lane == 0) surplus_rows(n, w, value, first ? 0 : 1, length, mu, first);
  lanes_meet();
  if (on) push_branches(n, w, soft, out);
  for (int q = lane; on && q < n.n_bus; q += LANES) surplus_right(n, w, soft, out, bus_at(n, q));
}

// Right-hand side of the corrector; that of a second-order correction stands already.
FN void corrector_right(const Net& n, double* w, int i, double shift, double mu, double most, bool is_free, bool softened) {
  double x2 = AT(n.o_right, 4 * i + 2), x3 = AT(n.o_right, 4 * i + 3);
  for (int k = constant(n.local_ptr + i); k < constant(n.local_ptr + i + 1); k++) {
    Local y = local_at(n, w, k);
    if (!y.is_free) continue;
    double u = AT(n.o_u, k), p = local_pivot(y, AT(n.o_z_low, k), AT(n.o_z_high, k), u, shift);
    double right = y.sign * AT(n.o_point, 4 * i + 2 + y.row) - y.curvature * u - y.slope;
    if (y.has_low) right += aim_of(STEP(n.o_dz_low, 0, k), mu, most, is_free) * inverse(u - y.low);
    if (y.has_high) right -= aim_of(STEP(n.o_dz_high, 0, k), mu, most, is_free) * inverse(y.high - u);
    STEP(n.o_du, 0, k) = right;
    double share = y.sign * right * inverse(p);
    if (y.row) x3 += share; else x2 += share;
  }
  if (softened) {
    x2 += (AT(n.o_point, 4 * i + 2) - FIRM * AT(n.o_trade, 2 * i)) / (FIRM + shift);
    x3 += (AT(n.o_point, 4 * i + 3) - FIRM * AT(n.o_trade, 2 * i + 1)) / (FIRM + shift);
  }
  STEP(n.o_x, 0, 4 * i) = AT(n.o_right, 4 * i) - mu * AT(n.o_push, 2 * i);
  STEP(n.o_x, 0, 4 * i + 1) = AT(n.o_right, 4 * i + 1) - mu * AT(n.o_push, 2 * i + 1);
  STEP(n.o_x, 0, 4 * i + 2) = x2;
  STEP(n.o_x, 0, 4 * i + 3) = x3;
}

FN void phase_correct(const Net& n, double* w, int lane) {
  int state = (int)SCALAR(STATE), set = state == CORRECTING;
  bool on = state == READY || state == CORRECTING, softened = (int)SCALAR(ATTEMPT) == SOFTENED;
  if (!any_lane(on)) return;
  double shift = SCALAR(SHIFT), mu = SCALAR(MU), most = MOST_CORRECTED * SCALAR(MEAN_PRODUCT);
  bool is_free = SCALAR(FREE) != 0.0;
  for (int i = lane; state == READY && i < n.n_bus; i += LANES)
    corrector_right(n, w, i, shift, mu, most, is_free, softened);
  lanes_meet();
  int at = n.o_x + set * n.n_step;
  substitute_forward<1>(n, w, lane, at, on);
  substitute_backward<1>(n, w, lane, at, on);
  meet_rows(n, w, lane, on, set, set ? ADDED : CORRECTED);
}

struct Recovery { Lengths length; double fraction, mu, slope, objective, relative, sum; LogSum logs; RowSums change; };
template <class R, class T> FN void recover_limit(R& r, T l, T s, T k, T h, T change, T aim, T& ds, T& dl) {
  T il = inverse(l), wanted = aim * il;
  dl = k * (change + h + wanted);
  ds = wanted - s - s * dl * il;  // from complementarity: the limit itself would give it as a difference of large numbers
  shorten(r.length, s, ds, l, dl, r.fraction);
  r.slope -= r.mu * ds * inverse(s);
  add_log(r.logs, s);
}
// Raise the cap of a limit that the step would leave violated by much; c is the softness of its spring.
FN void stiffen(float* soft, double c, double dl, double most, bool reset) {
  if (reset) *soft = (float)SOFTNESS;
  else if (c * absolute(dl) > most && *soft > 2.0 * SOFTNESS_MIN) *soft = (float)(*soft * SOFTNESS_STEP);
}

FN void recover_bus(const Net& n, double* w, float* soft, const Outages& out, int i, double shift, double most_product,
                    bool is_free, bool softened, double most_left, Recovery& r) {
  int i_bus = i, flags = constant(n.bus_flag + i), at = 4 * n.n_branch + 2 * i;
  bool reset = shift > 0.0;
  double va = AT(n.o_point, 4 * i), v = AT(n.o_point, 4 * i + 1), x[4];
  load_run<4>(w, n.o_x + 4 * i, x);
  r.sum += x[0] + x[1] + x[2] + x[3];
  double longest = most_of(absolute(x[0]) * inverse(1.0 + absolute(va)), absolute(x[1]) * inverse(1.0 + absolute(v)));
  r.relative = most_of(r.relative, longest);
#pragma unroll
  for (int e = 0; e < 2; e++) {
    double l = AT(n.o_limit, at + e), s = AT(n.o_slack, at + e), q = STEP(n.o_ds, 0, at + e);
    double c = soft[(at + e) * WIDTH] * V(4), k = capped(l, s, c), ds = 0.0, dl = 0.0;
    if (flags >> e & 1) {
      recover_limit(r, l, s, k, e ? V(3) - v : v - V(2), e ? -x[1] : x[1], aim_of(q, r.mu, most_product, is_free), ds, dl);
      stiffen(soft + (at + e) * WIDTH, c, dl, most_left, reset);
    }
    STEP(n.o_ds, 0, at + e) = ds;
    STEP(n.o_dl, 0, at + e) = dl;
  }
  for (int q = constant(n.end_ptr + i); !WIDE && q < constant(n.end_ptr + i + 1); q++) {
    End e = end_at(n, out, q);
    if (e.is_to) continue;
    double there[2], step2[2], product[4], ds[4] = {0.0}, dl[4] = {0.0};
    load_run<2>(w, n.o_point + 4 * e.far, there);
    load_run<2>(w, n.o_x + 4 * e.far, step2);
    load_run<4>(w, n.o_ds + 4 * e.branch, product);
    double va2 = there[0], v2 = there[1], across = x[0] - step2[0], xv2 = step2[1];
    Limits l;
    Branch b;
    load_limits(n, w, soft, e.branch, l);
    evaluate_branch(e.c, v, v2, va - va2, b);
    find_stiffness(e.c, b, l);
    double change[4] = {b.lfa * across + b.lff * x[1] + b.lft * xv2, b.lta * across + b.ltf * x[1] + b.ltt * xv2, across,
                        -across};
    double value[4] = {b.hf, b.ht, b.hu, b.hl};
#pragma unroll
    for (int k = 0; k < 4; k++) {
      if (!(e.flags >> k & 1)) continue;
      double aim = aim_of(product[k], r.mu, most_product, is_free);
      recover_limit(r, l.l[k], l.s[k], l.k[k], value[k], change[k], aim, ds[k], dl[k]);
      stiffen(soft + (4 * e.branch + k) * WIDTH, l.softness[k], dl[k], most_left, reset);
    }
    store_run<4>(w, n.o_ds + 4 * e.branch, ds);
    store_run<4>(w, n.o_dl + 4 * e.branch, dl);
  }
  for (int k = constant(n.local_ptr + i); k < constant(n.local_ptr + i + 1); k++) {
    Local y = local_at(n, w, k);
    if (!y.is_free) continue;
    double u = AT(n.o_u, k), zl = AT(n.o_z_low, k), zh = AT(n.o_z_high, k), below = u - y.low, above = y.high - u;
    double du = STEP(n.o_du, 0, k);  // with dense rows the step itself, else what it follows from
    if (ROWS == 0) du = (du + x[2 + y.row]) * inverse(local_pivot(y, zl, zh, u, shift));
    double ib = y.has_low ? inverse(below) : 0.0, ia = y.has_high ? inverse(above) : 0.0;
    double dl = (aim_of(STEP(n.o_dz_low, 0, k), r.mu, most_product, is_free) - zl * du) * ib - zl;
    double dh = (aim_of(STEP(n.o_dz_high, 0, k), r.mu, most_product, is_free) + zh * du) * ia - zh;
    add_change(r.change, y, u, du);
    shorten(r.length, below, du, zl, dl, r.fraction);
    shorten(r.length, above, -du, zh, dh, r.fraction);
    r.slope += (y.quadratic * u + y.linear + r.mu * ia - r.mu * ib) * du;
    if (y.has_low) add_log(r.logs, below);
    if (y.has_high) add_log(r.logs, above);
    r.objective += (0.5 * y.quadratic * u + y.linear) * u;
    r.relative = most_of(r.relative, absolute(du) * inverse(1.0 + absolute(u)));
    r.sum += du;
    STEP(n.o_du, 0, k) = du;
    STEP(n.o_dz_low, 0, k) = dl;
    STEP(n.o_dz_high, 0, k) = dh;
  }
  for (int e = 0; softened && e < 2; e++) {
    double t = AT(n.o_trade, 2 * i + e), dt = (AT(n.o_point, 4 * i + 2 + e) - FIRM * t + x[2 + e]) / (FIRM + shift);
    r.slope += FIRM * t * dt;
    r.objective += 0.5 * FIRM * t * t;
    r.relative = most_of(r.relative, absolute(dt) * inverse(1.0 + absolute(t)));
    STEP(n.o_dtrade, 0, 2 * i + e) = dt;
  }
}

// Steps with a second-order correction: the Newton step plus what the surplus asks for, at the same products aimed at.
FN void correct_limit(const Net& n, double* w, Lengths& a, double fraction, int at, double l, double s, double k,
                      double change) {
  double ds0 = STEP(n.o_ds, 0, at), dl0 = STEP(n.o_dl, 0, at), il = inverse(l);
  double dl = dl0 + k * (change + AT(n.o_surplus, at)), ds = ds0 - s * (dl - dl0) * il;
  shorten(a, s, ds, l, dl, fraction);
  STEP(n.o_ds, 1, at) = ds;
  STEP(n.o_dl, 1, at) = dl;
}
FN void correct_bus(const Net& n, double* w, const float* soft, const Outages& out, int i, double shift, bool softened,
                    double fraction, Lengths& a, RowSums& change_of_rows) {
  int i_bus = i, flags = constant(n.bus_flag + i), at = 4 * n.n_branch + 2 * i;
  double va = AT(n.o_point, 4 * i), v = AT(n.o_point, 4 * i + 1), xa = STEP(n.o_x, 1, 4 * i), xv = STEP(n.o_x, 1, 4 * i + 1);
#pragma unroll
  for (int e = 0; e < 2; e++) {
    double l = AT(n.o_limit, at + e), s = AT(n.o_slack, at + e), k = capped(l, s, soft[(at + e) * WIDTH] * V(4));
    if (flags >> e & 1) correct_limit(n, w, a, fraction, at + e, l, s, k, e ? -xv : xv);
  }
  for (int q = constant(n.end_ptr + i); !WIDE && q < constant(n.end_ptr + i + 1); q++) {
    End e = end_at(n, out, q);
    if (e.is_to) continue;
    double across = xa - STEP(n.o_x, 1, 4 * e.far), xv2 = STEP(n.o_x, 1, 4 * e.far + 1);
    Limits l;
    Branch b;
    load_limits(n, w, soft, e.branch, l);
    evaluate_branch(e.c, v, AT(n.o_point, 4 * e.far + 1), va - AT(n.o_point, 4 * e.far), b);
    find_stiffness(e.c, b, l);
    double change[4] = {b.lfa * across + b.lff * xv + b.lft * xv2, b.lta * across + b.ltf * xv + b.ltt * xv2, across, -across};
#pragma unroll
    for (int k = 0; k < 4; k++)
      if (e.flags >> k & 1) correct_limit(n, w, a, fraction, 4 * e.branch + k, l.l[k], l.s[k], l.k[k], change[k]);
  }
  for (int k = constant(n.local_ptr + i); k < constant(n.local_ptr + i + 1); k++) {
    Local y = local_at(n, w, k);
    if (!y.is_free) continue;
    double u = AT(n.o_u, k), zl = AT(n.o_z_low, k), zh = AT(n.o_z_high, k), below = u - y.low, above = y.high - u;
    double pulled = y.sign * STEP(n.o_x, 1, 4 * i + 2 + y.row) - pull_of_rows(n, w, y, u, 1);
    double more = pulled * inverse(local_pivot(y, zl, zh, u, shift));
    add_change(change_of_rows, y, u, more);
    double du = STEP(n.o_du, 0, k) + more;
    double dl = STEP(n.o_dz_low, 0, k) - zl * more * inverse(below), dh = STEP(n.o_dz_high, 0, k) + zh * more * inverse(above);
    shorten(a, below, du, zl, dl, fraction);
    shorten(a, above, -du, zh, dh, fraction);
    STEP(n.o_du, 1, k) = du;
    STEP(n.o_dz_low, 1, k) = dl;
    STEP(n.o_dz_high, 1, k) = dh;
  }
  for (int e = 0; softened && e < 2; e++)
    STEP(n.o_dtrade, 1, 2 * i + e) = STEP(n.o_dtrade, 0, 2 * i + e) + STEP(n.o_x, 1, 4 * i + 2 + e) / (FIRM + shift);
}

FN void recover_rows(const Net& n, double* w, bool correcting, double most_product, bool is_free, Recovery& a) {
  for (int r = 0; r < ROWS; r++)
    for (int side = 0; side < 2; side++) {
      if (ROW(r, ROW_EXISTS + side) == 0.0) continue;
      double l = ROW(r, ROW_LIMIT + side), s = ROW(r, ROW_SLACK + side), k = row_stiffness(n, w, r, side);
      double change = side ? -a.change.of[r] : a.change.of[r], h = row_room(n, w, r, side, ROW(r, ROW_VALUE));
      double ds0 = ROW(r, ROW_DS + side), dl0 = ROW(r, ROW_DL + side), ds, dl;
      if (correcting) {
        dl = dl0 + k * (change + ROW(r, ROW_SURPLUS + side));
        ds = ds0 - s * (dl - dl0) * inverse(l);
        shorten(a.length, s, ds, l, dl, a.fraction);
      } else recover_limit(a, l, s, k, h, change, aim_of(ds0, a.mu, most_product, is_free), ds, dl);
      ROW(r, ROW_DS + 2 * correcting + side) = ds;
      ROW(r, ROW_DL + 2 * correcting + side) = dl;
    }
}

FN void phase_recover(const Net& n, double* w, float* soft, int lane) {
  int state = (int)SCALAR(STATE);
  bool on = state == READY || state == CORRECTING;
  if (!any_lane(on)) return;
  double shift = SCALAR(SHIFT), mu = SCALAR(MU);
  bool softened = (int)SCALAR(ATTEMPT) == SOFTENED;
  Recovery r = {{1.0, 1.0}, most_of(TAU_MIN, 1.0 - mu), mu, 0.0, 0.0, 0.0, 0.0, {1.0, 0}, {{0.0}}};
  double most_product = MOST_CORRECTED * SCALAR(MEAN_PRODUCT);
  bool is_free = SCALAR(FREE) != 0.0;
  if (on) {
    Outages out = outages(n, w);
    double most_left = LEFT_OVER * most_of(SCALAR(PRIMAL), tolerance_of(n, w));
    if (state == READY) recover_branches(n, w, soft, out, shift > 0.0, most_product, is_free, most_left, r);
    else correct_branches(n, w, soft, out, r.fraction, r.length);
    for (int q = lane; q < n.n_bus; q += LANES) {
      int i = bus_at(n, q);
      if (state == READY) recover_bus(n, w, soft, out, i, shift, most_product, is_free, softened, most_left, r);
      else correct_bus(n, w, soft, out, i, shift, softened, r.fraction, r.length, r.change);
    }
  }
  lanes_join(r.change);
  if (on && lane == 0) recover_rows(n, w, state == CORRECTING, most_product, is_free, r);
  double primal = lanes_min(r.length.primal), dual = lanes_min(r.length.dual), slope = lanes_sum(r.slope);
  double objective = lanes_sum(r.objective), logs = lanes_sum(log_value(r.logs)), relative = lanes_max(r.relative);
  double sum = lanes_sum(r.sum);
  if (lane != 0) return;
  if (state == CORRECTING) { SCALAR(LENGTH_CORRECTED) = primal; SCALAR(DUAL_CORRECTED) = dual; }
  if (state != READY) return;
  if (!is_number(sum) || !is_number(slope)) { finish(n, w, DIVERGED); return; }
  SCALAR(LENGTH) = primal; SCALAR(DUAL_LENGTH) = dual; SCALAR(SLOPE) = slope; SCALAR(PHI) = objective - mu * logs;
  SCALAR(RELATIVE) = relative; SCALAR(SET) = 0.0;
}
