"""Finished work on a disk, from which a long command resumes: results, and checkpoints of runs."""
