package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"mbox/mailbox"
	"mbox/schemas"
)

// What comes from outside may come late, or never: from a person, a program or a FIFO.
// Whoever waits for it ends with the context.

// patient reads until its context has ended. A read that nobody awaits any longer goes on
// until the process ends, and is lost.
type patient struct {
	ctx context.Context
	*os.File
}

func (p patient) Read(into []byte) (int, error) {
	type part struct {
		n   int
		err error
	}
	read := make(chan part, 1)
	buffer := make([]byte, len(into))
	go func() {
		n, err := p.File.Read(buffer)
		read <- part{n, err}
	}()
	select {
	case got := <-read:
		return copy(into, buffer[:got.n]), got.err
	case <-p.ctx.Done():
		return 0, context.Cause(p.ctx)
	}
}

// patiently is a file to read from. One on a disk lets nobody wait.
func patiently(ctx context.Context, f *os.File) io.ReadCloser {
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		return f
	}
	return patient{ctx, f}
}

// openInput opens a file to read; - is standard input. It waits for nobody: a
// FIFO without a writer is empty.
func (s *session) openInput(ctx context.Context, name string) (io.ReadCloser, error) {
	if name == "-" {
		return patiently(ctx, s.in), nil
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, missingFile(err, name)
	}
	return patiently(ctx, f), nil
}

// readInput reads a file, or standard input for "-", of at most most bytes.
func (s *session) readInput(ctx context.Context, name string, most int64) ([]byte, error) {
	from, err := s.openInput(ctx, name)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	data, err := io.ReadAll(io.LimitReader(from, most+1))
	switch {
	case errors.Is(err, context.Canceled):
		return nil, err
	case err != nil:
		return nil, missingFile(err, name)
	case int64(len(data)) > most:
		return nil, tooLarge(name, most)
	}
	return data, nil
}

// missingFile is the error of a file that was asked for: one that is not there is
// not found.
func missingFile(err error, name string) error {
	return hint(notThere(err, name), "give the name of a file, or - for standard input")
}

// uncopied is the error of files that were to be copied, and names is how they were given.
func uncopied(err error, names ...string) error {
	var bad *schemas.Error
	if errors.Is(err, os.ErrNotExist) && len(names) > 0 { // standard input will not do
		return hint(notThere(err, strings.Join(names, ", ")), "give the name of a file that is there")
	}
	if !errors.As(err, &bad) {
		return err
	}
	switch bad.Code {
	case "not_regular":
		return hint(err, "give the file that a link leads to (readlink -f shows it), or one with what a pipe says")
	case "too_many":
		return hint(err, "tar -czf all.tgz -- %s makes one file of them, to be given in their place", shell(names))
	case schemas.CodeInvalidUTF8:
		return hint(err, "mv gives it another name, which has to be UTF-8")
	}
	return err
}

// ofFiles tells whether an error is of what was to be copied.
func ofFiles(err error) bool {
	var bad *schemas.Error
	return errors.As(err, &bad) && (bad.Path == "result.artifacts" || bad.Path == "mbox.attachments")
}

func notThere(err error, name string) error {
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s: %w", name, mailbox.ErrNotFound)
	}
	return err
}

func tooLarge(name string, most int64) error {
	return &schemas.Error{File: name, Path: "$", Problem: "is too large", Want: fmt.Sprintf("at most %d bytes", most), Code: schemas.CodeTooLarge}
}
