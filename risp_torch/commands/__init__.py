"""The commands of ``risp``, one module each (``risp_torch.commands.program.Program``)."""
