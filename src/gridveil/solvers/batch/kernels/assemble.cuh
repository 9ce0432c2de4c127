// The Newton system at the iterate: diagonal and off-diagonal blocks, right-hand sides; and with it the error, the verdict
// and the barrier parameter. Nothing of a branch is stored: every phase computes its flows anew, which is cheaper to do
// than to fetch.

template <class T> struct HessianOf { T aa, af, at, ff, ft, tt; };
using Hessian = HessianOf<double>;
template <class K, class T>
FN void branch_hessian(const K& c, T vf, T vt, const BranchOf<T>& b, const LimitsOf<T>& m, T pi, T qi, T pj, T qj,
                       HessianOf<T>& h) {
  T tf = 2.0 * C(13) * m.l[0], tt = 2.0 * C(13) * m.l[1], kf = m.k[0], kt = m.k[1];
  T w0 = pi + tf * b.pf, w1 = qi + tf * b.qf, w2 = pj + tt * b.pt, w3 = qj + tt * b.qt;
  T a = w0 * C(1) + w1 * C(4) + w2 * C(7) + w3 * C(10), s = w0 * C(2) + w1 * C(5) + w2 * C(8) + w3 * C(11);
  T e = a * b.cs + s * b.sn, o = s * b.cs - a * b.sn;
  h.aa = -vf * vt * e + tf * (b.pfa * b.pfa + b.qfa * b.qfa) + tt * (b.pta * b.pta + b.qta * b.qta) + kf * b.lfa * b.lfa +
         kt * b.lta * b.lta + m.k[2] + m.k[3];
  h.af = vt * o + tf * (b.pfa * b.pff + b.qfa * b.qff) + tt * (b.pta * b.ptf + b.qta * b.qtf) + kf * b.lfa * b.lff +
         kt * b.lta * b.ltf;
  h.at = vf * o + tf * (b.pfa * b.pft + b.qfa * b.qft) + tt * (b.pta * b.ptt + b.qta * b.qtt) + kf * b.lfa * b.lft +
         kt * b.lta * b.ltt;
  h.ff = 2.0 * (w0 * C(0) + w1 * C(3)) + tf * (b.pff * b.pff + b.qff * b.qff) + tt * (b.ptf * b.ptf + b.qtf * b.qtf) +
         kf * b.lff * b.lff + kt * b.ltf * b.ltf;
  h.ft = e + tf * (b.pff * b.pft + b.qff * b.qft) + tt * (b.ptf * b.ptt + b.qtf * b.qtt) + kf * b.lff * b.lft +
         kt * b.ltf * b.ltt;
  h.tt = 2.0 * (w2 * C(6) + w3 * C(9)) + tf * (b.pft * b.pft + b.qft * b.qft) + tt * (b.ptt * b.ptt + b.qtt * b.qtt) +
         kf * b.lft * b.lft + kt * b.ltt * b.ltt;
}

