"""What test_replacing.py starts: a program that asks for gloo in the ways that programs do, and knows nothing of Penny."""

import sys

import torch.distributed as dist

import torch

for backend in ("gloo", None, "cpu:gloo"):
    dist.init_process_group(backend)
    values = torch.ones(3) * (dist.get_rank() + 1)
    dist.all_reduce(values)
    pair = dist.new_group(backend="gloo")
    dist.all_reduce(values, group=pair)
    objects = [None] * dist.get_world_size()
    dist.all_gather_object(objects, dist.get_rank())
    makers = {type(group).__module__.split(".")[0] for group in (dist.group.WORLD, pair)}
    if dist.get_rank() == 0:
        print(sys.argv[1:], dist.get_backend(), values.tolist(), objects, *makers, flush=True)
    dist.destroy_process_group()
