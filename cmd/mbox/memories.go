package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"mbox/agents"
	"mbox/agents/memory"
	"mbox/agents/memory/adapter"
	"mbox/agents/memory/postgres"
	"mbox/agents/memory/sqlite"
	"mbox/agents/policy"
	"mbox/agents/secret"
	"mbox/audit"
	"mbox/cmd/mbox/config"
	"mbox/mailbox"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
)

// memoryTold is who is told what went wrong with the memory of an agent.
type memoryTold struct {
	left  func(agent string, err error) // it was left out
	words func(agent string, err error) // it does without embeddings
}

// memoryOf opens the memory of an agent for who uses it: by, on a task. What its policy
// says of it is c's.
func memoryOf(c *config.File, o mailbox.Options, dir, agent, by, onTask string, told memoryTold) (*memory.Memory, error) {
	p, err := policy.ForAgent(c.Policy(), agent)
	if err != nil {
		return nil, err
	}
	salt, err := home.Salt(dir)
	if err != nil {
		return nil, err
	}
	return memory.ForAgent(memory.Options{
		Agent: agent, Peers: p.MemoryFrom[1:], Limit: p.Runtime.MemoryRecallLimit, By: by, Task: onTask, Warn: told.left, Now: o.Now,
		Open: func(name string) (memory.Store, error) { return storeOf(c, o, dir, name, salt, told.words) },
	})
}

// storeOf opens the store of an agent, by the backend of its table.
func storeOf(c *config.File, o mailbox.Options, dir, agent string, salt []byte, words func(string, error)) (memory.Store, error) {
	p, err := policy.ForAgent(c.Policy(), agent)
	if err != nil {
		return nil, err
	}
	switch c.Agents[agent].Memory.Backend {
	case config.MemoryMarkdown:
		return memory.OpenMarkdown(memory.Places{
			Workspace: p.Workspace, Private: filepath.Join(dir, "agents", audit.Folder(agent), "memory"),
			Salt: salt, Sync: o.Sync, Wait: o.LockWait,
		}), nil
	case config.MemorySQLite:
		return databaseOf(c, o, dir, agent, words)
	case config.MemoryPostgres:
		return serverOf(c, o, agent, words)
	case config.MemoryQdrant:
		return qdrantOf(c, dir, agent, words)
	case config.MemoryExec:
		return adapter.New(adapter.Options{
			Agent: agent, UUID: c.Agents[agent].UUID, Command: c.Agents[agent].Memory.Command, Dir: dir,
			Env: func(ctx context.Context) (set, hidden []string, err error) {
				secrets, err := secret.Open(ctx, dir, agent)
				set = append(passedEnv(c, agent), secrets.Environment()...) // of two of a name the last counts
				return set, append(secrets.Words(), passedSecrets(c, agent)...), err
			},
		}), nil
	default:
		return memory.None{Agent: agent}, nil
	}
}

