package brain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ollama/ollama/api"

	"mbox/agents"
)

const (
	listLife  = 2 * time.Second  // for which a list of models is good
	listLimit = 5 * time.Second  // for the server's answer
	waitLimit = 60 * time.Second // for a server that starts
	auto      = "auto"
)

// tags is the list of a server's models, as it was not long ago.
type tags struct {
	asking chan struct{} // who puts one in asks the server

	mu   sync.Mutex
	at   time.Time
	list []api.ListModelResponse
}

func (t *tags) known(life time.Duration) ([]api.ListModelResponse, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.list, !t.at.IsZero() && time.Since(t.at) < life
}

func (t *tags) keep(list []api.ListModelResponse) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at, t.list = time.Now(), list
}

func (t *tags) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at = time.Time{}
}

// ask is the list as it is known, at most as old as life, or as list finds it. Of
// many that want to know one asks. Those that waited for one that failed get its
// error, where the rest is given that it has begun.
func (t *tags) ask(ctx context.Context, life time.Duration, pause *rest, list func(context.Context) ([]api.ListModelResponse, error)) ([]api.ListModelResponse, error) {
	if list, ok := t.known(life); ok {
		return list, nil
	}
	select {
	case t.asking <- struct{}{}:
		defer func() { <-t.asking }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if list, ok := t.known(life); ok {
		return list, nil
	}
	if pause != nil {
		if err := pause.now(time.Now()); err != nil {
			return nil, err
		}
	}
	asked, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	answer, err := list(asked)
	if err != nil {
		return nil, err
	}
	t.keep(answer)
	return answer, nil
}

// models are the server's. The error is ctx's or a *agents.BrainError.
func (o *Ollama) models(ctx context.Context, life time.Duration, pause *rest) ([]api.ListModelResponse, error) {
	return o.server.tags.ask(ctx, life, pause, func(asked context.Context) ([]api.ListModelResponse, error) {
		answer, err := o.api.List(asked)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, o.server.rest.failed(o.listFault(err))
		}
		return answer.Models, nil
	})
}

func (o *Ollama) listFault(err error) *agents.BrainError {
	var status api.StatusError
	var auth api.AuthorizationError
	host := o.server.url.Host
	switch {
	case errors.As(err, &status) && (status.StatusCode == 503 || status.StatusCode == 429):
		return &agents.BrainError{Fault: agents.BrainBusy, Text: line(status.ErrorMessage)}
	case errors.As(err, &auth):
		return refused(host + ": the server wants a sign-in")
	case errors.As(err, &status), !isTransport(err) && !isTimeout(err):
		return &agents.BrainError{Fault: agents.BrainDown, Text: host + ": it does not answer as Ollama does"}
	}
	e := down(o.server.url, err)
	if e.Fault == agents.BrainDown {
		e.Hint = "is ollama serve running?"
	}
	return e
}

// choose names the installed models that may answer, the best first: Model, then
// each of Fallback, then for auto what was installed last.
func (o *Ollama) choose(list []api.ListModelResponse) (choice []string) {
	for _, wanted := range o.wanted() {
		if name := installed(list, wanted); name != "" && !slices.Contains(choice, name) {
			choice = append(choice, name)
		}
	}
	if o.o.Model == auto && len(choice) == 0 {
		for _, m := range list {
			if !embeds(m) {
				return []string{m.Name}
			}
		}
	}
	return choice
}

func (o *Ollama) wanted() []string {
	var names []string
	for _, name := range append([]string{o.o.Model}, o.o.Fallback...) {
		if name != "" && name != auto {
			names = append(names, name)
		}
	}
	return names
}

// installed is the name of the model that is meant: the exact one, else that name
// with the tag latest or any other. To a name that has a tag none is added.
func installed(list []api.ListModelResponse, wanted string) string {
	for _, match := range []func(string) bool{
		func(name string) bool { return strings.EqualFold(name, wanted) },
		func(name string) bool { return strings.EqualFold(name, wanted+":latest") },
		func(name string) bool {
			return len(name) > len(wanted) && strings.EqualFold(name[:len(wanted)+1], wanted+":")
		},
	} {
		for _, m := range list {
			if match(m.Name) {
				return m.Name
			}
		}
	}
	return ""
}

// embeds tells whether a model makes embeddings and no text.
func embeds(m api.ListModelResponse) bool {
	return strings.Contains(m.Details.Family, "bert") || strings.Contains(m.Name, "embed")
}

func (o *Ollama) noModel() *agents.BrainError {
	wanted := o.wanted()
	if len(wanted) == 0 {
		return &agents.BrainError{Fault: agents.NoModel, Text: "no model is installed", Hint: "run ollama pull llama3.2"}
	}
	e := missing(wanted[0])
	if len(wanted) > 1 {
		e.Text += ", nor is a fallback"
	}
	return e
}

// Missing names those of Model and Fallback that are not installed.
func (o *Ollama) Missing(ctx context.Context) ([]string, error) {
	list, err := o.models(ctx, 0, nil)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range o.wanted() {
		if installed(list, name) == "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// Pull has the server download a model. progress gets the bytes of all parts
// together, as far as they are known, and what the server is at.
func (o *Ollama) Pull(ctx context.Context, model string, progress func(done, total int64, status string)) error {
	status := ""
	sizes := map[string][2]int64{}
	err := o.api.Pull(ctx, &api.PullRequest{Model: model}, func(r api.ProgressResponse) error {
		status = r.Status
		if r.Digest != "" {
			sizes[r.Digest] = [2]int64{r.Completed, r.Total}
		}
		var done, total int64
		for _, size := range sizes {
			done, total = done+size[0], total+size[1]
		}
		if progress != nil {
			progress(done, total, line(r.Status))
		}
		return nil
	})
	o.server.tags.forget()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && isTransport(err):
		return down(o.server.url, err)
	case err != nil:
		return &agents.BrainError{
			Fault: agents.NoModel, Text: fmt.Sprintf("the model %s cannot be pulled: %s", line(model), line(err.Error())),
		}
	case status != "success":
		return &agents.BrainError{Fault: agents.NoModel, Text: fmt.Sprintf("the pull of %s was cut off", line(model)), Hint: pullHint(model)}
	}
	return nil
}

// Version is the server's.
func (o *Ollama) Version(ctx context.Context) (string, error) {
	asked, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	version, err := o.api.Version(asked)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		return "", o.listFault(err)
	}
	return line(version), nil
}

// Wait waits until a server that is starting answers, 60 seconds at most.
func (o *Ollama) Wait(ctx context.Context) error {
	end := time.NewTimer(waitLimit)
	defer end.Stop()
	for {
		_, err := o.Version(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		again := time.NewTimer(250 * time.Millisecond)
		select {
		case <-again.C:
		case <-end.C:
			return err
		case <-ctx.Done():
		}
		again.Stop()
	}
}