// What a branch adds to the rows θ and v of the bus at one of its ends: gradient of the Lagrangian (g), what the limits add on the
// right (f), and how that grows with the products aimed at (a); its flow into the bus; entries of the diagonal block.
template <class T> struct ShareOf { T g0, g1, f0, f1, a0, a1, p, q, d00, d10, d11, d20, d21, d30, d31; };
using Share = ShareOf<double>;
template <class T> struct SlopesOf { T ga, fa, ja, ff, ft, jf, jt; };
template <class T> FN void at_from(const BranchOf<T>& b, const LimitsOf<T>& l, const HessianOf<T>& h, const SlopesOf<T>& s, T pi,
                                   T qi, T pj, T qj, ShareOf<T>& e) {
  e.g0 += s.ga; e.f0 += s.fa; e.a0 += s.ja;
  e.g1 += pi * b.pff + qi * b.qff + pj * b.ptf + qj * b.qtf + l.l[0] * b.lff + l.l[1] * b.ltf;
  e.f1 += s.ff * b.lff + s.ft * b.ltf; e.a1 += s.jf * b.lff + s.jt * b.ltf;
  e.p += b.pf; e.q += b.qf;
  e.d00 += h.aa; e.d10 += h.af; e.d11 += h.ff; e.d20 += b.pfa; e.d21 += b.pff; e.d30 += b.qfa; e.d31 += b.qff;
}
template <class T> FN void at_to(const BranchOf<T>& b, const LimitsOf<T>& l, const HessianOf<T>& h, const SlopesOf<T>& s, T pi,
                                 T qi, T pj, T qj, ShareOf<T>& e) {
  e.g0 -= s.ga; e.f0 -= s.fa; e.a0 -= s.ja;
  e.g1 += pi * b.pft + qi * b.qft + pj * b.ptt + qj * b.qtt + l.l[0] * b.lft + l.l[1] * b.ltt;
  e.f1 += s.ff * b.lft + s.ft * b.ltt; e.a1 += s.jf * b.lft + s.jt * b.ltt;
  e.p += b.pt; e.q += b.qt;
  e.d00 += h.aa; e.d10 -= h.at; e.d11 += h.tt; e.d20 -= b.pta; e.d21 += b.ptt; e.d30 -= b.qta; e.d31 += b.qtt;
}
// j: stiffness over multiplier of the four limits, 0 for those that do not exist.
template <class T>
FN void branch_slopes(const BranchOf<T>& b, const LimitsOf<T>& l, const T* j, T pi, T qi, T pj, T qj, SlopesOf<T>& s) {
  s.ga = pi * b.pfa + qi * b.qfa + pj * b.pta + qj * b.qta + l.l[0] * b.lfa + l.l[1] * b.lta + l.l[2] - l.l[3];
  s.ff = l.k[0] * b.hf; s.ft = l.k[1] * b.ht;
  s.fa = s.ff * b.lfa + s.ft * b.lta + l.k[2] * b.hu - l.k[3] * b.hl;
  s.jf = j[0]; s.jt = j[1];
  s.ja = j[0] * b.lfa + j[1] * b.lta + j[2] - j[3];
}

struct Error {
  double dual, dual_square, primal, primal_square, theta, least, largest, sum, square, highest, trade;
  int n_products, n_free;
};
FN void add_product(Error& m, double p) {
  m.least = least_of(m.least, p); m.largest = most_of(m.largest, p); m.sum += p; m.square += p * p; m.n_products++;
}
FN void add_residual(Error& m, double r) {
  double a = absolute(r);
  m.primal = most_of(m.primal, a); m.primal_square += r * r; m.theta += a;
}
FN void add_slope(Error& m, double g) { m.dual = most_of(m.dual, absolute(g)); m.dual_square += g * g; }
FN void lanes_join(Error& m) {
  m.dual = lanes_max(m.dual); m.dual_square = lanes_sum(m.dual_square); m.primal = lanes_max(m.primal);
  m.primal_square = lanes_sum(m.primal_square); m.theta = lanes_sum(m.theta); m.least = lanes_min(m.least);
  m.largest = lanes_max(m.largest); m.sum = lanes_sum(m.sum); m.square = lanes_sum(m.square);
  m.highest = lanes_max(m.highest); m.trade = lanes_max(m.trade);
  m.n_products = (int)lanes_sum(m.n_products); m.n_free = (int)lanes_sum(m.n_free);
}

FN void store_block(double* t, bool first, bool plain, const double* e) {
  // e: the twelve entries in rows θ and v of the earlier bus, then the first two of its price rows; the rest is zero, which
  // nobody reads in a plain block.
#if SPLIT > 1 || WIDE
  double all[16] = {e[0], e[1], e[2], e[3], e[4], e[5], e[6], e[7], e[8], e[9], 0.0, 0.0, e[10], e[11], 0.0, 0.0};
  if (first) { store_run<16>(t, 0, all); return; }
#endif
#pragma unroll
  for (int k = 0; k < 16; k++) {
    int source = k < 10 ? k : k < 12 ? -1 : k < 14 ? k - 2 : -1;
    if (source < 0) {
      if (first && !plain) t[k * WIDTH] = 0.0;
    } else if (first) t[k * WIDTH] = e[source];
    else t[k * WIDTH] += e[source];
  }
}

