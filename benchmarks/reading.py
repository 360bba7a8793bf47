"""How fast log lines are read, llama-server's of a growing chat on one slot, against reading the lines and nothing else.

A task has 26 lines at log level 4, of which 11 tell something. ``read`` makes tasks of them; the whole import also runs the
ledger, sends the spans over OTLP and commits them.
"""

import tempfile
import time
from pathlib import Path

from turnlens.collectors.importing.lines import Account, read_lines
from turnlens.collectors.importing.llama_files import import_llama
from turnlens.collectors.importing.llama_lines import parse
from turnlens.collectors.importing.llama_tasks import Server, Tasks
from turnlens.collectors.importing.recording import Origin
from turnlens.collectors.importing.sink import collecting, exporter

TASKS = 4_000
_HEAD = """\
0.00.001.000 I srv  llama_server: initializing ...
0.00.002.000 I cmn  common_param: common_params_print_info: verbosity = 4 (adjust with the `-lv N` CLI arg)
0.00.003.000 I srv    load_model: initializing, n_slots = 1, n_ctx_slot = 131072, kv_unified = 'false'
"""
_TASK = """\
{at}.000 I srv  update_slots: all slots are idle
{at}.010 I srv  server_strea: conv_id= (empty=1)
{at}.020 I srv    operator(): chat format: peg-native
{at}.030 I slot get_availabl: id  0 | task -1 |  - checking sim = 0.900 ({held}/{prompt}) > 0.100
{at}.040 I slot get_availabl: id  0 | task -1 | selected slot by LCP similarity, f_sim_best = 0.9 (> 0.1 thold), f_keep = 1.0
{at}.050 I slot launch_slot_: id  0 | task -1 | sampler chain: logits -> ?penalties -> ?dry -> top-k -> min-p -> dist
{at}.060 I slot launch_slot_: id  0 | task -1 | sampler params:
	repeat_last_n = 64, repeat_penalty = 1.000, frequency_penalty = 0.000, presence_penalty = 0.000
	dry_multiplier = 0.000, dry_base = 1.750, dry_allowed_length = 2, dry_penalty_last_n = 64
	top_k = 40, top_p = 0.950, min_p = 0.050, xtc_probability = 0.000, typical_p = 1.000, temp = 0.000
	mirostat = 0, mirostat_lr = 0.100, mirostat_ent = 5.000, adaptive_target = -1.000, adaptive_decay = 0.900
{at}.070 I slot launch_slot_: id  0 | task {task} | processing task, is_child = 0
{at}.080 I slot   operator(): id  0 | task {task} | new prompt, n_ctx_slot = 131072, n_keep = 0, task.n_tokens = {prompt}
{at}.090 I slot   operator(): id  0 | task {task} | cached n_tokens = {held}, memory_seq_rm [{held}, end)
{at}.100 I slot init_sampler: id  0 | task {task} | init sampler, took 0.14 ms, tokens: text = {prompt}
{at}.110 I slot   operator(): id  0 | task {task} | cached n_tokens = {middle}, memory_seq_rm [{middle}, end)
{at}.120 I slot create_check: id  0 | task {task} | created context checkpoint 1 of 32 (pos_min = 0, pos_max = 9, n_tokens = 10,
{at}.130 I slot print_timing: id  0 | task {task} | prompt eval time =     300.00 ms /   200 tokens (    1.50 ms per
{at}.140 I slot print_timing: id  0 | task {task} |        eval time =     100.00 ms /    51 tokens (    1.96 ms per
{at}.150 I slot print_timing: id  0 | task {task} |       total time =     400.00 ms /   251 tokens
{at}.160 I slot print_timing: id  0 | task {task} |    graphs reused =         23
{at}.170 I slot      release: id  0 | task {task} | stop processing: n_tokens = {left}, truncated = 0
{at}.180 I srv  update_slots: all slots are idle
{at}.190 I srv  update_slots: all slots are idle
{at}.200 I srv  log_server_r: request: POST /v1/chat/completions 127.0.0.1 200
{at}.210 I srv  update_slots: run slots completed
"""


def write(folder: Path) -> tuple[Path, int]:
    """The log, and how many lines it has. A conversation grows by 250 tokens a turn, to 20,000, and begins anew."""
    path = folder / "server.log"
    lines = _HEAD.count("\n")
    with path.open("w") as file:
        file.write(_HEAD)
        held = 0
        for number in range(TASKS):
            held = 0 if held > 20_000 else held
            at = f"{number // 60}.{number % 60:02}.100"
            prompt = held + 200
            task = _TASK.format(at=at, task=20 * number + 1, held=held, prompt=prompt, middle=held + 100, left=prompt + 50)
            file.write(task)
            lines += task.count("\n")
            held = prompt + 50
    return path, lines


def lines_seconds(path: Path) -> float:
    """The floor: the lines as text."""
    begun = time.perf_counter()
    for _ in read_lines(path, Account()):
        pass
    return time.perf_counter() - begun


def read_seconds(path: Path) -> float:
    """Lines into events, and these into tasks."""
    account = Account()
    tasks = Tasks(Server(""), account)
    begun = time.perf_counter()
    ended = 0
    for number, line in read_lines(path, account):
        event = parse(line)
        if event is not None:
            ended += sum(1 for _ in tasks.take(event, event.at_us or 0, number))
    taken = time.perf_counter() - begun
    assert ended == TASKS
    return taken


def import_seconds(path: Path) -> float:
    """All of it into a new store."""
    with tempfile.TemporaryDirectory(prefix="turnlens-bench-") as folder:
        begun = time.perf_counter()
        with collecting(str(Path(folder) / "bench.duckdb")) as url:
            (account,) = import_llama([path], Origin("bench", exporter(url)))
        assert account.turns == TASKS
        return time.perf_counter() - begun
