"""Registration: the pictures of a film are fitted one by one, and then the unknowns to the motion of the frames.

An action moves all later frames. Where one of these is displaced by more than its edges are soft, the picture's Jacobian holds
for a part of a step alone, and so for the step of all actions together. Registered frames are independent of one another: each
takes the steps that suit it. The actions that follow a known motion are then a smooth least-squares problem without pictures.
"""
