// Block factorisation U'D⁻¹U on the bus graph, level by level of its elimination tree. Everything is gathered: a block
// collects the updates of all columns below it, so lanes never write to the same place and sums have one order. Only U and
// D⁻¹ are kept, in place.

// Inverse by sweeps with Bunch and Parlett's pivots, for blocks whose leading pivots are too small; the number of negative
// eigenvalues, or -1 if singular. d: lower triangle by rows.
FN_APART int invert_with_pivots(double* d) {
  double m[4][4];
  for (int r = 0; r < 4; r++)
    for (int c = 0; c <= r; c++) m[r][c] = m[c][r] = d[r * (r + 1) / 2 + c];
  int negative = 0, swept = 0;
  while (swept != 15) {
    double diagonal = -1.0, off = -1.0;
    int p = 0, q = 0, r = 0;
    for (int i = 0; i < 4; i++) {
      if (swept >> i & 1) continue;
      if (absolute(m[i][i]) > diagonal) { diagonal = absolute(m[i][i]); p = i; }
      for (int j = i + 1; j < 4; j++)
        if (!(swept >> j & 1) && absolute(m[i][j]) > off) { off = absolute(m[i][j]); q = i; r = j; }
    }
    if (!(most_of(diagonal, off) > 0.0)) return -1;
    if (diagonal >= BUNCH_PARLETT * off) {
      negative += m[p][p] < 0.0;
      double inv = 1.0 / m[p][p];
      for (int i = 0; i < 4; i++)
        for (int j = i; i != p && j < 4; j++)
          if (j != p) { m[i][j] -= m[i][p] * inv * m[j][p]; m[j][i] = m[i][j]; }
      for (int i = 0; i < 4; i++)
        if (i != p) { m[i][p] *= inv; m[p][i] = m[i][p]; }
      m[p][p] = -inv;
      swept |= 1 << p;
      continue;
    }
    double det = m[q][q] * m[r][r] - m[q][r] * m[q][r], a = m[r][r] / det, b = -m[q][r] / det, c = m[q][q] / det;
    negative += 1;
    double x[4], y[4];
    for (int i = 0; i < 4; i++) { x[i] = m[i][q] * a + m[i][r] * b; y[i] = m[i][q] * b + m[i][r] * c; }
    for (int i = 0; i < 4; i++)
      for (int j = i; i != q && i != r && j < 4; j++)
        if (j != q && j != r) { m[i][j] -= x[i] * m[j][q] + y[i] * m[j][r]; m[j][i] = m[i][j]; }
    for (int i = 0; i < 4; i++)
      if (i != q && i != r) { m[i][q] = m[q][i] = x[i]; m[i][r] = m[r][i] = y[i]; }
    m[q][q] = -a; m[q][r] = m[r][q] = -b; m[r][r] = -c;
    swept |= 1 << q | 1 << r;
  }
  for (int r = 0; r < 4; r++)
    for (int c = 0; c <= r; c++) d[r * (r + 1) / 2 + c] = -m[r][c];
  return negative;
}

