package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"mbox/agents/memory"
	"mbox/agents/memory/adapter"
	"mbox/cmd/mbox/config"
	"mbox/schemas"
)

// qdrantProgram is the program that speaks to Qdrant. It is none of mbox, each start of
// which it would make 1.2 ms slower.
const qdrantProgram = "mbox-qdrant"

// maxQdrant is how long an answer of it may take: 30 s of the server, twice, and a minute
// for a vector.
const maxQdrant = 2 * time.Minute

// qdrantOf opens an agent's part of the server of [qdrant], which is in the mailbox's
// folder dir. words is told of embeddings that are not to be had; nil: nobody is.
func qdrantOf(c *config.File, dir, agent string, words func(string, error)) (*adapter.Store, error) {
	key, err := c.Qdrant.Key()
	if err != nil {
		return nil, err
	}
	path, err := besideMbox(qdrantProgram)
	if err != nil {
		return nil, err
	}
	if words == nil {
		words = func(string, error) {}
	}
	o := adapter.Options{
		Agent: agent, Command: "exec " + schemas.ShellWord(path), Dir: dir, Timeout: maxQdrant, In: "Qdrant",
		Env:  func(context.Context) (set, secrets []string, err error) { return os.Environ(), []string{key}, nil },
		Warn: func(err error) { words(agent, err) },
	}
	if a := c.Agents[agent]; a != nil {
		o.UUID, o.Embed = a.UUID, a.Memory.EmbedModel != ""
	}
	return adapter.New(o), nil
}

// besideMbox is the path of a program in mbox's folder, or one of PATH.
func besideMbox(name string) (string, error) {
	if own, err := os.Executable(); err == nil {
		path := filepath.Join(filepath.Dir(own), name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", &memory.Fault{In: "Qdrant", Err: errors.New("the program " + name + " is not there"), Fix: "make qdrant builds it, beside mbox; put it there, or into a folder of PATH"}
	}
	return path, nil
}
