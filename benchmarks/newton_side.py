"""Newton's side of the comparison of articulated solvers: run by ``benchmarks.articulated`` in an interpreter that has Newton.

Reads a description of the model, the motor forces and the number of steps from standard input (JSON), simulates it on the CPU
with Newton's Featherstone solver, forward and through Warp's tape, and prints times and final joint positions (JSON). It imports
nothing of this project: its interpreter needs Newton, Warp and numpy only.
"""

import json
import sys
import time

import newton
import numpy as np
import warp as wp


def build(case: dict) -> newton.Model:
    """The model of a case: one articulation of fixed and revolute joints, fixed links merged into what they hang on."""
    builder = newton.ModelBuilder(gravity=case["gravity"])
    joints = []
    for link in case["links"]:
        body = builder.add_link(
            mass=link["mass"], com=wp.vec3(*link["com"]), inertia=wp.mat33(*np.ravel(link["inertia"])), lock_inertia=True
        )
        place = {"parent": link["parent"], "child": body, "parent_xform": wp.transform(link["frame"][:3], link["frame"][3:])}
        if link["joint"] == "fixed":
            joints.append(builder.add_joint_fixed(**place))
        else:
            limits = {} if link["limit_low"] is None else {"limit_lower": link["limit_low"], "limit_upper": link["limit_high"]}
            joints.append(
                builder.add_joint_revolute(
                    **place, **limits, axis=wp.vec3(*link["axis"]), stiffness=link["stiffness"], rest_q=link["rest"],
                    damping=link["damping"], armature=link["armature"], limit_ke=link["limit_stiffness"], limit_kd=0.0,
                    target_ke=0.0, target_kd=0.0,
                )
            )  # fmt: skip
    builder.add_articulation(joints)
    builder.collapse_fixed_joints()
    return builder.finalize(device="cpu", requires_grad=True)


class Simulation:
    """A rollout of a case with one state per step, as a tape needs it."""

    def __init__(self, case: dict, *, gradient: bool) -> None:
        """Make the model, the states and the controls of every step.

        Args:
            case: what was read.
            gradient: keep a state per step; otherwise two change places.
        """
        self.model = build(case)
        self.solver = newton.solvers.SolverFeatherstone(self.model, angular_damping=0.0)
        self.dt, self.gradient = case["dt"], gradient
        self.steps = len(case["force"]) * case["substeps"]
        self.states = [self.model.state(requires_grad=gradient) for _ in range(self.steps + 1 if gradient else 2)]
        for name, values in (("joint_q", case["joint_q0"]), ("joint_qd", case["joint_qd0"])):
            getattr(self.states[0], name).assign(np.array(values, dtype=np.float32))
        self.start = self.states[0].joint_q.numpy().copy(), self.states[0].joint_qd.numpy().copy()
        self.controls = []
        for row in case["force"]:
            control = self.model.control(requires_grad=gradient)
            control.joint_f.assign(np.array(row, dtype=np.float32))
            self.controls += [control] * case["substeps"]

    def forward(self) -> None:
        """Step from the first state to the last."""
        for step in range(self.steps):
            here, there = (step, step + 1) if self.gradient else (step % 2, (step + 1) % 2)
            self.solver.step(self.states[here], self.states[there], self.controls[step], None, self.dt)

    def restart(self) -> None:
        """Put the start back, where two states change places."""
        self.states[0].joint_q.assign(self.start[0])
        self.states[0].joint_qd.assign(self.start[1])

    def end(self) -> np.ndarray:
        """Joint positions after the last step."""
        return self.states[self.steps if self.gradient else self.steps % 2].joint_q.numpy()


def least_time(function, repeats: int, before=lambda: None) -> float:
    """Least wall time of several calls after one to warm up [s]."""
    before()
    function()
    least = float("inf")
    for _ in range(repeats):
        before()
        began = time.perf_counter()
        function()
        least = min(least, time.perf_counter() - began)
    return least


def measure(case: dict) -> dict:
    """Times of a step [s], launched from Python and replayed from a graph that Warp captured, and the last joint positions."""
    repeats = case["repeats"]
    free, kept = Simulation(case, gradient=False), Simulation(case, gradient=True)
    seconds = {}

    def timed(name: str, function, before=lambda: None) -> None:
        seconds[name] = least_time(function, repeats, before) / free.steps
        with wp.ScopedCapture(device="cpu") as capture:
            function()
        seconds[f"{name}, graph"] = least_time(lambda: wp.capture_launch(capture.graph), repeats, before) / free.steps

    timed("free", free.forward, free.restart)
    free.restart()
    free.forward()
    timed("taped", kept.forward)
    tape = wp.Tape()
    with tape:
        kept.forward()
    ones = wp.full(len(case["joint_q0"]), 1.0, dtype=float, device="cpu")
    timed("backward", lambda: tape.backward(grads={kept.states[-1].joint_q: ones}), tape.zero)
    return {"seconds": seconds, "joint_q": free.end().tolist()}


def main() -> None:
    """Measure every case that standard input names."""
    wp.config.quiet = True
    cases = json.load(sys.stdin)
    results = {name: measure(case) for name, case in cases.items()}
    print(json.dumps({"newton": newton.__version__, "warp": wp.config.version, "results": results}))


if __name__ == "__main__":
    main()