FN int invert_block(double* m) {
  double d0 = m[0], i0 = inverse(d0), l10 = m[1] * i0, l20 = m[3] * i0, l30 = m[6] * i0;
  double d1 = m[2] - l10 * m[1], s21 = m[4] - l20 * m[1], s31 = m[7] - l30 * m[1], i1 = inverse(d1);
  double l21 = s21 * i1, l31 = s31 * i1, d2 = m[5] - l20 * m[3] - l21 * s21, s32 = m[8] - l30 * m[3] - l31 * s21;
  double i2 = inverse(d2), l32 = s32 * i2, d3 = m[9] - l30 * m[6] - l31 * s31 - l32 * s32;
  double growth = most_of(most_of(absolute(l10), absolute(l20)), most_of(absolute(l30), absolute(l21)));
  growth = most_of(growth, most_of(absolute(l31), absolute(l32)));
  if (!(growth < MOST_GROWTH && absolute(d3) > 0.0 && is_number(d3) && is_number(l32 + l31 + l21))) {
    double t[10];
    for (int i = 0; i < 10; i++) t[i] = m[i];
    int found = invert_with_pivots(t);
    for (int i = 0; i < 10; i++) m[i] = t[i];
    return found;
  }
  double i3 = inverse(d3), k20 = l21 * l10 - l20, k31 = l32 * l21 - l31, k30 = l31 * l10 - l30 - l32 * k20;
  double x32 = -l32 * i3, x31 = k31 * i3, x30 = k30 * i3;
  m[9] = i3; m[8] = x32; m[7] = x31; m[6] = x30;
  m[5] = i2 - l32 * x32; m[4] = -l21 * i2 - l32 * x31; m[3] = k20 * i2 - l32 * x30;
  m[2] = i1 + l21 * l21 * i2 + k31 * x31; m[1] = -l10 * i1 - l21 * k20 * i2 + k31 * x30;
  m[0] = i0 + l10 * l10 * i1 + k20 * k20 * i2 + k30 * x30;
  return (d0 < 0.0) + (d1 < 0.0) + (d2 < 0.0) + (d3 < 0.0);
}

FN void load_diagonal(const Net& n, const double* w, int j, double* d) {
#pragma unroll
  for (int e = 0; e < 10; e++) d[e] = AT(n.o_diagonal, 10 * j + e);
}
// No price meets a price in a block that the elimination leaves as its branches wrote it: four of its entries are zero.
FN bool is_price_pair(int e) { return e == 10 || e == 11 || e == 14 || e == 15; }
FN void load_block(const Net& n, const double* w, int a, double* u) {
  bool plain = constant(n.plain + a);
#pragma unroll
  for (int e = 0; e < 16; e++) u[e] = is_price_pair(e) ? 0.0 : AT(n.o_block, 16 * a + e);
  if (plain) return;
#pragma unroll
  for (int e = 10; e < 16; e++)
    if (is_price_pair(e)) u[e] = AT(n.o_block, 16 * a + e);
}
// D · x for a symmetric 4×4 block given by its lower triangle; x and y with strides.
FN void times_symmetric(const double* d, double x0, double x1, double x2, double x3, double* y, int stride) {
  y[0] = d[0] * x0 + d[1] * x1 + d[3] * x2 + d[6] * x3;
  y[stride] = d[1] * x0 + d[2] * x1 + d[4] * x2 + d[7] * x3;
  y[2 * stride] = d[3] * x0 + d[4] * x1 + d[5] * x2 + d[8] * x3;
  y[3 * stride] = d[6] * x0 + d[7] * x1 + d[8] * x2 + d[9] * x3;
}
FN void times_block(const double* d, const double* u, double* m) {
#pragma unroll
  for (int c = 0; c < 4; c++) times_symmetric(d, u[c], u[4 + c], u[8 + c], u[12 + c], m + c, 4);
}

