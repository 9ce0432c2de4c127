// What each phase does with all branches of a slot, side by side (wide.cuh).
#if WIDE
struct Ends { Reals vf, vt, angle; };
FN Ends ends_of(const Net& n, const double* w, const Group& g) {
  return {rows_of_four(w, n.o_point, g.from, 1), rows_of_four(w, n.o_point, g.to, 1),
          rows_of_four(w, n.o_point, g.from, 0) - rows_of_four(w, n.o_point, g.to, 0)};
}
// Step of the voltages in a set, as it changes a branch.
FN Ends steps_of(const Net& n, const double* w, const Group& g, int set) {
  int at = n.o_x + set * n.n_step;
  return {rows_of_four(w, at, g.from, 1), rows_of_four(w, at, g.to, 1),
          rows_of_four(w, at, g.from, 0) - rows_of_four(w, at, g.to, 0)};
}
FN Ends moved_ends(const Net& n, const double* w, const Group& g, int set, double length) {
  Ends v = ends_of(n, w, g), x = steps_of(n, w, g, 0);
  if (set) { Ends more = steps_of(n, w, g, 1); x.vf += more.vf; x.vt += more.vt; x.angle += more.angle; }
  return {v.vf + length * x.vf, v.vt + length * x.vt, v.angle + length * x.angle};
}
struct Evaluated { Ends v; Reals c[BRANCH_SIZE]; BranchOf<Reals> b; LimitsOf<Reals> l; };
FN void evaluate_group(const Net& n, const double* w, const float* soft, const Group& g, Evaluated& e) {
  e.v = ends_of(n, w, g);
  load_coefficients(n, g, e.c);
  load_limits(n, w, soft, g, e.l);
  evaluate_branch((const Reals*)e.c, e.v.vf, e.v.vt, e.v.angle, e.b);
  find_stiffness((const Reals*)e.c, e.b, e.l);
}
FN void change_of_limits(const BranchOf<Reals>& b, const Ends& x, Reals* change) {
  change[0] = b.lfa * x.angle + b.lff * x.vf + b.lft * x.vt; change[1] = b.lta * x.angle + b.ltf * x.vf + b.ltt * x.vt;
  change[2] = x.angle; change[3] = -x.angle;
}

// Values of the four limits, and flows in the order of Flow, from and to.
FN void limits_at(const Reals* c, const Ends& v, Reals* h, Reals* flow) {
  Reals sn, cs;
  sine_cosine(v.angle, sn, cs);
  end_flow(c, v.vf, v.vt, cs, sn, flow[0], flow[1]);
  end_flow(c + 6, v.vt, v.vf, cs, sn, flow[2], flow[3]);
  h[0] = C(13) * (flow[0] * flow[0] + flow[1] * flow[1] - C(12)); h[1] = C(13) * (flow[2] * flow[2] + flow[3] * flow[3] - C(12));
  h[2] = v.angle - C(14); h[3] = C(15) - v.angle;
}

