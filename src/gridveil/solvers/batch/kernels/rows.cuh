// Dense rows border the Newton system. K⁻¹ times each column of the border is kept, and the inverse of the Schur complement;
// everything else about them is a sum over the local variables. Without rows all of this compiles to nothing.

struct RowSums { double of[MOST_ROWS]; };
FN void add_change(RowSums& t, const Local& v, double u, double du) {
#pragma unroll
  for (int r = 0; r < ROWS; r++) t.of[r] += row_gradient(v, r, u) * du;
}
FN void add_value(RowSums& t, const Local& v, double u) {
#pragma unroll
  for (int r = 0; r < ROWS; r++) t.of[r] += (0.5 * v.row_quadratic[r] * u + v.row_linear[r]) * u;
}
FN void lanes_join(RowSums& t) {
#pragma unroll
  for (int r = 0; r < ROWS; r++) t.of[r] = lanes_sum(t.of[r]);
}
// What is missing to the bound on one side at a value of the row: positive where it is violated.
FN double row_room(const Net& n, const double* w, int r, int side, double value) {
  double bound = ROW(r, ROW_BOUND + side);
  return side ? bound - value : value - bound;
}
FN double row_stiffness(const Net& n, const double* w, int r, int side) {
  return ROW(r, ROW_EXISTS + side) == 0.0 ? 0.0 : capped(ROW(r, ROW_LIMIT + side), ROW(r, ROW_SLACK + side), DENSE_SOFTNESS);
}
FN double row_softness(const Net& n, const double* w, int r) {
  double stiffness = row_stiffness(n, w, r, 0) + row_stiffness(n, w, r, 1);
  return stiffness > 0.0 ? 1.0 / stiffness : 1.0;
}
// Pull of the rows' multipliers in a step on one local variable.
FN double pull_of_rows(const Net& n, const double* w, const Local& v, double u, int set) {
  double pull = 0.0;
#pragma unroll
  for (int r = 0; r < ROWS; r++) pull += row_gradient(v, r, u) * ROW(r, ROW_RHO + set);
  return pull;
}