// What the columns below add to the diagonal block of column j (d) and to the predictor's right-hand side (x): every
// ``step``-th update, from the ``first`` on.
FN void gather_diagonal(const Net& n, const double* w, int j, int first, int step, double* d, double* x) {
  for (int q = constant(n.in_ptr + j) + first; q < constant(n.in_ptr + j + 1); q += step) {
    int a = constant(n.in + 2 * q), k = constant(n.in + 2 * q + 1);
    double u[16], m[16], dk[10], y[4];
    load_block(n, w, a, u);
    load_diagonal(n, w, k, dk);
#pragma unroll
    for (int e = 0; e < 4; e++) y[e] = STEP(n.o_x, 0, 4 * k + e);
    times_block(dk, u, m);
#pragma unroll
    for (int r = 0; r < 4; r++) {
#pragma unroll
      for (int c = 0; c <= r; c++)
        d[r * (r + 1) / 2 + c] -= u[r] * m[c] + u[4 + r] * m[4 + c] + u[8 + r] * m[8 + c] + u[12 + r] * m[12 + c];
      x[r] -= u[r] * y[0] + u[4 + r] * y[1] + u[8 + r] * y[2] + u[12 + r] * y[3];
    }
  }
}
// The diagonal block with its shifts and local variables, to which d and x are added; then its inverse, and D⁻¹ x.
FN void finish_diagonal(const Net& n, double* w, int j, double shift, bool softened, double* d, double* x, int& negative,
                        int& singular) {
  double own[10];
  load_diagonal(n, w, j, own);
#pragma unroll
  for (int e = 0; e < 10; e++) d[e] += own[e];
#pragma unroll
  for (int e = 0; e < 4; e++) x[e] += STEP(n.o_x, 0, 4 * j + e);
  int fixed = constant(n.fixed + j);
  if (!(fixed & 1)) d[0] += shift;
  if (!(fixed & 2)) d[2] += shift;
  double trade = softened ? 1.0 / (FIRM + shift) : 0.0;
  d[5] -= DELTA_C + trade;
  d[9] -= DELTA_C + trade;
  for (int k = constant(n.local_ptr + j); k < constant(n.local_ptr + j + 1); k++) {
    Local v = local_at(n, w, k);
    if (!v.is_free) continue;
    double p = local_pivot(v, AT(n.o_z_low, k), AT(n.o_z_high, k), AT(n.o_u, k), shift);
    negative += p < 0.0;
    if (v.row) d[9] -= inverse(p); else d[5] -= inverse(p);
  }
  int found = invert_block(d);
  if (found < 0) singular = 1;
  negative += found;
#pragma unroll
  for (int e = 0; e < 10; e++) AT(n.o_diagonal, 10 * j + e) = d[e];
  times_symmetric(d, x[0], x[1], x[2], x[3], &STEP(n.o_x, 0, 4 * j), WIDTH);
}

// Off-diagonal block: minus U_a' D_k⁻¹ U_b over all columns k in which both its buses stand.
FN void gather_block(const Net& n, const double* w, int item, int first, int step, double* sum) {
  for (int q = constant(n.source_ptr + item) + first; q < constant(n.source_ptr + item + 1); q += step) {
    int a = constant(n.source + 3 * q), b = constant(n.source + 3 * q + 1), k = constant(n.source + 3 * q + 2);
    double u[16], m[16], dk[10];
    load_block(n, w, a, u);
    load_diagonal(n, w, k, dk);
    times_block(dk, u, m);
    load_block(n, w, b, u);
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
      for (int c = 0; c < 4; c++)
        sum[4 * r + c] -= m[r] * u[c] + m[4 + r] * u[4 + c] + m[8 + r] * u[8 + c] + m[12 + r] * u[12 + c];
  }
}
FN void finish_block(const Net& n, double* w, int item, double* sum) {
  int code = constant(n.off + item), t = code >> 1;
  if (!(code & 1)) {  // not fill: a branch has written here
    double own[16];
    load_block(n, w, t, own);
#pragma unroll
    for (int e = 0; e < 16; e++) sum[e] += own[e];
  }
#pragma unroll
  for (int e = 0; e < 16; e++) AT(n.o_block, 16 * t + e) = sum[e];
}

