#!/usr/bin/env python3
"""worker.py: an agent in Python, with nothing but the standard library.

    worker.py AGENT [COMMAND [ARGUMENT...]]

It claims AGENT's tasks, one after another, in the mailbox that MBOX_HOME names:
by the commands mbox claim, progress, complete and fail, and by reading files.
COMMAND gets a task's JSON on stdin; what it prints is the result, and any exit
code but 0 ends the attempt. Without a COMMAND the task is summarised, together
with the results of the tasks that it depends on: they are files in
tasks/completed, to be read by anybody.

    WAIT=10s   how long one claim waits for a task
    ONCE=yes   stop when there is nothing to claim

SIGTERM lets it finish the task that it has. Work that takes longer than the lease
(15 minutes) has to call mbox progress now and then.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys

NOTHING, BUSY = 5, 75  # exit codes of mbox
HOME = pathlib.Path(os.environ.get("MBOX_HOME", pathlib.Path.home() / "agents"))
stopping = False


def stop(_signal, _frame):
    global stopping
    stopping = True


def mbox(*args, token="", stdin=""):
    """Run one mbox command. The token goes by the environment: arguments are for all to see."""
    env = dict(os.environ, MBOX_HOME=str(HOME), MBOX_TOKEN=token)
    return subprocess.run(["mbox", *args], input=stdin, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def claim(agent):
    """The next task, or None."""
    done = mbox("claim", "--agent", agent, "--wait", os.environ.get("WAIT", "10s"))
    if done.returncode == 0:
        return json.loads(done.stdout)
    if done.returncode not in (NOTHING, BUSY):
        sys.exit(done.stderr.strip())
    if done.returncode == NOTHING and os.environ.get("ONCE") == "yes":
        sys.exit(0)
    return None


def result_of(task_id):
    file = HOME / "tasks" / "completed" / f"{task_id}.json"
    return json.loads(file.read_text(encoding="utf-8"))["result"]["output"]


def summarise(task):
    asked = task["task"]
    return json.dumps({
        "title": asked["title"],
        "words": len(asked["description"].split()),
        "builds_on": {d: result_of(d) for d in task["mbox"].get("depends_on") or []},
    }, ensure_ascii=False)


def run(command, task):
    env = dict(os.environ, MBOX_TASK_ID=task["id"], MBOX_TOKEN=task["mbox"]["lease"]["token"])
    done = subprocess.run(command, input=json.dumps(task), env=env, text=True, stdout=subprocess.PIPE)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with exit code {done.returncode}")
    return done.stdout.rstrip("\n")


def work(task, command):
    task_id, token = task["id"], task["mbox"]["lease"]["token"]
    mbox("progress", task_id, "--message", "begun", token=token)
    try:
        result = run(command, task) if command else summarise(task)
    except Exception as why:  # whatever it is, it ends the attempt and not the agent
        done = mbox("fail", task_id, "--code", "exit", "--reason", f"{type(why).__name__}: {why}", token=token)
    else:
        done = mbox("complete", task_id, "--output-file", "-", token=token, stdin=result)
    if done.returncode != 0:
        print(f"worker.py: {task_id} was not handed in, it will be done again: {done.stderr.strip()}", file=sys.stderr)


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: worker.py AGENT [COMMAND [ARGUMENT...]]")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    agent, command = sys.argv[1], sys.argv[2:]
    while not stopping:
        task = claim(agent)
        if task:
            work(task, command)


if __name__ == "__main__":
    main()
