// Command mbox-qdrant speaks to a Qdrant server for mbox, which runs it where an agent has
// memory.backend = "qdrant": what the server's client is made of would make each start of
// mbox slower. It reads mbox.toml of the folder that it runs in, and requests from its
// standard input (see package adapter).
package main

import (
	"context"
	"fmt"
	"os"

	"mbox/agents/brain"
	"mbox/agents/memory"
	"mbox/agents/memory/adapter"
	"mbox/agents/memory/qdrant"
	"mbox/cmd/mbox/config"
)

func main() {
	if len(os.Args) > 1 {
		fmt.Fprintln(os.Stderr, "mbox-qdrant is run by mbox, without arguments: mbox help memory")
		os.Exit(64)
	}
	if err := adapter.Serve(context.Background(), os.Stdin, os.Stdout, open); err != nil {
		fmt.Fprintln(os.Stderr, "mbox-qdrant:", err)
		os.Exit(1)
	}
}

// open opens an agent's part of the server, with embeddings where it has a model.
func open(agent, uuid string, warn func(error)) (memory.Store, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	c, err := config.Load(dir)
	if err != nil {
		return nil, err
	}
	o := qdrant.Options{Agent: agent, UUID: uuid, Collection: c.Qdrant.Collection}
	o.Host, o.Port, o.TLS = c.Qdrant.Server()
	if o.Key, err = c.Qdrant.Key(); err != nil {
		return nil, err
	}
	s, err := qdrant.Open(o)
	if a := c.Agents[agent]; err == nil && a != nil && a.Memory.EmbedModel != "" {
		var e memory.Embedder
		e, err = brain.NewOllama(brain.Options{URL: c.Ollama.URL, Model: a.Memory.EmbedModel, KeepAlive: c.Ollama.Keep(), AllowRemoteLLM: c.Ollama.AllowRemote})
		s.UseEmbeddings(e, warn)
	}
	return s, err
}
