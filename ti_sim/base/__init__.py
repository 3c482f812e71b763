"""Code that physics and rendering share: the runtime, arrays, small vector maths, Param, gradcheck, Tape."""
