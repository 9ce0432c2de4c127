"""Every setting of the structured solver, under the name it has in the literature where it has one.

Each line says what a setting does and how it was chosen. WB: Wächter and Biegler (2006); Ipopt: default of Ipopt 3.14;
M92: Mehrotra (1992); BP71: Bunch and Parlett (1971); trial: compared with other values, as docs/structured-solver.md reports;
unrecorded: no comparison with other values is on record. The table in docs/structured-solver.md is the same one, which a
test sees to.

Compiled code takes these as constants: after a change, delete the compiled kernels (docs/structured-solver.md,
"Compilation").
"""

# Filter line search on (θ, φ): infeasibility and barrier function.
GAMMA_THETA = 1e-5
"""γ_θ: share of θ that a step must take off. WB."""
GAMMA_PHI = 1e-8
"""γ_φ: or else φ must fall by this share of θ. Ipopt (WB: 1e-5)."""
ETA_PHI = 1e-8
"""η_φ: Armijo: share of the predicted fall of φ. Ipopt (WB: 1e-4)."""
S_PHI = 2.3
"""s_φ: switching condition: power of the slope. WB."""
S_THETA = 1.1
"""s_θ: switching condition: power of θ. WB."""
DELTA = 1.0
"""δ: switching condition: factor on the power of θ. WB."""
THETA_MAX = 1e4
"""θ_max: largest θ allowed, relative to max(1, θ of the start). WB."""
THETA_MIN = 1e-4
"""θ_min: below this θ the switching condition may hold. WB, but absolute."""
GAMMA_ALPHA = 0.05
"""γ_α: safety factor on the shortest step tried. WB."""
BACKTRACK = 0.5
"""ratio of one trial step to the last. WB."""
P_MAX = 4
"""p_max: most second-order corrections of a step. WB."""
KAPPA_SOC = 0.99
"""κ_soc: next correction only if θ fell below this share. WB."""
ROUNDING = 2.220446049250313e-15
"""relative rounding error of φ, forgiven. WB: 10 ε."""
TAU_MIN = 0.99
"""τ_min: fraction to the boundary, at least. WB."""
TINY_STEP = 1e-14
"""relative step below which no search is made. near WB, 10 ε."""
RETRIES = 10
"""times that a run may forget its filter, where no step is found. trial: 9 of 27, not 0."""
WIDEST_PRODUCT = 10.0
"""slacks widen while λs is at most this many μ. unrecorded."""
KAPPA_SIGMA = 1e10
"""κ_Σ: multipliers stay within this factor of μ/s. WB."""

# Barrier parameter.
KAPPA_EPSILON = 10.0
"""κ_ε: a barrier problem is solved at an error of κ_ε μ. WB."""
KAPPA_MU = 0.2
"""κ_μ: linear decrease of a held μ. WB."""
THETA_MU = 1.5
"""θ_μ: superlinear decrease of a held μ. WB."""
LEAST_MU = 0.1
"""least μ, in units of the tolerance. WB."""
SIGMA_POWER = 3
"""Mehrotra's exponent: σ = (μ_aff/μ)³. M92."""
SIGMA_MIN = 0.01
"""σ_min: least share σ of the mean product to aim at. unrecorded."""
MOST_CORRECTED = 10.0
"""most mean products a corrector adds to an aim. trial: 1, 100 a third slower."""
MEMORY = 4
"""iterations over which free mode asks for progress. Ipopt."""
PROGRESS = 0.9
"""progress: the merit falls to this share. unrecorded."""
HELD_START = 0.8
"""first held μ, in mean products. Ipopt."""
SHORT_STEP = 0.1
"""a primal step below this is short. unrecorded."""
AHEAD = 10.0
"""recentre if mean product < this × infeasibility. trial, with RECENTRED."""
RECENTRED = 10.0
"""recentring aims at this many mean products. trial: 5 % fewer iterations."""

# Inertia: shifts of the diagonal.
DELTA_W_FIRST = 1e-4
"""δ_w⁰: first shift of the Hessian. WB."""
DELTA_W_MIN = 1e-9
"""δ_w min: least shift of the Hessian. unrecorded (WB: 1e-20)."""
DELTA_W_MAX = 1e12
"""δ_w max: shift at which the system counts as singular. unrecorded (WB: 1e40)."""
KAPPA_W_FIRST = 100.0
"""κ̄_w⁺: growth of the shift in the first correction. WB."""
KAPPA_W_GROW = 8.0
"""κ_w⁺: growth of the shift in later corrections. WB."""
KAPPA_W_SHRINK = 3.0
"""1/κ_w⁻: the last shift is divided by this to begin with. WB."""
DELTA_C = 1e-10
"""δ_c: shift of the balances, always on. trial: 1e-14 to 1e-6 no better."""
MOST_FACTORISATIONS = 59
"""factorisations per iteration, at most. beyond what δ_w max allows."""

