"""The ground floor: errors, checks, files, types, shapes and policies. It imports nothing else."""
