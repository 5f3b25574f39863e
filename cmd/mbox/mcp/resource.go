package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mbox/audit"
	"mbox/cmd/mbox/sight"
	"mbox/mailbox"
	"mbox/schemas"
)

const ledgerURI = "mbox://ledger"

func (s *Server) addResources() {
	const asJSON, asMarkdown = "application/json", "text/markdown"
	s.mcp.AddResource(&sdk.Resource{
		URI: ledgerURI, Name: "ledger", Title: "The ledger's last lines", MIMEType: "application/jsonl",
		Description: "The last 100 lines that you may see, as they stand in the ledger, oldest first.",
	}, s.reading(s.readTail))
	for _, t := range []struct {
		what, title, mime, about string
		read                     func(context.Context, string) (string, error)
	}{
		{"task", "A task", asJSON, "A task's file, whole, without the token of its claim.", s.readTask},
		{"ledger", "A ledger line", asJSON, "The line with this seq.", s.readLine},
		{"message", "A message", asJSON, "A message of a channel, whole, by its id.", forum{s}.readMessage},
		{"record", "A record", asMarkdown, "A decision or change record, by its id.", s.readRecord},
	} {
		name := map[string]string{"ledger": "{seq}"}[t.what]
		if name == "" {
			name = "{id}"
		}
		s.mcp.AddResourceTemplate(&sdk.ResourceTemplate{
			URITemplate: "mbox://" + t.what + "/" + name, Name: t.what, Title: t.title, MIMEType: t.mime, Description: t.about,
		}, s.reading(t.read))
	}
}

// reading reads the resource whose name stands behind the last slash.
func (s *Server) reading(read func(context.Context, string) (string, error)) sdk.ResourceHandler {
	return func(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		uri := req.Params.URI
		text, err := read(ctx, uri[strings.LastIndex(uri, "/")+1:])
		var bad *schemas.Error
		if errors.Is(err, mailbox.ErrNotFound) || errors.As(err, &bad) {
			return nil, sdk.ResourceNotFoundError(uri)
		}
		if err != nil {
			return nil, errors.New(s.problem(err))
		}
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: uri, Text: text}}}, nil
	}
}

func (s *Server) readTask(ctx context.Context, id string) (string, error) {
	t, _, err := s.task(ctx, mailbox.ID(id))
	if err != nil {
		return "", err
	}
	data, err := schemas.Encode(sight.Shown(t))
	return string(data), err
}

func (s *Server) readTail(ctx context.Context, _ string) (string, error) {
	var lines []string
	const most = 100
	err := s.backward(ctx, math.MaxInt64, func(l audit.Line) bool {
		lines = append(lines, string(l.Raw))
		return len(lines) < most
	})
	var out bytes.Buffer
	for i := range lines {
		out.WriteString(lines[len(lines)-1-i] + "\n")
	}
	return out.String(), err
}

func (s *Server) readLine(ctx context.Context, name string) (string, error) {
	seq, err := strconv.ParseInt(name, 10, 64)
	missing := fmt.Errorf("line %s: %w", schemas.Sentence(name, 40), mailbox.ErrNotFound)
	if err != nil {
		return "", missing
	}
	found := ""
	err = s.backward(ctx, seq, func(l audit.Line) bool {
		if l.Seq == seq {
			found = string(l.Raw)
		}
		return false
	})
	if err == nil && found == "" {
		err = missing
	}
	return found, err
}

// backward yields the ledger's lines that the client may see, from a number on, the last
// one first.
func (s *Server) backward(ctx context.Context, from int64, yield func(audit.Line) bool) error {
	leave, err := inTurn(ctx, s.search)
	if err != nil {
		return err
	}
	defer leave()
	v := s.sight()
	for line, err := range s.o.Box.Ledger().BackwardFrom(from) {
		if err == nil {
			err = line.Sound()
		}
		if err != nil {
			return err
		}
		yes, err := v.Line(ctx, line)
		if err != nil {
			return err
		}
		if yes && !yield(line) || ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func (s *Server) readRecord(ctx context.Context, id string) (string, error) {
	missing := fmt.Errorf("record %s: %w", schemas.Sentence(id, 60), mailbox.ErrNotFound)
	d, c, err := mailbox.Record(s.o.Box, id)
	switch {
	case errors.Is(err, mailbox.ErrNotFound):
		return "", missing
	case err != nil:
		return "", err
	case d != nil:
		return s.recordText(ctx, d.Agent, d.Task, missing, d.Markdown)
	}
	return s.recordText(ctx, c.Agent, "", missing, c.Markdown)
}

func (s *Server) recordText(ctx context.Context, agent, task string, missing error, markdown func() ([]byte, error)) (string, error) {
	yes, err := s.sight().Record(ctx, agent, task)
	if err != nil {
		return "", err
	}
	if !yes {
		return "", missing
	}
	data, err := markdown()
	return string(data), err
}
