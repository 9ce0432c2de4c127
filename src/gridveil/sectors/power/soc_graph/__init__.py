"""The second-order-cone relaxation solved on the bus graph: a primal-dual interior point that knows the network.

    minimise    Σ ½ a·u² + b·u  (+ L·Σ t)
    subject to  A x + draw = 0              two balances per bus, with prices y
                G x + s = h,  s ∈ K         half-lines and second-order cones, with multipliers z ∈ K

Variables x: w = |V|² of each bus; α and ω of each pair of buses (see `soc_model`; its η is written out in w_i and w_j);
local u, the segments of active generation and the sum of reactive generation at a bus; and, where moves are priced, (t, P, Q)
of one move per bus with |P + jQ| ≤ t. Sites of one bus share a move: Σ|s_i| is least where they move together.

Each step solves, with W the Nesterov–Todd scaling of (s, z),

    ⎡ H  Aᵀ  Gᵀ ⎤ ⎡dx⎤
    ⎢ A  0   0  ⎥ ⎢dy⎥ = right-hand side,        H = diag(a).
    ⎣ G  0  −W² ⎦ ⎣dz⎦

Every row of G belongs to a bus, a local variable, a move, or a pair, and those of a pair have only the columns (α, ω, w_i, w_j).
So u is eliminated by a division, a move by its own W², and (α, ω) by Householder reflections of the rows W⁻¹G of their
pair. (To form GᵀW⁻²G instead loses half of the digits: where a cone is nearly active its stiff rows drown the others.) What is left
is a 3×3 block for (w, y_P, y_Q) of each bus and one for each pair: a matrix on the bus graph, factored by `blocks`. Refinement on
the full system makes up for what the elimination lost.

Nothing here is trusted by a bound: `multipliers` turns y and z into multipliers of the rows of `soc_model`, which any caller
may check.
"""
