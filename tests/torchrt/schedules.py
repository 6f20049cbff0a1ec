#!/usr/bin/env python3
"""Schedules of torch.distributed.pipelining, without process groups.

write FOLDER          its generators' lists as CSV: NAME-pP-mM-vV.csv, and NAME-...-comms.csv with communication. Lists that torch's own
                      validation refuses go to FOLDER/refused: torch 2.11's list of 1F1B (not what it runs) counts the last
                      rank's micro-batches from 1. Prints how many are not among these.
load FILE...          reads each file as torch's runtime does: its parser, its validation, its lowering to communication
"""
import csv
import os
import sys
from types import SimpleNamespace

import torch.distributed.pipelining.schedules as torch_schedules

SHAPES = [(1, 1), (2, 4), (2, 8), (3, 6), (4, 8), (4, 12), (8, 16)]


def stages(ranks, number, rank):
    """What a schedule's constructor asks of its stages."""
    indices = range(rank, number, ranks)
    return [
        SimpleNamespace(num_stages=number, group_size=ranks, group_rank=rank, group=None, stage_index=index,
                        is_first=index == 0, is_last=index == number - 1, has_backward=True, submod=None,
                        stage_index_to_group_rank=None)
        for index in indices
    ]


def made(name, ranks, micro_batches, chunks):
    """(order by rank, the schedule object or None)"""
    kind = getattr(torch_schedules, name)
    if name in ("Schedule1F1B", "ScheduleGPipe"):
        schedule = kind.__new__(kind)
        schedule._num_stages, schedule._n_microbatches = ranks, micro_batches
        return schedule._get_pipeline_order(), None
    schedule = kind(stages(ranks, ranks * chunks, 0), micro_batches, loss_fn=lambda a, b: a)
    return schedule.pipeline_order, schedule


def refused(order, ranks, number, micro_batches):
    try:
        torch_schedules._validate_schedule(order, ranks, number, micro_batches)
    except AssertionError:
        return True
    return False


def write(folder):
    os.makedirs(f"{folder}/refused")
    kinds = {
        "Schedule1F1B": [1], "ScheduleGPipe": [1], "ScheduleLoopedBFS": [1, 2, 3], "ScheduleInterleaved1F1B": [1, 2, 4],
        "ScheduleInterleavedZeroBubble": [1, 2, 4], "ScheduleZBVZeroBubble": [2], "ScheduleDualPipeV": [2],
    }
    count = 0
    for name, all_chunks in kinds.items():
        for chunks in all_chunks:
            for ranks, micro_batches in SHAPES:
                if name == "ScheduleDualPipeV" and micro_batches < 2 * ranks:
                    continue
                if name == "Schedule1F1B" and micro_batches < ranks:
                    continue
                order, schedule = made(name, ranks, micro_batches, chunks)
                bad = refused(order, ranks, ranks * chunks, micro_batches)
                path = f"{folder}{'/refused' if bad else ''}/{name}-p{ranks}-m{micro_batches}-v{chunks}"
                with open(path + ".csv", "w", newline="") as file:
                    csv.writer(file).writerows(order[rank] for rank in sorted(order))
                count += not bad
                if schedule is not None:
                    schedule._dump_csv(path + "-comms.csv")
                    count += 1
    print(count)


def load(file):
    rows = list(csv.reader(open(file, newline="")))
    ranks = len(rows)
    actions = [torch_schedules._Action.from_str(cell) for row in rows for cell in row]
    number = 1 + max(action.stage_index for action in actions)
    micro_batches = 1 + max(action.microbatch_index for action in actions)
    runtime = torch_schedules._PipelineScheduleRuntime(stages(ranks, number, 0), micro_batches, loss_fn=lambda a, b: a)
    runtime._load_csv(file)  # validates, and adds communication: fails on a deadlock
    text = torch_schedules._format_pipeline_order(runtime.pipeline_order)
    assert text.count("\n") > len(rows[0]), "the formatted schedule is short"
    sent = sum(action.computation_type == torch_schedules.SEND_F for row in runtime.pipeline_order_with_comms.values() for action in row)
    hops = sum(runtime.stage_index_to_group_rank[s] != runtime.stage_index_to_group_rank[s + 1] for s in range(number - 1))
    assert sent == hops * micro_batches, f"{sent} messages forward, not {hops * micro_batches}"


if sys.argv[1] == "write":
    write(sys.argv[2])
else:
    for name in sys.argv[2:]:
        try:
            load(name)
        except Exception as error:
            sys.exit(f"{name}: {error}")