FN void fix_block(int fixed, int far_fixed, double* block) {
  if (fixed & 1) block[0] = block[4] = block[8] = block[10] = 0.0;
  if (fixed & 2) block[1] = block[5] = block[9] = block[11] = 0.0;
  if (far_fixed & 1) block[0] = block[1] = block[2] = block[3] = 0.0;
  if (far_fixed & 2) block[4] = block[5] = block[6] = block[7] = 0.0;
}
#if WIDE
FN void add_shares(int i, Share& t) {
  const Share& s = of_buses<Share>(i)[i];
  t.g0 += s.g0; t.g1 += s.g1; t.f0 += s.f0; t.f1 += s.f1; t.a0 += s.a0; t.a1 += s.a1; t.p += s.p; t.q += s.q;
  t.d00 += s.d00; t.d10 += s.d10; t.d11 += s.d11; t.d20 += s.d20; t.d21 += s.d21; t.d30 += s.d30; t.d31 += s.d31;
}
#else
FN void add_shares(int i, Share& t) {}
#endif

FN void assemble_bus(const Net& n, double* w, const float* soft, const Outages& out, int i, double shift, bool softened,
                     Error& m) {
  int i_bus = i, fixed = constant(n.fixed + i), flags = constant(n.bus_flag + i), at = 4 * n.n_branch + 2 * i;
  double own[4];
  load_run<4>(w, n.o_point + 4 * i, own);
  double va = own[0], v = own[1], pp = own[2], pq = own[3];
  m.highest = most_of(m.highest, most_of(absolute(pp), absolute(pq)));
  double curvature = 2.0 * (V(0) * pp + V(1) * pq);
  double u2 = 0.0, u3 = 0.0;
  Share t = {0.0, curvature * v, 0.0, 0.0, 0.0, 0.0, AT(n.o_draw, 2 * i) + V(0) * v * v,
                       AT(n.o_draw, 2 * i + 1) + V(1) * v * v, 0.0, 0.0, curvature, 0.0, 2.0 * V(0) * v, 0.0, 2.0 * V(1) * v};
  {
    double l = AT(n.o_limit, at), l2 = AT(n.o_limit, at + 1), s = AT(n.o_slack, at), s2 = AT(n.o_slack, at + 1);
    double h = v - V(2), h2 = V(3) - v, k = capped(l, s, soft[at * WIDTH] * V(4));
    double k2 = capped(l2, s2, soft[(at + 1) * WIDTH] * V(4));
    t.g1 += l - l2; t.d11 += k + k2; t.f1 += k * h - k2 * h2;
    if (flags & 1) { add_product(m, l * s); add_residual(m, h + s); t.a1 += k * inverse(l); }
    if (flags & 2) { add_product(m, l2 * s2); add_residual(m, h2 + s2); t.a1 -= k2 * inverse(l2); }
  }
  for (int q = constant(n.end_ptr + i); !WIDE && q < constant(n.end_ptr + i + 1); q++) {
    End e = end_at(n, out, q);
    if (is_out(out, e.branch)) {
      double nothing[12] = {0.0};
      if (!e.is_to) store_block(w + (n.o_block + 16 * e.block) * WIDTH, e.is_first, constant(n.plain + e.block), nothing);
      continue;
    }
    const double* c = e.c;
    double other[4];
    load_run<4>(w, n.o_point + 4 * e.far, other);
    double va2 = other[0], v2 = other[1], pp2 = other[2], pq2 = other[3];
    Limits l;
    Branch b;
    Hessian h;
    load_limits(n, w, soft, e.branch, l);
    double vf = e.is_to ? v2 : v, vt = e.is_to ? v : v2, angle = e.is_to ? va2 - va : va - va2;
    double pi = e.is_to ? pp2 : pp, qi = e.is_to ? pq2 : pq, pj = e.is_to ? pp : pp2, qj = e.is_to ? pq : pq2;
    evaluate_branch(c, vf, vt, angle, b);
    find_stiffness(c, b, l);
    branch_hessian(c, vf, vt, b, l, pi, qi, pj, qj, h);
    double j[4];
    SlopesOf<double> s;
#pragma unroll
    for (int k = 0; k < 4; k++) j[k] = (e.flags >> k & 1) ? l.k[k] * inverse(l.l[k]) : 0.0;
    branch_slopes(b, l, j, pi, qi, pj, qj, s);
    if (e.is_to) { at_to(b, l, h, s, pi, qi, pj, qj, t); continue; }
    at_from(b, l, h, s, pi, qi, pj, qj, t);
    double value[4] = {b.hf, b.ht, b.hu, b.hl};
#pragma unroll
    for (int k = 0; k < 4; k++)
      if (e.flags >> k & 1) { add_product(m, l.l[k] * l.s[k]); add_residual(m, value[k] + l.s[k]); }
    double block[12] = {-h.aa, -h.af, -b.pfa, -b.qfa, h.at, h.ft, b.pft, b.qft, b.pta, b.ptf, b.qta, b.qtf};
    fix_block(fixed, constant(n.fixed + e.far), block);
    store_block(w + (n.o_block + 16 * e.block) * WIDTH, e.is_first, constant(n.plain + e.block), block);
  }
  add_shares(i, t);
  for (int k = constant(n.local_ptr + i); k < constant(n.local_ptr + i + 1); k++) {
    Local y = local_at(n, w, k);
    double u = AT(n.o_u, k), zl = AT(n.o_z_low, k), zh = AT(n.o_z_high, k);
    if (y.row) t.q -= y.sign * u; else t.p -= y.sign * u;
    if (!y.is_free) continue;
    double g = y.curvature * u + y.slope - y.sign * (y.row ? pq : pp);
    add_slope(m, g - zl + zh);
    if (y.has_low) add_product(m, zl * (u - y.low));
    if (y.has_high) add_product(m, zh * (y.high - u));
    m.n_free++;
    double share = y.sign * g * inverse(local_pivot(y, zl, zh, u, shift));
    if (y.row) u3 -= share; else u2 -= share;
  }
  if (softened) {
    double tp = AT(n.o_trade, 2 * i), tq = AT(n.o_trade, 2 * i + 1);
    t.p -= tp; t.q -= tq;
    add_slope(m, FIRM * tp - pp); add_slope(m, FIRM * tq - pq);
    m.n_free += 2;
    m.trade = most_of(m.trade, most_of(absolute(tp), absolute(tq)));
    u2 -= (FIRM * tp - pp) / (FIRM + shift); u3 -= (FIRM * tq - pq) / (FIRM + shift);
  }
  if (fixed & 1) { t.g0 = t.f0 = t.a0 = t.d10 = t.d20 = t.d30 = 0.0; t.d00 = 1.0; }
  if (fixed & 2) { t.g1 = t.f1 = t.a1 = t.d10 = t.d21 = t.d31 = 0.0; t.d11 = 1.0; }
  add_slope(m, t.g0); add_slope(m, t.g1); add_residual(m, t.p); add_residual(m, t.q);
  double diagonal[10] = {t.d00, t.d10, t.d11, t.d20, t.d21, 0.0, t.d30, t.d31, 0.0, 0.0};
  store_run<10>(w, n.o_diagonal + 10 * i, diagonal);
  double right[4] = {-t.g0 - t.f0, -t.g1 - t.f1, -t.p, -t.q};
  store_run<4>(w, n.o_right + 4 * i, right);
  AT(n.o_push, 2 * i) = t.a0;
  AT(n.o_push, 2 * i + 1) = t.a1;
  // The predictor aims at products of zero, so its right-hand side is known here.
  right[2] += u2;
  right[3] += u3;
  store_run<4>(w, n.o_x + 4 * i, right);
}