struct Measures { Reals primal, primal_square, theta, least, largest, sum, square, count; };
FN void measure(Measures& m, Longs exists, Reals product, Reals residual) {
  Reals p = exists ? product : all(0.0), r = exists ? residual : all(0.0), size = absolute(r);
  m.least = least_of(m.least, exists ? product : all(1e300)); m.largest = most_of(m.largest, p); m.sum += p; m.square += p * p;
  m.primal = most_of(m.primal, size); m.primal_square += r * r; m.theta += size;
  m.count += exists ? all(1.0) : all(0.0);
}
FN void join(Error& to, const Measures& m) {
  to.primal = most_of(to.primal, most_in(m.primal)); to.primal_square += sum_in(m.primal_square); to.theta += sum_in(m.theta);
  to.least = least_of(to.least, least_in(m.least)); to.largest = most_of(to.largest, most_in(m.largest));
  to.sum += sum_in(m.sum); to.square += sum_in(m.square); to.n_products += (int)sum_in(m.count);
}
FN void store_blocks(const Net& n, double* w, const Group& g, int first, const Reals* block) {
  for (int k = 0; k < SIDE && first + k < n.n_branch; k++) {
    double own[12] = {0.0};
    int fixed = n.fixed[g.from[k]], far_fixed = n.fixed[g.to[k]], code = n.branch_end[3 * g.branch[k] + 2];
    for (int e = 0; g.alive[k] && e < 12; e++) own[e] = block[e][k];
    fix_block(fixed, far_fixed, own);
    store_block(w + n.o_block + 16 * (code >> 1), code & 1, n.plain[code >> 1], own);
  }
}
static void assemble_branches(const Net& n, double* w, const float* soft, const Outages& out, Error& m) {
  Share* shares = nothing_yet<Share>(n.n_bus);
  Measures found = {all(0.0), all(0.0), all(0.0), all(1e300), all(0.0), all(0.0), all(0.0), all(0.0)};
  for (int first = 0; first < n.n_branch; first += SIDE) {
    Group g = group_at(n, out, first);
    Evaluated e;
    HessianOf<Reals> h;
    SlopesOf<Reals> s;
    ShareOf<Reals> from = {}, to = {};
    evaluate_group(n, w, soft, g, e);
    const BranchOf<Reals>& b = e.b;
    Reals pi = rows_of_four(w, n.o_point, g.from, 2), qi = rows_of_four(w, n.o_point, g.from, 3);
    Reals pj = rows_of_four(w, n.o_point, g.to, 2), qj = rows_of_four(w, n.o_point, g.to, 3);
    Reals value[4] = {b.hf, b.ht, b.hu, b.hl}, j[4];
    for (int k = 0; k < 4; k++) {
      j[k] = g.exists[k] ? e.l.k[k] * inverse(e.l.l[k]) : all(0.0);
      measure(found, g.exists[k], e.l.l[k] * e.l.s[k], value[k] + e.l.s[k]);
    }
    branch_hessian((const Reals*)e.c, e.v.vf, e.v.vt, b, e.l, pi, qi, pj, qj, h);
    branch_slopes(b, e.l, j, pi, qi, pj, qj, s);
    at_from(b, e.l, h, s, pi, qi, pj, qj, from);
    at_to(b, e.l, h, s, pi, qi, pj, qj, to);
    reach(shares, g, g.from, reinterpret_cast<const Reals*>(&from));
    reach(shares, g, g.to, reinterpret_cast<const Reals*>(&to));
    Reals block[12] = {-h.aa, -h.af, -b.pfa, -b.qfa, h.at, h.ft, b.pft, b.qft, b.pta, b.ptf, b.qta, b.qtf};
    store_blocks(n, w, g, first, block);
  }
  join(m, found);
}

using WideLengths = LengthsOf<Reals>;
FN void shorten(WideLengths& a, Reals s, Reals ds, Reals l, Reals dl, double fraction) {
  a.primal = a.primal * ds < -fraction * s ? -fraction * s * inverse(ds) : a.primal;
  a.dual = a.dual * dl < -fraction * l ? -fraction * l * inverse(dl) : a.dual;
}
FN void join(Lengths& to, const WideLengths& from) {
  to.primal = least_of(to.primal, least_in(from.primal)); to.dual = least_of(to.dual, least_in(from.dual));
}
FN void reach_with_pushes(Push* pushes, const Group& g, const BranchOf<Reals>& b, const Reals* push) {
  Reals pa = push[0] * b.lfa + push[1] * b.lta + push[2] - push[3];
  Reals from[2] = {pa, push[0] * b.lff + push[1] * b.ltf}, to[2] = {-pa, push[0] * b.lft + push[1] * b.ltt};
  reach(pushes, g, g.from, from);
  reach(pushes, g, g.to, to);
}
struct Predictors { WideLengths length; Reals s0, s1, s2, s3; };
static void predict_branches(const Net& n, double* w, const float* soft, const Outages& out, double most, Predictor& p) {
  Push* pushes = nothing_yet<Push>(n.n_bus);
  Predictors found = {{all(1.0), all(1.0)}, all(0.0), all(0.0), all(0.0), all(0.0)};
  for (int first = 0; first < n.n_branch; first += SIDE) {
    Group g = group_at(n, out, first);
    Evaluated e;
    evaluate_group(n, w, soft, g, e);
    const BranchOf<Reals>& b = e.b;
    Reals change[4], value[4] = {b.hf, b.ht, b.hu, b.hl}, push[4], product[4], zero = all(0.0);
    change_of_limits(b, steps_of(n, w, g, 0), change);
    for (int k = 0; k < 4; k++) {  // a limit that does not exist has no slack to lose
      Longs exists = g.exists[k];
      Reals l = exists ? e.l.l[k] : all(1.0), s = exists ? e.l.s[k] : zero, stiffness = exists ? e.l.k[k] : zero;
      product[k] = predict_limit(found, true, l, s, stiffness, value[k], change[k]);
      push[k] = stiffness * inverse(l) * within(product[k], all(most));
    }
    reach_with_pushes(pushes, g, b, push);
    store_rows_of_four(w, n.o_ds, g, product);
  }
  join(p.length, found.length);
  p.s0 += sum_in(found.s0); p.s1 += sum_in(found.s1); p.s2 += sum_in(found.s2); p.s3 += sum_in(found.s3);
}