// databaseOf opens an agent's part of the database, with embeddings where it has a model.
func databaseOf(c *config.File, o mailbox.Options, dir, agent string, words func(string, error)) (memory.Store, error) {
	s, err := sqlite.Open(memoryDatabase(dir), agent, o.LockWait)
	if err != nil {
		return nil, err
	}
	s.UUID = c.Agents[agent].UUID
	if err := embedding(c, agent, s, words); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// serverOf opens an agent's part of the database in Postgres, with embeddings where it
// has a model.
func serverOf(c *config.File, o mailbox.Options, agent string, words func(string, error)) (memory.Store, error) {
	at, err := postgresOf(c, o, agent)
	if err != nil {
		return nil, err
	}
	s, err := postgres.Open(at)
	if err != nil {
		return nil, c.Postgres.Problem(err)
	}
	if err := embedding(c, agent, s, words); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// postgresOf says where an agent's part of the database in Postgres is.
func postgresOf(c *config.File, o mailbox.Options, agent string) (postgres.Options, error) {
	url, err := c.Postgres.URL()
	at := postgres.Options{URL: url, Agent: agent, Wait: o.LockWait}
	if a := c.Agents[agent]; a != nil {
		at.UUID = a.UUID
	}
	return at, err
}

// embedding has a store find by meaning where its agent has a model.
func embedding(c *config.File, agent string, s interface {
	UseEmbeddings(e memory.Embedder, warn func(error))
}, words func(string, error),
) error {
	e, err := embedderOf(c, agent)
	if e != nil {
		s.UseEmbeddings(e, func(err error) { words(agent, err) })
	}
	return err
}

// memoryDatabase is where agents with the backend sqlite remember, of a home.
func memoryDatabase(dir string) string { return filepath.Join(dir, "memory", "sqlite", "memory.db") }

// recallOf is how the agents of a team remember, each by its own memory.
func recallOf(c *config.File, dir string) agents.Recall {
	var once sync.Map // agents of whose embeddings was told
	return func(ctx context.Context, agent, about string) (texts []string, err error) {
		if a := c.Agents[agent]; a == nil || a.Memory.Backend == config.MemoryNone && len(a.Workspace.ReadMemoryFrom) == 0 {
			return nil, nil
		}
		var left []error
		tell := func(whose string, err error) { left = append(left, fmt.Errorf("the memory of %s: %w", whose, err)) }
		m, err := memoryOf(c, c.Options(), dir, agent, agent, "", memoryTold{left: tell, words: func(whose string, err error) {
			if _, before := once.LoadOrStore(whose, true); !before {
				tell(whose, err)
			}
		}})
		if err != nil {
			return nil, err
		}
		found, err := m.Recall(ctx, about, 0)
		for _, e := range found {
			texts = append(texts, e.Attributed()+"\n("+e.Source()+")")
		}
		return texts, errors.Join(append(left, err, m.Close())...)
	}
}

// remembering is who uses whose memory, as the flags of mbox memory and the environment
// tell.
type remembering struct {
	agent string
	json  bool
}

// use opens the memory. A process that works for an agent proves that by the token of its
// claim, and uses that agent's memory alone; what it adds comes from that task. Everybody
// else is a person.
func (r *remembering) use(ctx context.Context, s *session, do func(box *mailbox.Box, m *memory.Memory, by string) error) error {
	return s.with(ctx, func(box *mailbox.Box) error {
		by, onTask, err := r.user(ctx, s, box)
		if err != nil {
			return err
		}
		if r.agent, err = mailbox.AgentCalled(box, r.agent); err != nil {
			return err
		}
		if s.config.Agents[r.agent] == nil {
			return r.stranger(s, box)
		}
		m, err := memoryOf(s.config, box.Options(), box.Home(), r.agent, by, onTask, memoryTold{
			left: func(agent string, err error) {
				s.warnf("the memory of %s is left out: %s", clean(agent, 128), clean(err.Error(), maxLine))
			},
			words: func(agent string, err error) {
				s.warnf("the memory of %s: %s", clean(agent, 128), clean(err.Error(), maxLine))
			},
		})
		if err != nil {
			return err
		}
		return errors.Join(do(box, m, by), m.Close())
	})
}

func (r *remembering) stranger(s *session, box *mailbox.Box) error {
	if err := noStranger(s, box, r.agent); err != nil {
		return err
	}
	return usagef("[agents."+r.agent+"] with memory.backend in mbox.toml", "agent %s has no table, and so no memory", clean(r.agent, 128))
}

// user tells who this process is, and on which task: human, or the agent that has claimed.
func (r *remembering) user(ctx context.Context, s *session, box *mailbox.Box) (by, onTask string, err error) {
	id, token := os.Getenv("MBOX_TASK_ID"), os.Getenv("MBOX_TOKEN")
	if id == "" || token == "" {
		if err := remembers.byPerson(); err != nil {
			return "", "", err
		}
		if err := remembers.byNoWorker(ctx, box); err != nil {
			return "", "", err
		}
		if r.agent == "" {
			return "", "", usagef(s.line.so(s.line.args, "--agent NAME"), "--agent says whose memory it is")
		}
		return "human", "", nil
	}
	agent, err := claimant(ctx, box, mailbox.ID(id), token)
	if err != nil {
		return "", "", err
	}
	if r.agent == "" {
		r.agent = agent
	}
	if r.agent != agent {
		return "", "", hint(&agents.RefusedError{Step: remembers.step, Reason: "this is a command of " + agent + ", which uses its own memory alone"},
			"read_memory_from in [agents.%s.workspace] lets it recall what others remember", agent)
	}
	return agent, id, nil
}

// claimant is who holds the task with this token. ErrStale if nobody does.
func claimant(ctx context.Context, box *mailbox.Box, id mailbox.ID, token string) (string, error) {
	claim, err := box.Held(ctx, id, token)
	if err != nil {
		return "", err
	}
	lease := claim.Task.Mbox.Lease
	if lease == nil || subtle.ConstantTimeCompare([]byte(lease.Token), []byte(token)) == 0 {
		err = task.About(id, mailbox.ErrStale)
	}
	return claim.Agent(), errors.Join(err, claim.Valid(ctx), claim.Close())
}