// One item of a level by one lane.
FN void factor_item(const Net& n, double* w, int column, int item, double shift, bool softened, int& negative, int& singular) {
  double sum[16] = {0.0}, x[4] = {0.0};
  if (column >= 0) {
    gather_diagonal(n, w, column, 0, 1, sum, x);
    finish_diagonal(n, w, column, shift, softened, sum, x, negative, singular);
  } else {
    bool untouched = constant(n.source_ptr + item) == constant(n.source_ptr + item + 1) && !(constant(n.off + item) & 1);
    if (untouched) return;
    gather_block(n, w, item, 0, 1, sum);
    finish_block(n, w, item, sum);
  }
}
#if LANES > 1
// One item by a team of lanes: near the root a level has few items with many updates each.
FN void factor_together(const Net& n, double* w, int lane, bool on, int column, int item, double shift, bool softened,
                        int& negative, int& singular) {
  double sum[16] = {0.0}, x[4] = {0.0};
  if (on && column >= 0) gather_diagonal(n, w, column, lane, TEAM, sum, x);
  if (on && column < 0) gather_block(n, w, item, lane, TEAM, sum);
#pragma unroll
  for (int e = 0; e < 16; e++) sum[e] = team_sum(sum[e]);
#pragma unroll
  for (int e = 0; e < 4; e++) x[e] = team_sum(x[e]);
  if (!on || lane != 0) return;
  if (column >= 0) finish_diagonal(n, w, column, shift, softened, sum, x, negative, singular);
  else finish_block(n, w, item, sum);
}
#endif

// Whether the system has the inertia of a minimum; if not, it is assembled anew with a larger shift.
FN void judge_inertia(const Net& n, double* w, int negative, int singular) {
  double last = SCALAR(LAST_SHIFT), shift = SCALAR(SHIFT);
  if (!singular && negative == 2 * n.n_bus + ROWS) {
    if (shift > 0.0) SCALAR(LAST_SHIFT) = shift;
    return;
  }
  if (shift == 0.0) shift = last == 0.0 ? DELTA_W_FIRST : most_of(DELTA_W_MIN, last / KAPPA_W_SHRINK);
  else shift *= last == 0.0 ? KAPPA_W_FIRST : KAPPA_W_GROW;
  SCALAR(TRIES) = SCALAR(TRIES) + 1.0;
  if (shift > DELTA_W_MAX || SCALAR(TRIES) > MOST_FACTORISATIONS) { finish(n, w, SINGULAR); return; }
  SCALAR(SHIFT) = shift;
  SCALAR(STATE) = RETRYING;
}

FN void phase_factor(const Net& n, double* w, int lane) {
  bool on = (int)SCALAR(STATE) == READY && (int)SCALAR(PREPARED) == ASSEMBLED;
  if (!any_lane(on)) return;
  double shift = SCALAR(SHIFT);
  bool softened = (int)SCALAR(ATTEMPT) == SOFTENED;
  int negative = 0, singular = 0;
  for (int l = 0; l < n.n_levels; l++) {
    int c0 = constant(n.level_ptr + l), n_columns = constant(n.level_ptr + l + 1) - c0;
    int o0 = constant(n.off_ptr + l), n_items = n_columns + constant(n.off_ptr + l + 1) - o0;
#if LANES > 1
    if (2 * n_items <= TEAM) {
      for (int q = lane / TEAM; q < n_items; q += TEAMS) {
        int column = q < n_columns ? constant(n.column + c0 + q) : -1;
        factor_together(n, w, lane % TEAM, on, column, o0 + q - n_columns, shift, softened, negative, singular);
      }
      lanes_meet();
      continue;
    }
#endif
    for (int q = lane; on && q < n_items; q += LANES) {
      int column = q < n_columns ? constant(n.column + c0 + q) : -1;
      factor_item(n, w, column, o0 + q - n_columns, shift, softened, negative, singular);
    }
    lanes_meet();
  }
  negative = (int)lanes_sum(negative);
  singular = (int)lanes_sum(singular);
  if (!on || lane != 0) return;
  SCALAR(FACTORISATIONS) = SCALAR(FACTORISATIONS) + 1.0;
  SCALAR(NEGATIVE) = singular ? -1.0 : negative;
  SCALAR(PREPARED) = FACTORED;
  if (ROWS == 0 || singular) judge_inertia(n, w, negative, singular);
}

