// The border of the dense rows, after the factorisation of what it borders.

#if ROWS > 0
// Column r of the border: what the row has in common with the balances once the local variables are eliminated.
FN void fill_border(const Net& n, double* w, int lane, double shift) {
  for (int i = lane; i < n.n_bus; i += LANES) {
    double column[ROWS][2] = {{0.0}};
    for (int k = constant(n.local_ptr + i); k < constant(n.local_ptr + i + 1); k++) {
      Local y = local_at(n, w, k);
      if (!y.is_free) continue;
      double u = AT(n.o_u, k), share = y.sign * inverse(local_pivot(y, AT(n.o_z_low, k), AT(n.o_z_high, k), u, shift));
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        double more = row_gradient(y, r, u) * share;
        if (y.row) column[r][1] += more; else column[r][0] += more;
      }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
      for (int e = 0; e < 4; e++) AT(n.o_border, 4 * (r * n.n_bus + i) + e) = e < 2 ? 0.0 : column[r][e - 2];
  }
}
// Two columns at a time: a lane holds its part of all that go together.
FN void substitute_border(const Net& n, double* w, int lane, bool on) {
  for (int r = 0; r + 1 < ROWS; r += 2) {
    substitute_forward<2>(n, w, lane, n.o_border + 4 * r * n.n_bus, on);
    substitute_backward<2>(n, w, lane, n.o_border + 4 * r * n.n_bus, on);
  }
  if (ROWS % 2 == 0) return;
  substitute_forward<1>(n, w, lane, n.o_border + 4 * (ROWS - 1) * n.n_bus, on);
  substitute_backward<1>(n, w, lane, n.o_border + 4 * (ROWS - 1) * n.n_bus, on);
}
FN void schur_sums(const Net& n, const double* w, int lane, double shift, double sum[ROWS][ROWS]) {
  for (int i = lane; i < n.n_bus; i += LANES)
    for (int k = constant(n.local_ptr + i); k < constant(n.local_ptr + i + 1); k++) {
      Local y = local_at(n, w, k);
      if (!y.is_free) continue;
      double u = AT(n.o_u, k), share = inverse(local_pivot(y, AT(n.o_z_low, k), AT(n.o_z_high, k), u, shift));
#pragma unroll
      for (int q = 0; q < ROWS; q++) {
        double met = row_gradient(y, q, u) + y.sign * AT(n.o_border, 4 * (q * n.n_bus + i) + 2 + y.row);
#pragma unroll
        for (int r = 0; r < ROWS; r++) sum[r][q] += row_gradient(y, r, u) * share * met;
      }
    }
}
// The inverse of the Schur complement, and the inertia of the whole.
FN void invert_schur(const Net& n, double* w, double sum[ROWS][ROWS]) {
  double d[ROWS * (ROWS + 1) / 2];
  for (int r = 0; r < ROWS; r++)
    for (int q = 0; q <= r; q++) {
      double own = q == r ? row_softness(n, w, r) : 0.0;
      d[r * (r + 1) / 2 + q] = -own - 0.5 * (sum[r][q] + sum[q][r]);
    }
  int found = invert_with_pivots<ROWS>(d);
  for (int r = 0; r < ROWS; r++)
    for (int q = 0; q < ROWS; q++) {
      int low = r < q ? r : q, high = r < q ? q : r;
      ROW(r, ROW_SCHUR + q) = d[high * (high + 1) / 2 + low];
    }
  judge_inertia(n, w, (int)SCALAR(NEGATIVE) + found, found < 0);
}
FN void phase_border(const Net& n, double* w, int lane) {
  bool on = (int)SCALAR(STATE) == READY && (int)SCALAR(PREPARED) == FACTORED;
  if (!any_lane(on)) return;
  double shift = SCALAR(SHIFT), sum[ROWS][ROWS] = {{0.0}};
  if (on) fill_border(n, w, lane, shift);
  lanes_meet();
  substitute_border(n, w, lane, on);
  if (on) schur_sums(n, w, lane, shift, sum);
  for (int r = 0; r < ROWS; r++)
    for (int q = 0; q < ROWS; q++) sum[r][q] = lanes_sum(sum[r][q]);
  if (!on || lane != 0) return;
  SCALAR(PREPARED) = BORDERED;
  invert_schur(n, w, sum);
}
FN void times_schur(const Net& n, const double* w, const double* rho, double* found) {
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    found[r] = 0.0;
#pragma unroll
    for (int q = 0; q < ROWS; q++) found[r] += ROW(r, ROW_SCHUR + q) * rho[q];
  }
}
FN void subtract_border(const Net& n, double* w, int i, int at, const double* found) {
#pragma unroll
  for (int e = 0; e < 4; e++) {
    double more = 0.0;
#pragma unroll
    for (int r = 0; r < ROWS; r++) more += found[r] * AT(n.o_border, 4 * (r * n.n_bus + i) + e);
    AT(at, 4 * i + e) -= more;
  }
}
#endif

// Turn K⁻¹ times a right-hand side into the solution of the bordered system: of the predictor, of the corrector, or of what a
// second-order correction adds.
enum Purpose { PREDICTED, CORRECTED, ADDED };
FN double aim_of(double product, double mu, double most, bool is_free) { return is_free ? mu - within(product, most) : mu; }
FN double row_right(const Net& n, const double* w, int r, int purpose, double mu, double most, bool is_free) {
  double wanted = 0.0;
  for (int side = 0; side < 2; side++) {
    if (ROW(r, ROW_EXISTS + side) == 0.0) continue;
    double h = purpose == ADDED ? ROW(r, ROW_SURPLUS + side) : row_room(n, w, r, side, ROW(r, ROW_VALUE));
    if (purpose == CORRECTED) h += aim_of(ROW(r, ROW_DS + side), mu, most, is_free) * inverse(ROW(r, ROW_LIMIT + side));
    wanted += (side ? h : -h) * row_stiffness(n, w, r, side);
  }
  return wanted * row_softness(n, w, r);
}
FN void meet_rows(const Net& n, double* w, int lane, bool on, int set, int purpose) {
#if ROWS > 0
  double shift = SCALAR(SHIFT), mu = SCALAR(MU), most = MOST_CORRECTED * SCALAR(MEAN_PRODUCT), rho[ROWS], found[ROWS];
  bool is_free = SCALAR(FREE) != 0.0;
  RowSums met = {{0.0}};
  for (int i = lane; on && i < n.n_bus; i += LANES)
    for (int k = constant(n.local_ptr + i); k < constant(n.local_ptr + i + 1); k++) {
      Local y = local_at(n, w, k);
      if (!y.is_free) continue;
      double u = AT(n.o_u, k), right = 0.0;
      if (purpose == PREDICTED) right = y.sign * AT(n.o_point, 4 * i + 2 + y.row) - y.curvature * u - y.slope;
      if (purpose == CORRECTED) right = STEP(n.o_du, 0, k);
      right += y.sign * STEP(n.o_x, set, 4 * i + 2 + y.row);
      add_change(met, y, u, right * inverse(local_pivot(y, AT(n.o_z_low, k), AT(n.o_z_high, k), u, shift)));
    }
  lanes_join(met);
#pragma unroll
  for (int r = 0; r < ROWS; r++) rho[r] = row_right(n, w, r, purpose, mu, most, is_free) - met.of[r];
  times_schur(n, w, rho, found);
  for (int r = 0; on && lane == 0 && r < ROWS; r++) ROW(r, ROW_RHO + set) = found[r];
  for (int i = lane; on && i < n.n_bus; i += LANES) subtract_border(n, w, i, n.o_x + set * n.n_step, found);
  lanes_meet();
#endif
}
