// Iterative refinement of the corrector where dense rows border the system: local variables with hardly any curvature make
// its Schur complement a difference of large numbers. The residual is computed anew from the network, as nothing but the
// factors is stored; it and its correction lie where a second-order correction would.
#if ROWS > 0
// What a branch leaves of the system at its ends, at a step of angle, magnitudes and (y) prices.
template <class T> FN T residual_of_angle(const BranchOf<T>& b, const HessianOf<T>& h, T across, T xf, T xt, const T* y) {
  return h.aa * across + h.af * xf + h.at * xt + b.pfa * y[0] + b.qfa * y[1] + b.pta * y[2] + b.qta * y[3];
}
template <class T>
FN void residual_at_to(const BranchOf<T>& b, const HessianOf<T>& h, T across, T xf, T xt, const T* y, T* r) {
  r[0] = residual_of_angle(b, h, across, xf, xt, y);
  r[1] = -(h.at * across + h.ft * xf + h.tt * xt + b.pft * y[0] + b.qft * y[1] + b.ptt * y[2] + b.qtt * y[3]);
  r[2] = -(b.pta * across + b.ptf * xf + b.ptt * xt);
  r[3] = -(b.qta * across + b.qtf * xf + b.qtt * xt);
}
template <class T>
FN void residual_at_from(const BranchOf<T>& b, const HessianOf<T>& h, T across, T xf, T xt, const T* y, T* r) {
  r[0] = -residual_of_angle(b, h, across, xf, xt, y);
  r[1] = -(h.af * across + h.ff * xf + h.ft * xt + b.pff * y[0] + b.qff * y[1] + b.ptf * y[2] + b.qtf * y[3]);
  r[2] = -(b.pfa * across + b.pff * xf + b.pft * xt);
  r[3] = -(b.qfa * across + b.qff * xf + b.qft * xt);
}
FN double refine_bus(const Net& n, double* w, const float* soft, const Outages& out, int i, double shift, double mu) {
  int i_bus = i, fixed = constant(n.fixed + i), at = 4 * n.n_branch + 2 * i;
  double va = AT(n.o_point, 4 * i), v = AT(n.o_point, 4 * i + 1), pp = AT(n.o_point, 4 * i + 2), pq = AT(n.o_point, 4 * i + 3);
  double xa = STEP(n.o_x, 0, 4 * i), xv = STEP(n.o_x, 0, 4 * i + 1), xp = STEP(n.o_x, 0, 4 * i + 2), xq = STEP(n.o_x, 0, 4 * i + 3);
  double k = capped(AT(n.o_limit, at), AT(n.o_slack, at), soft[at * WIDTH] * V(4));
  double k2 = capped(AT(n.o_limit, at + 1), AT(n.o_slack, at + 1), soft[(at + 1) * WIDTH] * V(4));
  double r0 = AT(n.o_right, 4 * i) - mu * AT(n.o_push, 2 * i) - shift * xa;
  double r1 = AT(n.o_right, 4 * i + 1) - mu * AT(n.o_push, 2 * i + 1) - shift * xv;
  double r2 = AT(n.o_right, 4 * i + 2) + DELTA_C * xp - 2.0 * V(0) * v * xv;
  double r3 = AT(n.o_right, 4 * i + 3) + DELTA_C * xq - 2.0 * V(1) * v * xv;
  r1 -= (2.0 * (V(0) * pp + V(1) * pq) + k + k2) * xv + 2.0 * v * (V(0) * xp + V(1) * xq);
  for (int q = constant(n.end_ptr + i); !WIDE && q < constant(n.end_ptr + i + 1); q++) {
    End e = end_at(n, out, q);
    if (is_out(out, e.branch)) continue;
    double va2 = AT(n.o_point, 4 * e.far), v2 = AT(n.o_point, 4 * e.far + 1);
    double pp2 = AT(n.o_point, 4 * e.far + 2), pq2 = AT(n.o_point, 4 * e.far + 3);
    double xa2 = STEP(n.o_x, 0, 4 * e.far), xv2 = STEP(n.o_x, 0, 4 * e.far + 1);
    double xp2 = STEP(n.o_x, 0, 4 * e.far + 2), xq2 = STEP(n.o_x, 0, 4 * e.far + 3);
    Limits l;
    Branch b;
    Hessian h;
    load_limits(n, w, soft, e.branch, l);
    double vf = e.is_to ? v2 : v, vt = e.is_to ? v : v2, angle = e.is_to ? va2 - va : va - va2;
    double pi = e.is_to ? pp2 : pp, qi = e.is_to ? pq2 : pq, pj = e.is_to ? pp : pp2, qj = e.is_to ? pq : pq2;
    double yi = e.is_to ? xp2 : xp, zi = e.is_to ? xq2 : xq, yj = e.is_to ? xp : xp2, zj = e.is_to ? xq : xq2;
    double across = e.is_to ? xa2 - xa : xa - xa2, xf = e.is_to ? xv2 : xv, xt = e.is_to ? xv : xv2;
    evaluate_branch(e.c, vf, vt, angle, b);
    find_stiffness(e.c, b, l);
    branch_hessian(e.c, vf, vt, b, l, pi, qi, pj, qj, h);
    double y[4] = {yi, zi, yj, zj}, r[4];
    if (e.is_to) residual_at_to(b, h, across, xf, xt, y, r); else residual_at_from(b, h, across, xf, xt, y, r);
    r0 += r[0]; r1 += r[1]; r2 += r[2]; r3 += r[3];
  }
  add_residuals(i, r0, r1, r2, r3);
  for (int j = constant(n.local_ptr + i); j < constant(n.local_ptr + i + 1); j++) {
    Local y = local_at(n, w, j);
    if (!y.is_free) continue;
    if (y.row) r3 += y.sign * STEP(n.o_du, 0, j); else r2 += y.sign * STEP(n.o_du, 0, j);
  }
  if (fixed & 1) r0 = 0.0;
  if (fixed & 2) r1 = 0.0;
  STEP(n.o_x, 1, 4 * i) = r0; STEP(n.o_x, 1, 4 * i + 1) = r1; STEP(n.o_x, 1, 4 * i + 2) = r2; STEP(n.o_x, 1, 4 * i + 3) = r3;
  return most_of(most_of(absolute(r0), absolute(r1)), most_of(absolute(r2), absolute(r3)));
}