FN void measure_rows(const Net& n, double* w, Error& m) {
  for (int r = 0; r < ROWS; r++)
    for (int side = 0; side < 2; side++) {
      if (ROW(r, ROW_EXISTS + side) == 0.0) continue;
      add_product(m, ROW(r, ROW_LIMIT + side) * ROW(r, ROW_SLACK + side));
      add_residual(m, row_room(n, w, r, side, ROW(r, ROW_VALUE)) + ROW(r, ROW_SLACK + side));
    }
}

// A run that gets no nearer to the balances while prices soar is taken for infeasible: soft balances decide, or the caller.
FN bool is_hopeless(const Net& n, double* w, const Error& m) {
  if (m.primal < 0.9 * SCALAR(BEST_PRIMAL)) { SCALAR(BEST_PRIMAL) = m.primal; SCALAR(SINCE_BEST) = 0.0; return false; }
  SCALAR(SINCE_BEST) = SCALAR(SINCE_BEST) + 1.0;
  return SCALAR(SINCE_BEST) >= n.give_up_after && m.highest > n.give_up_price && m.primal > 10.0 * n.tolerance;
}

FN void judge(const Net& n, double* w, const Error& m) {
  double tolerance = tolerance_of(n, w), scale = most_of(1.0, m.highest / PRICE_SCALE), dual = m.dual / scale;
  double merit = m.dual_square / (2 * n.n_bus + m.n_free) + m.primal_square / (2 * n.n_bus) + m.square / m.n_products;
  double mean = m.sum / m.n_products;
  SCALAR(THETA) = m.theta; SCALAR(PRIMAL) = m.primal; SCALAR(DUAL) = dual; SCALAR(LARGEST_PRODUCT_) = m.largest;
  SCALAR(LEAST_PRODUCT) = m.least; SCALAR(MEAN_PRODUCT) = mean; SCALAR(HIGHEST_PRICE) = m.highest;
  if (SCALAR(THETA_LIMIT) < 0.0) SCALAR(THETA_LIMIT) = THETA_MAX * most_of(1.0, m.theta);
  int iteration = (int)SCALAR(ITERATIONS), attempt = (int)SCALAR(ATTEMPT);
  if (most_of(most_of(dual, m.primal), m.largest) <= tolerance) {
    bool unbalanced = attempt == SOFTENED && m.trade > n.most_trade;
    finish(n, w, unbalanced ? UNBALANCED : CONVERGED);
    return;
  }
  if (!is_number(merit)) { finish(n, w, DIVERGED); return; }
  int limit = attempt == WARM || attempt == AT_POINT ? ITERATIONS_WARM : attempt == SOFTENED ? ITERATIONS_SOFTENED
            : attempt == NEAR || attempt == NEAR_HELD ? ITERATIONS_NEAR : attempt == THIN ? ITERATIONS_RESUMED : n.cold_iterations;
  if (attempt != SOFTENED && limit > n.max_iterations) limit = n.max_iterations;
  if (iteration >= limit) { finish(n, w, ITERATION_LIMIT); return; }
  if (attempt != SOFTENED && is_hopeless(n, w, m)) { finish(n, w, STALLED); return; }
  double least = LEAST_MU * tolerance, mu = SCALAR(MU);
  double recent = most_of(most_of(SCALAR(RECENT_0), SCALAR(RECENT_1)), most_of(SCALAR(RECENT_2), SCALAR(RECENT_3)));
  bool progress = merit <= PROGRESS * recent;
  SCALAR(SHIFT) = 0.0;
  SCALAR(TRIES) = 0.0;
  if (SCALAR(FREE) != 0.0) {
    if (!progress) { hold_barrier(n, w, mean); return; }
  } else {
    bool solved = false;
    while (mu > least && most_of(most_of(dual, m.primal), most_of(absolute(m.largest - mu), absolute(m.least - mu))) <=
                             KAPPA_EPSILON * mu) {
      mu = most_of(least, least_of(KAPPA_MU * mu, mu * sqrt(mu)));
      solved = true;
    }
    SCALAR(MU) = mu;
    if (solved) clear_filter(n, w);
    if (!(solved && progress)) return;
  }
  clear_filter(n, w);
  SCALAR(RECENT_0 + iteration % MEMORY) = merit;
  SCALAR(MU) = mean;
  SCALAR(FREE) = 1.0;
}

FN void phase_assemble(const Net& n, double* w, const float* soft, int lane) {
  int state = (int)SCALAR(STATE);
  bool on = state == RUNNING || state == RETRYING;
  if (!any_lane(on)) return;
  Error m = {0.0, 0.0, 0.0, 0.0, 0.0, 1e300, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0};
  if (on) {
    Outages out = outages(n, w);
    double shift = state == RETRYING ? SCALAR(SHIFT) : 0.0;
    bool softened = (int)SCALAR(ATTEMPT) == SOFTENED;
    assemble_branches(n, w, soft, out, m);
    for (int q = lane; q < n.n_bus; q += LANES) assemble_bus(n, w, soft, out, bus_at(n, q), shift, softened, m);
    if (lane == 0) measure_rows(n, w, m);
  }
  lanes_join(m);
  if (lane != 0) return;
  if (on) { SCALAR(STATE) = READY; SCALAR(PREPARED) = ASSEMBLED; }
  if (state == RUNNING) judge(n, w, m);
}
