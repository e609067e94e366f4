"""Schedulers of the gpulet papers (ATC'22, arXiv'21): GPUs split in two, workloads that take turns."""