FN void phase_refine(const Net& n, double* w, const float* soft, int lane) {
  bool on = (int)SCALAR(STATE) == READY;
  if (!any_lane(on)) return;
  double shift = SCALAR(SHIFT), mu = SCALAR(MU), most = MOST_CORRECTED * SCALAR(MEAN_PRODUCT), size = 0.0;
  bool is_free = SCALAR(FREE) != 0.0;
  Outages out = outages(n, w);
  for (int i = lane; on && i < n.n_bus; i += LANES) {
    for (int e = 0; e < 4; e++) {
      double aimed = e < 2 ? mu * AT(n.o_push, 2 * i + e) : 0.0;
      size = most_of(size, absolute(AT(n.o_right, 4 * i + e) - aimed));
    }
    for (int k = constant(n.local_ptr + i); k < constant(n.local_ptr + i + 1); k++) {
      Local y = local_at(n, w, k);
      if (!y.is_free) continue;
      double u = AT(n.o_u, k), p = local_pivot(y, AT(n.o_z_low, k), AT(n.o_z_high, k), u, shift);
      double right = STEP(n.o_du, 0, k) - pull_of_rows(n, w, y, u, 0) + y.sign * STEP(n.o_x, 0, 4 * i + 2 + y.row);
      STEP(n.o_du, 0, k) = right * inverse(p);
    }
  }
  size = lanes_max(size);
  lanes_meet();
  for (int pass = 0; pass < REFINEMENTS; pass++) {
    double worst = 0.0, rho[ROWS], found[ROWS];
    RowSums change = {{0.0}}, met = {{0.0}};
    if (on) refine_branches(n, w, soft, out);
    for (int q = lane; on && q < n.n_bus; q += LANES) {
      int i = bus_at(n, q);
      worst = most_of(worst, refine_bus(n, w, soft, out, i, shift, mu));
      for (int k = constant(n.local_ptr + i); k < constant(n.local_ptr + i + 1); k++) {
        Local y = local_at(n, w, k);
        if (y.is_free) add_change(change, y, AT(n.o_u, k), STEP(n.o_du, 0, k));
      }
    }
    worst = lanes_max(worst);
    lanes_join(change);
    on = on && worst > REFINED * size;
    lanes_meet();
    if (!any_lane(on)) return;
    substitute_forward<1>(n, w, lane, n.o_x + n.n_step, on);
    substitute_backward<1>(n, w, lane, n.o_x + n.n_step, on);
    for (int i = lane; on && i < n.n_bus; i += LANES)
      for (int k = constant(n.local_ptr + i); k < constant(n.local_ptr + i + 1); k++) {
        Local y = local_at(n, w, k);
        if (!y.is_free) continue;
        double u = AT(n.o_u, k), p = local_pivot(y, AT(n.o_z_low, k), AT(n.o_z_high, k), u, shift);
        add_change(met, y, u, y.sign * STEP(n.o_x, 1, 4 * i + 2 + y.row) * inverse(p));
      }
    lanes_join(met);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      double left = row_right(n, w, r, CORRECTED, mu, most, is_free) + row_softness(n, w, r) * ROW(r, ROW_RHO);
      rho[r] = left - change.of[r] - met.of[r];
    }
    times_schur(n, w, rho, found);
    lanes_meet();
    for (int r = 0; on && lane == 0 && r < ROWS; r++) ROW(r, ROW_RHO) += found[r];
    for (int i = lane; on && i < n.n_bus; i += LANES) {
      subtract_border(n, w, i, n.o_x + n.n_step, found);
#pragma unroll
      for (int e = 0; e < 4; e++) STEP(n.o_x, 0, 4 * i + e) += STEP(n.o_x, 1, 4 * i + e);
      for (int k = constant(n.local_ptr + i); k < constant(n.local_ptr + i + 1); k++) {
        Local y = local_at(n, w, k);
        if (!y.is_free) continue;
        double u = AT(n.o_u, k), pull = 0.0, p = local_pivot(y, AT(n.o_z_low, k), AT(n.o_z_high, k), u, shift);
#pragma unroll
        for (int r = 0; r < ROWS; r++) pull += row_gradient(y, r, u) * found[r];
        STEP(n.o_du, 0, k) += (y.sign * STEP(n.o_x, 1, 4 * i + 2 + y.row) - pull) * inverse(p);
      }
    }
    lanes_meet();
  }
}
#endif