# Linear algebra.
BUNCH_PARLETT = 0.6403882032022076
"""α: 1×1 pivot if diagonal ≥ α × largest entry. BP71: (1 + √17)/8."""
MOST_GROWTH = 10.0
"""multiplier at which a pivot calls for pivoting. unrecorded."""
FEW_ROWS = 3
"""dense rows up to which their border is dense. as many as a task without kept totals has."""
LEAST_PIVOT = 1e-10
"""least pivot of a local variable. as δ_c."""
REFINEMENTS = 3
"""steps of iterative refinement, at most. unrecorded."""
REFINED = 1e-11
"""relative residual at which refinement ends. unrecorded."""
LARGEST_PRODUCT = 1e200
"""factors multiplied up before a logarithm is taken. range of doubles."""

# Capped stiffness of limits.
SOFTNESS = 1e-8
"""c: softness in series with each limit, at first. trial: uncapped, pegase stalls."""
SOFTNESS_STEP = 0.1
"""factor on c of a limit that the step leaves violated. unrecorded."""
SOFTNESS_RETRY = 0.01
"""the same where no step was found. unrecorded."""
SOFTNESS_MIN = 1e-16
"""least c. unrecorded."""
LEFT_OVER = 0.1
"""violation left, over infeasibility, that cuts c. unrecorded."""
DENSE_SOFTNESS = 1e-10
"""softness in series with a dense row. as δ_c."""

# Verdict.
TOLERANCE = 1e-7
"""ε_tol: largest scaled error of the engine. trial: at 1e-6 costs vary by 8e-6."""
LEAST_DEMAND = 1e-3
"""total demand (p.u.) down to which ε_tol shrinks with it. rounding: 1e-10."""
PRICE_SCALE = 10.0
"""s_max: prices above this loosen the dual tolerance. unrecorded (WB: 100)."""
ROUNDED_DUAL = 100.0
"""stationarity, in ε_tol, where rounding stops the run. CHECK_TOLERANCE / ε_tol."""
ROUNDED_PRODUCT = 10.0
"""products, in ε_tol, where rounding stops the run. unrecorded."""
CHECK_TOLERANCE = 1e-5
"""largest residual of the independent check. unrecorded."""
SOUND = 1e-6
"""residual at which the check overrules the engine. a tenth of CHECK_TOLERANCE."""
CORNER = 1e-5
"""output within which both slopes of a cost will do. as CHECK_TOLERANCE."""
LEAST_BALL = 1e-3
"""least measure of the ball in the check. unrecorded."""

# Scaling.
GRADIENT_MAX = 100.0
"""g_max: steepest gradient of objective and cost row. WB."""
DISTANCE_SCALE = 100.0
"""factor on squared distances. unrecorded."""
DISTANCE_GRADIENT = 300.0
"""bound on their gradient, taken at the targets. trial: 103 of 103, not 85."""
LEAST_RADIUS_SQUARED = 1e-8
"""δ of a ball below which its row scales no further. unrecorded."""
LEAST_WEIGHT = 1e-12
"""least weight of a cut to scale by. no division by zero."""
RELAXATION = 1e-8
"""relative relaxation of bounds and limits. WB."""
FIXED_WIDTH = 1e-9
"""bounds closer than this make a constant. below RELAXATION."""

