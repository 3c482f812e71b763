"""RISP (ICLR 2022): what varies, what is read, the network, its data, its training and its evaluation."""