static void surplus_branches(const Net& n, double* w, const Outages& out, int set, double length, double mu, bool first) {
  Flow* flows = nothing_yet<Flow>(n.n_bus);
  for (int begin = 0; begin < n.n_branch; begin += SIDE) {
    Group g = group_at(n, out, begin);
    Reals c[BRANCH_SIZE], h0[4], h[4], flow[4], surplus[4];
    load_coefficients(n, g, c);
    limits_at(c, ends_of(n, w, g), h0, flow);
    limits_at(c, moved_ends(n, w, g, set, length), h, flow);
    for (int k = 0; k < 4; k++) {
      Reals s0 = rows_of_four(w, n.o_slack, g.branch, k), l = rows_of_four(w, n.o_limit, g.branch, k);
      Reals s = widened(s0 + length * rows_of_four(w, n.o_ds + set * n.n_step, g.branch, k), h[k], l, mu), c0 = h0[k] + s0;
      Reals before = first ? c0 : rows_of_four(w, n.o_surplus, g.branch, k) + c0;
      surplus[k] = length * before + h[k] + s - c0;
    }
    store_rows_of_four(w, n.o_surplus, g, surplus);
    reach(flows, g, g.from, flow);
    reach(flows, g, g.to, flow + 2);
  }
}
static void push_branches(const Net& n, const double* w, const float* soft, const Outages& out) {
  Push* pushes = nothing_yet<Push>(n.n_bus);
  for (int first = 0; first < n.n_branch; first += SIDE) {
    Group g = group_at(n, out, first);
    Evaluated e;
    evaluate_group(n, w, soft, g, e);
    Reals push[4];
    for (int k = 0; k < 4; k++)
      push[k] = g.exists[k] ? e.l.k[k] * rows_of_four(w, n.o_surplus, g.branch, k) : all(0.0);
    reach_with_pushes(pushes, g, e.b, push);
  }
}
static void correct_branches(const Net& n, double* w, const float* soft, const Outages& out, double fraction, Lengths& a) {
  WideLengths found = {all(1.0), all(1.0)};
  for (int first = 0; first < n.n_branch; first += SIDE) {
    Group g = group_at(n, out, first);
    Evaluated e;
    evaluate_group(n, w, soft, g, e);
    Reals change[4], ds[4], dl[4], one = all(1.0), zero = all(0.0);
    change_of_limits(e.b, steps_of(n, w, g, 1), change);
    for (int k = 0; k < 4; k++) {
      Longs exists = g.exists[k];
      Reals ds0 = exists ? rows_of_four(w, n.o_ds, g.branch, k) : zero, l = exists ? e.l.l[k] : one;
      Reals dl0 = exists ? rows_of_four(w, n.o_dl, g.branch, k) : zero, s = exists ? e.l.s[k] : one;
      Reals surplus = exists ? change[k] + rows_of_four(w, n.o_surplus, g.branch, k) : zero;
      dl[k] = dl0 + e.l.k[k] * surplus;
      ds[k] = ds0 - s * (dl[k] - dl0) * inverse(l);
      shorten(found, s, ds[k], l, dl[k], fraction);
    }
    store_rows_of_four(w, n.o_ds + n.n_step, g, ds);
    store_rows_of_four(w, n.o_dl + n.n_step, g, dl);
  }
  join(a, found);
}

#if ROWS > 0
static void refine_branches(const Net& n, const double* w, const float* soft, const Outages& out) {
  Residual* residuals = nothing_yet<Residual>(n.n_bus);
  for (int first = 0; first < n.n_branch; first += SIDE) {
    Group g = group_at(n, out, first);
    Evaluated e;
    HessianOf<Reals> h;
    evaluate_group(n, w, soft, g, e);
    const BranchOf<Reals>& b = e.b;
    Reals price[4], y[4];
    for (int k = 0; k < 4; k++) {  // active and reactive, from and to
      const int* bus = k < 2 ? g.from : g.to;
      price[k] = rows_of_four(w, n.o_point, bus, 2 + k % 2);
      y[k] = rows_of_four(w, n.o_x, bus, 2 + k % 2);
    }
    Ends x = steps_of(n, w, g, 0);
    branch_hessian((const Reals*)e.c, e.v.vf, e.v.vt, b, e.l, price[0], price[1], price[2], price[3], h);
    Reals from[4], to[4];
    residual_at_from(b, h, x.angle, x.vf, x.vt, y, from);
    residual_at_to(b, h, x.angle, x.vf, x.vt, y, to);
    reach(residuals, g, g.from, from);
    reach(residuals, g, g.to, to);
  }
}
#endif

