"""A double pendulum from a hand-held film and a log: angles, lengths, friction, masses, torques.

``python -m studies.real dfki_pendulum`` needs the data set ``dfki_double_pendulum`` (``risp data list``). Each stage writes a
file into runs/dfki_pendulum, and one whose file is there is not done again; ``results.md`` has the tables.

The camera is hand-held (it drifts by 6 cm and turns by a quarter of a degree), so each frame is first laid onto frame
``film.REFERENCE`` by what stands still of the rig: a shift, a turn and a scale, robustly. Then the arm is fitted frame by frame
in a solved look: the plate behind it and the grey of its three materials are solved from all frames, the angles of each frame
from its own picture. The log of the encoders is read for the comparison of angles, for the driven part, and for nothing else.
"""
