"""The Jupyter door: sessions as kernels of a Jupyter Server, for clients that know nothing else."""