// One column of a substitution in the vector that lies at ``at``: every ``step``-th block's share, from the ``first`` on.
FN void gather_below(const Net& n, const double* w, int j, int at, int first, int step, double* x) {
  for (int s = constant(n.in_ptr + j) + first; s < constant(n.in_ptr + j + 1); s += step) {
    int a = constant(n.in + 2 * s), k = constant(n.in + 2 * s + 1);
    double u[16], y[4];
    load_block(n, w, a, u);
#pragma unroll
    for (int e = 0; e < 4; e++) y[e] = AT(at, 4 * k + e);
#pragma unroll
    for (int r = 0; r < 4; r++) x[r] -= u[r] * y[0] + u[4 + r] * y[1] + u[8 + r] * y[2] + u[12 + r] * y[3];
  }
}
FN void gather_above(const Net& n, const double* w, int j, int at, int first, int step, double* z) {
  for (int a = constant(n.col_ptr + j) + first; a < constant(n.col_ptr + j + 1); a += step) {
    int i = constant(n.row + a);
    double u[16], x[4];
    load_block(n, w, a, u);
#pragma unroll
    for (int e = 0; e < 4; e++) x[e] = AT(at, 4 * i + e);
#pragma unroll
    for (int r = 0; r < 4; r++) z[r] += u[4 * r] * x[0] + u[4 * r + 1] * x[1] + u[4 * r + 2] * x[2] + u[4 * r + 3] * x[3];
  }
}
FN void finish_forward(const Net& n, double* w, int j, int at, double* x) {
  double d[10];
  load_diagonal(n, w, j, d);
#pragma unroll
  for (int e = 0; e < 4; e++) x[e] += AT(at, 4 * j + e);
  times_symmetric(d, x[0], x[1], x[2], x[3], &AT(at, 4 * j), WIDTH);
}
FN void finish_backward(const Net& n, double* w, int j, int at, const double* z) {
  double d[10], y[4];
  load_diagonal(n, w, j, d);
  times_symmetric(d, z[0], z[1], z[2], z[3], y, 1);
#pragma unroll
  for (int e = 0; e < 4; e++) AT(at, 4 * j + e) -= y[e];
}
FN void substitute_level(const Net& n, double* w, int lane, int at, bool on, int level, bool forward) {
  int c0 = constant(n.level_ptr + level), c1 = constant(n.level_ptr + level + 1);
#if LANES > 1
  if (2 * (c1 - c0) <= TEAM) {
    for (int q = c0 + lane / TEAM; q < c1; q += TEAMS) {
      int j = constant(n.column + q);
      double x[4] = {0.0};
      if (on && forward) gather_below(n, w, j, at, lane % TEAM, TEAM, x);
      if (on && !forward) gather_above(n, w, j, at, lane % TEAM, TEAM, x);
#pragma unroll
      for (int e = 0; e < 4; e++) x[e] = team_sum(x[e]);
      if (!on || lane % TEAM != 0) continue;
      if (forward) finish_forward(n, w, j, at, x);
      else finish_backward(n, w, j, at, x);
    }
    lanes_meet();
    return;
  }
#endif
  for (int q = c0 + lane; on && q < c1; q += LANES) {
    int j = constant(n.column + q);
    double x[4] = {0.0};
    if (forward) {
      gather_below(n, w, j, at, 0, 1, x);
      finish_forward(n, w, j, at, x);
    } else if (constant(n.col_ptr + j) < constant(n.col_ptr + j + 1)) {
      gather_above(n, w, j, at, 0, 1, x);
      finish_backward(n, w, j, at, x);
    }
  }
  lanes_meet();
}
FN void substitute_forward(const Net& n, double* w, int lane, int at, bool on) {
  for (int l = 0; l < n.n_levels; l++) substitute_level(n, w, lane, at, on, l, true);
}
FN void substitute_backward(const Net& n, double* w, int lane, int at, bool on) {
  for (int l = n.n_levels - 1; l >= 0; l--) substitute_level(n, w, lane, at, on, l, false);
}
