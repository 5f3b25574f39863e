#!/usr/bin/env python3
"""A memory for agents in a file of JSON lines, for backend = "exec".

    [agents.coder.memory]
    backend = "exec"
    command = "/path/to/lines.py /path/to/memories.jsonl"

It shows the protocol, which `go doc mbox/agents/memory/adapter` tells. To keep
memories elsewhere, change add, entries and forget. One file is for all agents;
each has its own entries.
"""
import fcntl
import json
import os
import sys

PATH = sys.argv[1]
PAGE = 100  # entries of one answer to list


class Unknown(Exception):
    pass


def lines():
    try:
        with open(PATH, encoding="utf-8") as f:
            return [json.loads(line) for line in f]
    except FileNotFoundError:
        return []


def write(all):
    """Puts the file in its place as a whole: a crash leaves the old one."""
    with open(PATH + ".new", "w", encoding="utf-8") as f:
        for line in all:
            f.write(json.dumps(line) + "\n")
        f.flush()
        os.fsync(f.fileno())
    os.rename(PATH + ".new", PATH)


def whose(r):
    return r.get("uuid") or r["agent"]


def entries(all, r):
    return [line["entry"] for line in all if line["whose"] == whose(r) and "entry" in line]


def add(all, r):
    number = sum(line["whose"] == whose(r) for line in all) + 1
    entry = dict(r["entry"], id=str(number))
    write(all + [{"whose": whose(r), "entry": entry}])
    return {"id": entry["id"]}


def recall(all, r):
    words = [w for w in r["query"].lower().split() if w != "*"]
    found = []
    for e in reversed(entries(all, r)):
        text = (e["key"] + ": " + e["content"]).lower()
        e["score"] = sum(w in text for w in words) / len(words) if words else 1
        if e["score"] > 0:
            found.append(e)
    found.sort(key=lambda e: -e["score"])
    return {"entries": found[: r["limit"]]}


def list_(all, r):
    own = entries(all, r)
    if r.get("after"):
        own = [e for e in own if int(e["id"]) > int(r["after"])]
    return {"entries": own[:PAGE], "more": len(own) > PAGE}


def forget(all, r):
    there = {e["id"] for e in entries(all, r)}
    for id in r["ids"]:
        if id not in there:
            raise Unknown(id)
    # An empty place stays, so that no id comes to mean another entry.
    write([{"whose": l["whose"]} if l["whose"] == whose(r) and l.get("entry", {}).get("id") in r["ids"] else l for l in all])
    return {}


def answer(r):
    if r["v"] != 1:
        return {"error": "this is version 1 of the protocol"}
    with open(PATH + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return {"add": add, "recall": recall, "list": list_, "forget": forget}[r["op"]](lines(), r)


os.umask(0o077)
for request in sys.stdin:
    try:
        said = answer(json.loads(request))
    except Unknown as e:
        said = {"error": "no entry " + str(e), "code": "unknown"}
    except Exception as e:
        said = {"error": type(e).__name__ + ": " + str(e)}
    print(json.dumps(said), flush=True)
