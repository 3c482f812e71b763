"""Newton's part of comparisons: run by ``benchmarks.other_simulators`` in an interpreter that has Newton.

Reads descriptions of models and their time steps from standard input (JSON), simulates them on the CPU, forward and through
Warp's tape, and prints times and final positions (JSON). Links go to Newton's Featherstone solver, particles with elements
between them to its semi-implicit one. It imports nothing of this project: its interpreter needs Newton, Warp and numpy only.
"""

import json
import sys
import time

import newton
import numpy as np
import warp as wp


class Links:
    """One articulation of fixed and revolute joints, fixed links merged into their parents."""

    positions, velocities = "joint_q", "joint_qd"

    def __init__(self, case: dict) -> None:
        """Build the model of a case."""
        builder = newton.ModelBuilder(gravity=case["gravity"])
        joints = []
        for link in case["links"]:
            body = builder.add_link(
                mass=link["mass"], com=wp.vec3(*link["com"]), inertia=wp.mat33(*np.ravel(link["inertia"])), lock_inertia=True
            )
            joint_placement = {
                "parent": link["parent"],
                "child": body,
                "parent_xform": wp.transform(link["frame"][:3], link["frame"][3:]),
            }
            if link["joint"] == "fixed":
                joints.append(builder.add_joint_fixed(**joint_placement))
            else:
                limits = {}
                if link["limit_low"] is not None:
                    limits = {"limit_lower": link["limit_low"], "limit_upper": link["limit_high"]}
                joints.append(
                    builder.add_joint_revolute(
                        **joint_placement, **limits, axis=wp.vec3(*link["axis"]),
                        stiffness=link["stiffness"], rest_q=link["rest"], damping=link["damping"], armature=link["armature"],
                        limit_ke=link["limit_stiffness"], limit_kd=0.0, target_ke=0.0, target_kd=0.0,
                    )
                )  # fmt: skip
        builder.add_articulation(joints)
        builder.collapse_fixed_joints()
        self.model = builder.finalize(device="cpu", requires_grad=True)
        self.solver = newton.solvers.SolverFeatherstone(self.model, angular_damping=0.0)
        self.force = case["force"]

    def controls(self, steps: int, *, gradient: bool) -> list:
        """Controls of each step: a row of motor forces for each frame."""
        controls = []
        for row in self.force:
            control = self.model.control(requires_grad=gradient)
            control.joint_f.assign(np.array(row, dtype=np.float32))
            controls += [control] * (steps // len(self.force))
        return controls

    def prepare(self, state: newton.State) -> None:
        """No operation: a step does not accumulate forces in its initial state."""


class Particles:
    """Particles connected by tetrahedra, or by triangles and bending edges; particles without mass are fixed."""

    positions, velocities = "particle_q", "particle_qd"

    def __init__(self, case: dict) -> None:
        """Build the model of a case."""
        builder = newton.ModelBuilder(gravity=case["gravity"])
        rest_positions = [wp.vec3(*row) for row in case["rest"]]
        builder.add_particles(rest_positions, [wp.vec3(0.0)] * len(rest_positions), case["mass"])
        for corners, (mu, lam, damping) in zip(case["tets"], case["tet_materials"], strict=True):
            builder.add_tetrahedron(*corners, k_mu=mu, k_lambda=lam, k_damp=damping)
        if case["triangles"]:
            names = ("tri_ke", "tri_ka", "tri_kd", "tri_drag", "tri_lift")
            materials = dict(zip(names, np.array(case["tri_materials"]).T.tolist(), strict=True))
            builder.add_triangles(*np.array(case["triangles"]).T, **materials)
        if case["edges"]:
            stiffness, damping, rest = np.array(case["edge_materials"]).T.tolist()
            builder.add_edges(*np.array(case["edges"]).T, rest=rest, edge_ke=stiffness, edge_kd=damping)
        self.model = builder.finalize(device="cpu", requires_grad=True)
        self.model.particle_grid = None  # no contact of particles with each other
        self.solver = newton.solvers.SolverSemiImplicit(self.model, enable_tri_contact=False)

    def controls(self, steps: int, *, gradient: bool) -> list:
        """Empty controls of the model for each step."""
        return [self.model.control(requires_grad=gradient)] * steps

    def prepare(self, state: newton.State) -> None:
        """Clear the forces of an earlier call, to which a step adds."""
        state.clear_forces()


class Simulation:
    """A rollout of a case with one state per step, as a tape needs it."""

    def __init__(self, case: dict, *, gradient: bool) -> None:
        """Make the model, the states and the controls of every step.

        Args:
            case: description that was read.
            gradient: keep a state per step; otherwise two states alternate.
        """
        self.system = Links(case) if "links" in case else Particles(case)
        self.steps, self.dt, self.gradient = case["steps"], case["dt"], gradient
        model = self.system.model
        self.states = [model.state(requires_grad=gradient) for _ in range(self.steps + 1 if gradient else 2)]
        self.controls = self.system.controls(self.steps, gradient=gradient)
        self.q0, self.qd0 = (np.array(case[name], dtype=np.float32) for name in ("q0", "qd0"))
        self.reset()

    def reset(self) -> None:
        """Write the initial values to the first state."""
        getattr(self.states[0], self.system.positions).assign(self.q0)
        getattr(self.states[0], self.system.velocities).assign(self.qd0)

    def forward(self) -> None:
        """Step from the first state to the last."""
        for step in range(self.steps):
            current, following = (step, step + 1) if self.gradient else (step % 2, (step + 1) % 2)
            self.system.prepare(self.states[current])
            self.system.solver.step(self.states[current], self.states[following], self.controls[step], None, self.dt)

    def final_positions(self) -> wp.array:
        """Positions after the last step."""
        return getattr(self.states[self.steps if self.gradient else self.steps % 2], self.system.positions)


def best_time(function, repeats: int, before=lambda: None) -> float:
    """Least wall time of several calls after one to warm up [s]."""
    before()
    function()
    best_seconds = float("inf")
    for _ in range(repeats):
        before()
        start_time = time.perf_counter()
        function()
        best_seconds = min(best_seconds, time.perf_counter() - start_time)
    return best_seconds


def measure(case: dict) -> dict:
    """Times of a step [s], launched from Python and replayed from a graph that Warp captured, and the last positions."""
    repeats = case["repeats"]
    without_tape, with_tape = Simulation(case, gradient=False), Simulation(case, gradient=True)
    seconds = {}

    def record(name: str, function, before=lambda: None) -> None:
        seconds[name] = best_time(function, repeats, before) / without_tape.steps
        with wp.ScopedCapture(device="cpu") as capture:
            function()
        seconds[f"{name}, graph"] = best_time(lambda: wp.capture_launch(capture.graph), repeats, before) / without_tape.steps

    record("no_gradient", without_tape.forward, without_tape.reset)
    without_tape.reset()
    without_tape.forward()
    record("taped", with_tape.forward)
    tape = wp.Tape()
    with tape:
        with_tape.forward()
    final_positions = with_tape.final_positions()
    position_adjoint = wp.full_like(final_positions, 1.0, requires_grad=False)
    record("backward", lambda: tape.backward(grads={final_positions: position_adjoint}), tape.zero)
    return {"seconds": seconds, "final_positions": without_tape.final_positions().numpy().tolist()}


def main() -> None:
    """Measure every case of standard input."""
    wp.config.quiet = True
    cases = json.load(sys.stdin)
    results = {name: measure(case) for name, case in cases.items()}
    print(json.dumps({"newton": newton.__version__, "warp": wp.config.version, "results": results}))


if __name__ == "__main__":
    main()