struct Recoveries { WideLengths length; double fraction, mu; Reals slope; LogSums logs; };
// As stiffen: hardly any limit is left violated by much.
FN void stiffen(const Group& g, float* soft, int e, Reals c, Reals dl, double most, bool reset) {
  Longs some = reset ? g.exists[e] : g.exists[e] & (c * absolute(dl) > most);
  if (!any_in(some)) return;
  for (int k = 0; k < SIDE; k++)
    if (some[k]) stiffen(soft + 4 * g.branch[k] + e, (double)c[k], (double)dl[k], most, reset);
}
static void recover_branches(const Net& n, double* w, float* soft, const Outages& out, bool reset, double most_product,
                             bool is_free, double most_left, Recovery& r) {
  Recoveries found = {{all(1.0), all(1.0)}, r.fraction, r.mu, all(0.0), {all(1.0), Longs{}}};
  for (int first = 0; first < n.n_branch; first += SIDE) {
    Group g = group_at(n, out, first);
    Evaluated e;
    evaluate_group(n, w, soft, g, e);
    const BranchOf<Reals>& b = e.b;
    Reals change[4], value[4] = {b.hf, b.ht, b.hu, b.hl}, ds[4], dl[4], one = all(1.0), zero = all(0.0);
    change_of_limits(b, steps_of(n, w, g, 0), change);
    for (int k = 0; k < 4; k++) {  // a limit that does not exist is where it should be
      Longs exists = g.exists[k];
      Reals product = rows_of_four(w, n.o_ds, g.branch, k);
      Reals aim = is_free ? r.mu - within(product, all(most_product)) : all(r.mu);
      Reals l = exists ? e.l.l[k] : one, s = exists ? e.l.s[k] : one, stiffness = exists ? e.l.k[k] : zero;
      recover_limit(found, l, s, stiffness, value[k], change[k], exists ? aim : one, ds[k], dl[k]);
      stiffen(g, soft, k, e.l.softness[k], dl[k], most_left, reset);
    }
    store_rows_of_four(w, n.o_ds, g, ds);
    store_rows_of_four(w, n.o_dl, g, dl);
  }
  join(r.length, found.length);
  join(r.logs, found.logs);
  r.slope += sum_in(found.slope);
}

struct Trials { Reals theta; LogSums logs; Longs outside; };
static void try_branches(const Net& n, const double* w, const Outages& out, int set, double length, double mu, Trial& t) {
  Flow* flows = nothing_yet<Flow>(n.n_bus);
  Trials found = {all(0.0), {all(1.0), Longs{}}, Longs{}};
  for (int first = 0; first < n.n_branch; first += SIDE) {
    Group g = group_at(n, out, first);
    Reals c[BRANCH_SIZE], h[4], flow[4];
    load_coefficients(n, g, c);
    limits_at(c, moved_ends(n, w, g, set, length), h, flow);
    for (int k = 0; k < 4; k++) {  // a limit that does not exist is met
      Reals ds = rows_of_four(w, n.o_ds + set * n.n_step, g.branch, k), l = rows_of_four(w, n.o_limit, g.branch, k);
      Reals s = rows_of_four(w, n.o_slack, g.branch, k) + length * ds, one = all(1.0);
      try_limit(found, g.exists[k] ? s : one, g.exists[k] ? h[k] : -one, l, mu);
    }
    reach(flows, g, g.from, flow);
    reach(flows, g, g.to, flow + 2);
  }
  t.theta += sum_in(found.theta);
  t.outside |= any_in(found.outside);
  join(t.logs, found.logs);
}
static void move_branches(const Net& n, double* w, const Outages& out, int set, double length, double dual, double mu) {
  for (int first = 0; first < n.n_branch; first += SIDE) {
    Group g = group_at(n, out, first);
    Reals c[BRANCH_SIZE], h[4], flow[4], slack[4], multiplier[4];
    load_coefficients(n, g, c);
    limits_at(c, ends_of(n, w, g), h, flow);
    for (int k = 0; k < 4; k++) {
      Reals s = rows_of_four(w, n.o_slack, g.branch, k), ds = rows_of_four(w, n.o_ds + set * n.n_step, g.branch, k);
      Reals l = rows_of_four(w, n.o_limit, g.branch, k), dl = rows_of_four(w, n.o_dl + set * n.n_step, g.branch, k);
      Reals moved = widened(s + length * ds, h[k], l, mu);
      slack[k] = g.exists[k] ? moved : s;
      multiplier[k] = g.exists[k] ? near_centre(l + dual * dl, moved, mu) : l;
    }
    store_rows_of_four(w, n.o_slack, g, slack);
    store_rows_of_four(w, n.o_limit, g, multiplier);
  }
}
#endif
