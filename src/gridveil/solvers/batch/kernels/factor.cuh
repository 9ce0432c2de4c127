// Block factorisation U'D⁻¹U on the bus graph, level by level of its elimination tree. Everything is gathered: a block
// collects the updates of all columns below it, so lanes never write to the same place and sums have one order. Only U and
// D⁻¹ are kept, in place.

// Inverse by sweeps with Bunch and Parlett's pivots, for blocks whose leading pivots are too small; the number of negative
// eigenvalues, or -1 if singular. d: lower triangle by rows.
template <int N> FN_APART int invert_with_pivots(double* d) {
  double m[N][N];
  for (int r = 0; r < N; r++)
    for (int c = 0; c <= r; c++) m[r][c] = m[c][r] = d[r * (r + 1) / 2 + c];
  int negative = 0, swept = 0;
  while (swept != (1 << N) - 1) {
    double diagonal = -1.0, off = -1.0;
    int p = 0, q = 0, r = 0;
    for (int i = 0; i < N; i++) {
      if (swept >> i & 1) continue;
      if (absolute(m[i][i]) > diagonal) { diagonal = absolute(m[i][i]); p = i; }
      for (int j = i + 1; j < N; j++)
        if (!(swept >> j & 1) && absolute(m[i][j]) > off) { off = absolute(m[i][j]); q = i; r = j; }
    }
    if (!(most_of(diagonal, off) > 0.0)) return -1;
    if (diagonal >= BUNCH_PARLETT * off) {
      negative += m[p][p] < 0.0;
      double inv = 1.0 / m[p][p];
      for (int i = 0; i < N; i++)
        for (int j = i; i != p && j < N; j++)
          if (j != p) { m[i][j] -= m[i][p] * inv * m[j][p]; m[j][i] = m[i][j]; }
      for (int i = 0; i < N; i++)
        if (i != p) { m[i][p] *= inv; m[p][i] = m[i][p]; }
      m[p][p] = -inv;
      swept |= 1 << p;
      continue;
    }
    double det = m[q][q] * m[r][r] - m[q][r] * m[q][r], a = m[r][r] / det, b = -m[q][r] / det, c = m[q][q] / det;
    negative += 1;
    double x[N], y[N];
    for (int i = 0; i < N; i++) { x[i] = m[i][q] * a + m[i][r] * b; y[i] = m[i][q] * b + m[i][r] * c; }
    for (int i = 0; i < N; i++)
      for (int j = i; i != q && i != r && j < N; j++)
        if (j != q && j != r) { m[i][j] -= x[i] * m[j][q] + y[i] * m[j][r]; m[j][i] = m[i][j]; }
    for (int i = 0; i < N; i++)
      if (i != q && i != r) { m[i][q] = m[q][i] = x[i]; m[i][r] = m[r][i] = y[i]; }
    m[q][q] = -a; m[q][r] = m[r][q] = -b; m[r][r] = -c;
    swept |= 1 << q | 1 << r;
  }
  for (int r = 0; r < N; r++)
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
    int found = invert_with_pivots<4>(t);
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

FN void load_diagonal(const Net& n, const double* w, int j, double* d) { load_run<10>(w, n.o_diagonal + 10 * j, d); }
// No price meets a price in a block that the elimination leaves as its branches wrote it: four of its entries are zero.
FN bool is_price_pair(int e) { return e == 10 || e == 11 || e == 14 || e == 15; }
FN void load_block(const Net& n, const double* w, int a, double* u) {
  bool plain = constant(n.plain + a);
#if SPLIT == 1
#pragma unroll
  for (int e = 0; e < 16; e++) u[e] = is_price_pair(e) ? 0.0 : AT(n.o_block, 16 * a + e);
  if (plain) return;
#pragma unroll
  for (int e = 10; e < 16; e++)
    if (is_price_pair(e)) u[e] = AT(n.o_block, 16 * a + e);
#else
  load_run<16>(w, n.o_block + 16 * a, u);
#pragma unroll
  for (int e = 10; e < 16; e++)
    if (is_price_pair(e)) u[e] = plain ? 0.0 : u[e];
#endif
}
// D · x for a symmetric 4×4 block given by its lower triangle; x and y with strides.
FN void times_symmetric(const double* d, double x0, double x1, double x2, double x3, double* y, int stride) {
  y[0] = d[0] * x0 + d[1] * x1 + d[3] * x2 + d[6] * x3;
  y[stride] = d[1] * x0 + d[2] * x1 + d[4] * x2 + d[7] * x3;
  y[2 * stride] = d[3] * x0 + d[4] * x1 + d[5] * x2 + d[8] * x3;
  y[3 * stride] = d[6] * x0 + d[7] * x1 + d[8] * x2 + d[9] * x3;
}
// What a lane has of a block where SPLIT lanes share it, from its first row on: columns and rows of an off-diagonal block, rows
// of a diagonal one. Lanes that have all of it take it as it is.
#if SPLIT > 1
#define PIPELINED _Pragma("unroll 2")  // the next update is fetched while one is made: there is hardly another warp to wait with
#else
#define PIPELINED
#endif
FN int first_row(int lane) { return lane % SPLIT * OWN_ROWS; }
FN void load_columns(const Net& n, const double* w, int a, int row, double* u) {
#if SPLIT == 1
  load_block(n, w, a, u);
#else
  bool plain = constant(n.plain + a);
#pragma unroll
  for (int e = 0; e < 4; e++) {
    double entry = AT(n.o_block, 16 * a + 4 * e + row);
    u[e] = plain && e > 1 && row > 1 ? 0.0 : entry;
  }
#endif
}
FN void load_rows(const Net& n, const double* w, int a, int row, double* u) {
#if SPLIT == 1
  load_block(n, w, a, u);
#else
  bool plain = constant(n.plain + a);
  load_run<4>(w, n.o_block + 16 * a + 4 * row, u);
#pragma unroll
  for (int e = 2; e < 4; e++) u[e] = plain && row > 1 ? 0.0 : u[e];
#endif
}
FN void load_diagonal_rows(const Net& n, const double* w, int j, int row, double* d) {
#pragma unroll
  for (int r = 0; r < OWN_ROWS; r++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      int low = row + r < e ? row + r : e, high = row + r < e ? e : row + r;
      d[4 * r + e] = AT(n.o_diagonal, 10 * j + high * (high + 1) / 2 + low);
    }
}

#if !WIDE  // blocks.cuh has these for vectors
// One update of a block: minus own columns of U_a, times D_k⁻¹, times U_b. Of a diagonal block (a = b) the lower triangle will do.
FN void add_update(const Net& n, const double* w, int a, int b, int k, int row, bool lower, double* sum) {
  double own[4 * OWN_ROWS], m[4 * OWN_ROWS], u[16], d[10];
  load_columns(n, w, a, row, own);
  load_diagonal(n, w, k, d);
#pragma unroll
  for (int r = 0; r < OWN_ROWS; r++)
    times_symmetric(d, own[r], own[OWN_ROWS + r], own[2 * OWN_ROWS + r], own[3 * OWN_ROWS + r], m + r, OWN_ROWS);
  load_block(n, w, b, u);
#pragma unroll
  for (int r = 0; r < OWN_ROWS; r++)
#pragma unroll
    for (int c = 0; c < 4; c++) {
      if (SPLIT == 1 && lower && c > r) continue;
      sum[4 * r + c] -= m[r] * u[c] + m[OWN_ROWS + r] * u[4 + c] + m[2 * OWN_ROWS + r] * u[8 + c] + m[3 * OWN_ROWS + r] * u[12 + c];
    }
}
// What the columns below add to own rows of the diagonal block of column j (sum) and of the predictor's right-hand side (x):
// every ``step``-th update, from the ``first`` on.
FN void gather_diagonal(const Net& n, const double* w, int j, int row, int first, int step, double* sum, double* x) {
  PIPELINED
  for (int q = constant(n.in_ptr + j) + first; q < constant(n.in_ptr + j + 1); q += step) {
    int a = constant(n.in + 2 * q), k = constant(n.in + 2 * q + 1);
    double u[4 * OWN_ROWS], y[4];
    add_update(n, w, a, a, k, row, true, sum);
    load_columns(n, w, a, row, u);
    load_run<4>(w, n.o_x + 4 * k, y);
#pragma unroll
    for (int r = 0; r < OWN_ROWS; r++)
      x[r] -= u[r] * y[0] + u[OWN_ROWS + r] * y[1] + u[2 * OWN_ROWS + r] * y[2] + u[3 * OWN_ROWS + r] * y[3];
  }
}
#endif
// Shifts and local variables in the diagonal block of column j.
FN void add_locals(const Net& n, const double* w, int j, double shift, bool softened, double* d, int& negative) {
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
}
// The inverse of the diagonal block d of column j, and D⁻¹ x.
FN void invert_diagonal(const Net& n, double* w, int j, double* d, const double* x, int& negative, int& singular) {
  int found = invert_block(d);
  if (found < 0) singular = 1;
  negative += found;
  store_run<10>(w, n.o_diagonal + 10 * j, d);
  times_symmetric(d, x[0], x[1], x[2], x[3], &STEP(n.o_x, 0, 4 * j), WIDTH);
}
#if SPLIT == 1
FN void finish_diagonal(const Net& n, double* w, int j, double shift, bool softened, const double* sum, double* x, int& negative,
                        int& singular) {
  double d[10], own[4];
  load_diagonal(n, w, j, d);
  load_run<4>(w, n.o_x + 4 * j, own);
#pragma unroll
  for (int r = 0; r < 4; r++) {
#pragma unroll
    for (int c = 0; c <= r; c++) d[r * (r + 1) / 2 + c] += sum[4 * r + c];
    x[r] += own[r];
  }
  add_locals(n, w, j, shift, softened, d, negative);
  invert_diagonal(n, w, j, d, x, negative, singular);
}
#else
// Where a block has several lanes, its local variables are added before all levels, and one lane inverts what all have gathered.
FN void begin_diagonal(const Net& n, double* w, int j, double shift, bool softened, int& negative) {
  double d[10];
  load_diagonal(n, w, j, d);
  add_locals(n, w, j, shift, softened, d, negative);
  store_run<10>(w, n.o_diagonal + 10 * j, d);
}
FN void add_to_diagonal(const Net& n, double* w, int j, int row, const double* sum, const double* x) {
#pragma unroll
  for (int c = 0; c < 4; c++)
    if (c <= row) AT(n.o_diagonal, 10 * j + row * (row + 1) / 2 + c) += sum[c];
  STEP(n.o_x, 0, 4 * j + row) += x[0];
}
FN void end_diagonal(const Net& n, double* w, int j, int& negative, int& singular) {
  double d[10], x[4];
  load_diagonal(n, w, j, d);
  load_run<4>(w, n.o_x + 4 * j, x);
  invert_diagonal(n, w, j, d, x, negative, singular);
}
#endif

#if !WIDE
// Own rows of an off-diagonal block: minus U_a' D_k⁻¹ U_b over all columns k in which both its buses stand.
FN void gather_block(const Net& n, const double* w, int item, int row, int first, int step, double* sum) {
  PIPELINED
  for (int q = constant(n.source_ptr + item) + first; q < constant(n.source_ptr + item + 1); q += step) {
    int a = constant(n.source + 3 * q), b = constant(n.source + 3 * q + 1), k = constant(n.source + 3 * q + 2);
    add_update(n, w, a, b, k, row, false, sum);
  }
}
#endif
FN void finish_block(const Net& n, double* w, int item, int row, double* sum) {
  int code = constant(n.off + item), t = code >> 1;
  if (!(code & 1)) {  // not fill: a branch has written here
    double own[4 * OWN_ROWS];
    load_rows(n, w, t, row, own);
#pragma unroll
    for (int e = 0; e < 4 * OWN_ROWS; e++) sum[e] += own[e];
  }
  store_run<4 * OWN_ROWS>(w, n.o_block + 16 * t + 4 * row, sum);
}

// What of one item of a level is still to do when its updates are gathered: a block of a column (≥ 0) or off the diagonal.
FN void finish_item(const Net& n, double* w, int column, int item, int row, double shift, bool softened, double* sum, double* x,
                    int& negative, int& singular) {
  if (column < 0) { finish_block(n, w, item, row, sum); return; }
#if SPLIT == 1
  finish_diagonal(n, w, column, shift, softened, sum, x, negative, singular);
#else
  add_to_diagonal(n, w, column, row, sum, x);
#endif
}
// One item of a level by a lane, or by SPLIT lanes.
FN void factor_item(const Net& n, double* w, int lane, int column, int item, double shift, bool softened, int& negative,
                    int& singular) {
  double sum[4 * OWN_ROWS] = {0.0}, x[OWN_ROWS] = {0.0};
  int row = first_row(lane);
  bool untouched = column < 0 && constant(n.source_ptr + item) == constant(n.source_ptr + item + 1) &&
                   !(constant(n.off + item) & 1);
  if (untouched || (SPLIT > 1 && column >= 0 && constant(n.in_ptr + column) == constant(n.in_ptr + column + 1))) return;
  if (column >= 0) gather_diagonal(n, w, column, row, 0, 1, sum, x);
  else gather_block(n, w, item, row, 0, 1, sum);
  finish_item(n, w, column, item, row, shift, softened, sum, x, negative, singular);
}
#if LANES > 1
// One item by a team of lanes: near the root a level has few items with many updates each.
FN void factor_together(const Net& n, double* w, int lane, bool on, int column, int item, double shift, bool softened,
                        int& negative, int& singular) {
  double sum[4 * OWN_ROWS] = {0.0}, x[OWN_ROWS] = {0.0};
  int row = first_row(lane), crew = lane / SPLIT;
  if (on && column >= 0) gather_diagonal(n, w, column, row, crew, TEAM / SPLIT, sum, x);
  if (on && column < 0) gather_block(n, w, item, row, crew, TEAM / SPLIT, sum);
#pragma unroll
  for (int e = 0; e < 4 * OWN_ROWS; e++) sum[e] = crews_sum(sum[e]);
#pragma unroll
  for (int e = 0; e < OWN_ROWS; e++) x[e] = crews_sum(x[e]);
  if (on && crew == 0) finish_item(n, w, column, item, row, shift, softened, sum, x, negative, singular);
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
#if SPLIT > 1
  for (int j = lane; on && j < n.n_bus; j += LANES) begin_diagonal(n, w, j, shift, softened, negative);
  lanes_meet();
#endif
  for (int l = 0; l < n.n_levels; l++) {
    int c0 = constant(n.level_ptr + l), n_columns = constant(n.level_ptr + l + 1) - c0;
    int o0 = constant(n.off_ptr + l), n_items = n_columns + constant(n.off_ptr + l + 1) - o0;
#if LANES > 1
    bool together = 2 * n_items <= TEAM;
    for (int q = lane / TEAM; together && q < n_items; q += TEAMS) {
      int column = q < n_columns ? constant(n.column + c0 + q) : -1;
      factor_together(n, w, lane % TEAM, on, column, o0 + q - n_columns, shift, softened, negative, singular);
    }
#else
    const bool together = false;
#endif
    for (int q = lane / SPLIT; on && !together && q < n_items; q += LANES / SPLIT) {
      int column = q < n_columns ? constant(n.column + c0 + q) : -1;
      factor_item(n, w, lane, column, o0 + q - n_columns, shift, softened, negative, singular);
    }
    lanes_meet();
#if SPLIT > 1
    for (int q = lane; on && q < n_columns; q += LANES)
      end_diagonal(n, w, constant(n.column + c0 + q), negative, singular);
    lanes_meet();
#endif
  }
  negative = (int)lanes_sum(negative);
  singular = (int)lanes_sum(singular);
  if (!on || lane != 0) return;
  SCALAR(FACTORISATIONS) = SCALAR(FACTORISATIONS) + 1.0;
  SCALAR(NEGATIVE) = singular ? -1.0 : negative;
  SCALAR(PREPARED) = FACTORED;
  if (ROWS == 0 || singular) judge_inertia(n, w, negative, singular);
}

#if !WIDE
// One column of a substitution in N vectors, which lie at ``at`` and behind each other: the share in own rows of every
// ``step``-th block, from the ``first`` on.
template <int N>
FN void gather_below(const Net& n, const double* w, int j, int at, int row, int first, int step, double* x) {
  PIPELINED
  for (int s = constant(n.in_ptr + j) + first; s < constant(n.in_ptr + j + 1); s += step) {
    int a = constant(n.in + 2 * s), k = constant(n.in + 2 * s + 1);
    double u[4 * OWN_ROWS], y[4];
    load_columns(n, w, a, row, u);
#pragma unroll
    for (int v = 0; v < N; v++) {
      load_run<4>(w, at + 4 * (v * n.n_bus + k), y);
#pragma unroll
      for (int r = 0; r < OWN_ROWS; r++)
        x[v * OWN_ROWS + r] -=
            u[r] * y[0] + u[OWN_ROWS + r] * y[1] + u[2 * OWN_ROWS + r] * y[2] + u[3 * OWN_ROWS + r] * y[3];
    }
  }
}
template <int N>
FN void gather_above(const Net& n, const double* w, int j, int at, int row, int first, int step, double* z) {
  PIPELINED
  for (int a = constant(n.col_ptr + j) + first; a < constant(n.col_ptr + j + 1); a += step) {
    int i = constant(n.row + a);
    double u[4 * OWN_ROWS], x[4];
    load_rows(n, w, a, row, u);
#pragma unroll
    for (int v = 0; v < N; v++) {
      load_run<4>(w, at + 4 * (v * n.n_bus + i), x);
#pragma unroll
      for (int r = 0; r < OWN_ROWS; r++)
        z[v * OWN_ROWS + r] += u[4 * r] * x[0] + u[4 * r + 1] * x[1] + u[4 * r + 2] * x[2] + u[4 * r + 3] * x[3];
    }
  }
}
#endif
// Own rows of D⁻¹ times a vector of which every lane has its own rows.
FN void times_diagonal(const double* d, const double* own, double* found) {
  double whole[4];
  whole_vector(own, whole);
#pragma unroll
  for (int r = 0; r < OWN_ROWS; r++)
    found[r] = d[4 * r] * whole[0] + d[4 * r + 1] * whole[1] + d[4 * r + 2] * whole[2] + d[4 * r + 3] * whole[3];
}
template <int N> FN void finish_forward(const Net& n, double* w, int j, int at, int row, double* x) {
  double d[4 * OWN_ROWS], found[OWN_ROWS];
  load_diagonal_rows(n, w, j, row, d);
#pragma unroll
  for (int v = 0; v < N; v++) {
    int place = 4 * (v * n.n_bus + j) + row;
#pragma unroll
    for (int r = 0; r < OWN_ROWS; r++) x[v * OWN_ROWS + r] += AT(at, place + r);
    times_diagonal(d, x + v * OWN_ROWS, found);
#pragma unroll
    for (int r = 0; r < OWN_ROWS; r++) AT(at, place + r) = found[r];
  }
}
template <int N> FN void finish_backward(const Net& n, double* w, int j, int at, int row, const double* z) {
  double d[4 * OWN_ROWS], found[OWN_ROWS];
  load_diagonal_rows(n, w, j, row, d);
#pragma unroll
  for (int v = 0; v < N; v++) {
    times_diagonal(d, z + v * OWN_ROWS, found);
#pragma unroll
    for (int r = 0; r < OWN_ROWS; r++) AT(at, 4 * (v * n.n_bus + j) + row + r) -= found[r];
  }
}
template <int N, bool FORWARD> FN void substitute_level(const Net& n, double* w, int lane, int at, bool on, int level) {
  int c0 = constant(n.level_ptr + level), c1 = constant(n.level_ptr + level + 1), row = first_row(lane);
#if LANES > 1
  if (2 * (c1 - c0) <= TEAM) {
    int crew = lane % TEAM / SPLIT;
    for (int q = c0 + lane / TEAM; q < c1; q += TEAMS) {
      int j = constant(n.column + q);
      double x[N * OWN_ROWS] = {0.0};
      if (on && FORWARD) gather_below<N>(n, w, j, at, row, crew, TEAM / SPLIT, x);
      if (on && !FORWARD) gather_above<N>(n, w, j, at, row, crew, TEAM / SPLIT, x);
#pragma unroll
      for (int e = 0; e < N * OWN_ROWS; e++) x[e] = crews_sum(x[e]);
      if (!on || crew != 0) continue;
      if (FORWARD) finish_forward<N>(n, w, j, at, row, x);
      else finish_backward<N>(n, w, j, at, row, x);
    }
    lanes_meet();
    return;
  }
#endif
  for (int q = c0 + lane / SPLIT; on && q < c1; q += LANES / SPLIT) {
    int j = constant(n.column + q);
    double x[N * OWN_ROWS] = {0.0};
    if (FORWARD) {
      gather_below<N>(n, w, j, at, row, 0, 1, x);
      finish_forward<N>(n, w, j, at, row, x);
    } else if (constant(n.col_ptr + j) < constant(n.col_ptr + j + 1)) {
      gather_above<N>(n, w, j, at, row, 0, 1, x);
      finish_backward<N>(n, w, j, at, row, x);
    }
  }
  lanes_meet();
}
template <int N> FN void substitute_forward(const Net& n, double* w, int lane, int at, bool on) {
  for (int l = 0; l < n.n_levels; l++) substitute_level<N, true>(n, w, lane, at, on, l);
}
template <int N> FN void substitute_backward(const Net& n, double* w, int lane, int at, bool on) {
  for (int l = n.n_levels - 1; l >= 0; l--) substitute_level<N, false>(n, w, lane, at, on, l);
}