# Cold starts and what is tried after them.
START_PUSH = 1e-2
"""κ_1: relative distance of a cold start from bounds. WB."""
MAGNITUDE_PULL = 1.0
"""no-load fit: pull of log v towards 0. unrecorded."""
ANGLE_PULL = 1e-3
"""no-load fit: pull of angles towards 0. unrecorded."""
REFERENCE_PULL = 1e6
"""no-load fit: pull of reference angles. above all admittances."""
MU_DISPATCH = 1.0
"""μ_0: first μ of a dispatch. trial: from 10 poorer optima."""
MU_BAND = 10.0
"""μ_0: first μ under a cost band. trial: fewer iterations."""
MU_SOFTENED = 100.0
"""μ_0: first μ with soft balances. trial: 83 of 90, not 73."""
MU_HELD = 0.1
"""μ_0: first μ of the last cold run, held. Ipopt."""
MU_ELASTIC = 0.1
"""μ_0: first μ of restoration, held. Ipopt."""
FIRM = 1e6
"""weight of the squares traded by soft balances. a price of 100 trades 1e-4."""
SOFT_TOLERANCE = 1e-5
"""tolerance with soft balances. only a start."""
HOLD = 1e-3
"""restoration: weight of the distance moved. unrecorded."""
ELASTIC_ROOM = 1e-2
"""restoration: first trade beyond the mismatch. as κ_1."""
ELASTIC_TOLERANCE = 1e-5
"""tolerance of restoration. only a start."""
TRADED = 1e-3
"""trade left at a bus that means infeasible. unrecorded."""

# Warm starts: distance from bounds and first μ.
WARM_PUSH = 1e-3
"""distance with multipliers. Ipopt."""
WARM_MU = 1e-4
"""μ_0: first μ with multipliers. unrecorded."""
FEASIBLE = 1e-6
"""violation up to which a start is feasible as it is. unrecorded."""
FEASIBLE_PUSH = 1e-6
"""distance with multipliers, feasible start. as FEASIBLE."""
FEASIBLE_MU = 1e-5
"""μ_0: first μ with multipliers, feasible start. unrecorded."""
SOFTENED_PUSH = 1e-4
"""distance where soft balances ended. trial: 45 of 52, not 42."""
NEAR_COST_PUSH = 1e-3
"""distance without multipliers, dispatch. trial at α = 1, 10."""
NEAR_COST_MU = 0.03
"""μ_0: first μ without multipliers, dispatch. trial at α = 1, 10."""
NEAR_DISTANCE_PUSH = 3e-4
"""distance without multipliers, Nearest. trial at α = 1, 10."""
NEAR_DISTANCE_MU = 0.1
"""μ_0: first μ without multipliers, Nearest. trial at α = 1, 10."""
NEAR_DEMAND_PUSH = 1e-2
"""distance without multipliers, Push. trial: 91 of 92."""
NEAR_DEMAND_MU = 1e-2
"""μ_0: first μ without multipliers, Push. trial: 91 of 92."""
THIN_PUSH = 1e-5
"""distance of a dispatch in a thin interior. trial: 11 of 17."""
THIN_MU = 0.01
"""μ_0: first μ of a dispatch in a thin interior. trial: 11 of 17."""
RESUMED_PUSH = 1e-2
"""distance where a run ended, first resumption. trial: 12 of 18, not 7."""
RESUMED_MU = 0.1
"""μ_0: first μ of the first resumption. trial, with RESUMED_PUSH."""
RESUMED_NEXT = 0.1
"""factor on both for the next resumption. trial, with RESUMED_PUSH."""
RESUMPTIONS = 3
"""resumptions, each free and then held. trial, with RESUMED_PUSH."""
LARGE = 1500
"""buses beyond which a near start gets one resumption only. trial: one dispatch of case2853_sdet__api in 0.4 of the time."""
RESUMED_MULTIPLIER = 1e3
"""largest multiplier kept in a resumption. trial: 10 and 1e5 no better."""
PRIMAL_MU = 1.0
"""μ_0: first μ of an infeasible start without multipliers. as MU_DISPATCH."""
LEAST_COST_WEIGHT = 1e-3
"""cost weight below which a band says no prices. unrecorded."""
NEARBY = 0.03
"""move of every demand (p.u.) up to which the last dispatch is a start. unrecorded."""
INTERIOR = 1e-4
"""room (p.u.) that joint problems leave at each limit. costs 0.2 % of δ."""

# Iterations.
ITERATIONS_WARM = 50
"""iterations of a run with multipliers. most take 10 to 50."""
ITERATIONS_NEAR = 120
"""iterations of a run without multipliers. unrecorded."""
ITERATIONS_SOFTENED = 130
"""iterations with soft balances. unrecorded."""
ITERATIONS_BRIEF = 120
"""iterations of any other run, brief solve. unrecorded."""
ITERATIONS_THOROUGH = 300
"""iterations of any other run, thorough solve. unrecorded."""
ITERATIONS_RESUMED = 500
"""iterations of a resumption, or of a run in a thin interior. up to 409 needed."""
PATIENCE = 10
"""short steps running that end a run. unrecorded."""
