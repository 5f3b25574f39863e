package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"mbox/mailbox"
	"mbox/mailbox/channel"
	"mbox/mailbox/durable"
)

// The notes are the messages of one channel. Their view is a file that is derived, like
// those of views.go, and that agents may read without mbox.
const (
	noteChannel = "context"
	noteTopic   = "What agents and people have noted for each other"
	noteView    = "context/shared_context.md" // in memory
	noteHead    = "# Shared context\n\nWhat was noted with `mbox note`, the latest last. Each note is the word of whom it names:\nmbox has kept it, and checked nothing of what it says.\n"
	maxNotes    = 200
	maxNoteView = 64 << 10 // bytes; of more the latest are kept
)

func noteVerb() *verb {
	var o postOptions
	return &verb{
		name: "note", args: "TEXT|-", least: 1, most: 1,
		brief: "note something that all agents should know",
		about: `Posts a note to the channel context, as mbox post does, and prints its id. The last
notes stand in memory/context/shared_context.md, each under the name of who has made
it; mbox has checked nothing of what they say. The file is made anew from the
channel; one that somebody else has begun there is left alone.`,
		shows: []string{`mbox note "The staging server is read-only until Friday"`, "mbox read context"},
		exits: []int{exitConflict, exitStale, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: append(o.speaker.flags("from", "who notes it: an `AGENT`, or human (human)"),
			filledFlag("message-id", "the note's `ID`: the same again is the same note", &o.id),
			jsonFlag(&o.json),
		),
		run: func(ctx context.Context, s *session, args []string) error { return o.note(ctx, s, args[0]) },
	}
}

func (o *postOptions) note(ctx context.Context, s *session, text string) error {
	err := s.with(ctx, func(box *mailbox.Box) error {
		if channelThere(box, noteChannel) {
			return nil
		}
		p := mailbox.Post{Channel: noteChannel, Text: noteTopic, Create: true}
		var err error
		if p.From, p.By, err = o.speaks(ctx, box); err != nil {
			return err
		}
		if _, _, _, err = mailbox.PostMessage(ctx, box, p); errors.Is(err, mailbox.ErrConflict) {
			err = nil // somebody else has made it just now
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := o.run(ctx, s, noteChannel, text); err != nil {
		return err
	}
	return s.with(ctx, func(box *mailbox.Box) error { return writeNotes(ctx, s, box) })
}

// writeNotes makes the view anew until it has the last note: somebody else may have
// noted something meanwhile.
func writeNotes(ctx context.Context, s *session, box *mailbox.Box) error {
	path := filepath.Join(box.Home(), "memory", filepath.FromSlash(noteView))
	for last := int64(-1); ; {
		said, _, err := mailbox.Messages(ctx, box, mailbox.Reading{Channel: noteChannel, Limit: maxNotes})
		if err != nil || len(said) == 0 || said[len(said)-1].Seq == last {
			return err
		}
		last = said[len(said)-1].Seq
		have, err := durable.Read(path, 2*maxNoteView)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err == nil && len(have) > 0 && !bytes.HasPrefix(have, []byte(noteHead)), errors.Is(err, durable.ErrTooLarge):
			s.warnf("memory/%s is somebody's own, and stays as it is: move it away, and the next note makes another", noteView)
			return nil
		case err != nil:
			return err
		}
		view := notesOf(said)
		if bytes.Equal(have, view) {
			continue
		}
		if err := durable.MkdirAll(filepath.Dir(path), durable.None); err != nil {
			return err
		}
		if err := durable.Replace(path, view, durable.None); err != nil { // after a crash the next one writes it
			return err
		}
	}
}

// notesOf is the view. Each line of a note is quoted, so that none can pass for another
// note or for the word of another agent.
func notesOf(said []*mailbox.Posted) []byte {
	var notes []string
	size := len(noteHead)
	for i := len(said) - 1; i >= 0; i-- {
		m := said[i]
		if m.ID == channel.CreatedID(noteChannel) {
			continue
		}
		text := fmt.Sprintf("\n## %d, %s: %s (%s)\n\n> %s\n", m.Seq, m.From, m.Posted, m.ID, strings.ReplaceAll(wholeLines(strings.TrimSpace(m.Text)), "\n", "\n> "))
		if size += len(text); size > maxNoteView && len(notes) > 0 {
			break
		}
		notes = append(notes, text)
	}
	var view bytes.Buffer
	view.WriteString(noteHead)
	for i := len(notes) - 1; i >= 0; i-- {
		view.WriteString(notes[i])
	}
	return view.Bytes()
}
