package main

import (
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"os"
	"time"
)

// The disks are served by one process and tested by another, which asks for
// what it needs through a socket: a process that waits for a disk that it
// serves itself cannot be killed.

// Disks is what the server offers.
type Disks struct{ shelf *shelf }

// CutRequest names a disk and what becomes of it.
type CutRequest struct {
	Disk string
	Cut  cut
}

// Make makes an empty disk and returns its name.
func (d *Disks) Make(size int64, name *string) error {
	*name = d.shelf.put(newDisk(size, nil))
	return nil
}

func (d *Disks) named(name string) (*disk, error) {
	found := d.shelf.disk(inodeOf(name))
	if found == nil {
		return nil, fmt.Errorf("there is no %s", name)
	}
	return found, nil
}

// Mark returns how many records the disk's log has.
func (d *Disks) Mark(name string, mark *int) error {
	of, err := d.named(name)
	if err == nil {
		*mark = of.mark()
	}
	return err
}

// Restart makes what the disk holds its base, and empties the log.
func (d *Disks) Restart(name string, _ *int) error {
	of, err := d.named(name)
	if err == nil {
		of.restart()
	}
	return err
}

// Flushes returns the places of the flushes in the disk's log.
func (d *Disks) Flushes(name string, places *[]int) error {
	of, err := d.named(name)
	if err == nil {
		*places = of.flushes()
	}
	return err
}

// Cut makes a disk as a power cut leaves the named one.
func (d *Disks) Cut(r CutRequest, name *string) error {
	of, err := d.named(r.Disk)
	if err == nil {
		*name = d.shelf.put(of.after(r.Cut))
	}
	return err
}

// Drop forgets a disk, once nobody holds it open any more. The kernel detaches
// a loop device a moment after its file system was unmounted.
func (d *Disks) Drop(name string, _ *int) error {
	var err error
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if err = d.shelf.drop(name); err == nil {
			return nil
		}
	}
	return err
}

// socketName is that of the server's socket, in its folder.
const socketName = "socket"

func serveDisks(s *shelf, socket string) error {
	server := rpc.NewServer()
	if err := server.Register(&Disks{s}); err != nil {
		return err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	go server.Accept(l)
	return nil
}

// remote is the tester's end.
type remote struct{ client *rpc.Client }

func dial(socket string) (*remote, error) {
	client, err := rpc.Dial("unix", socket)
	return &remote{client}, err
}

func ask[In, Out any](r *remote, method string, in In) (out Out) {
	if err := r.client.Call("Disks."+method, in, &out); err != nil {
		fatal(fmt.Errorf("the server of the disks: %s: %w", method, err))
	}
	return out
}

func (r *remote) make(size int64) string    { return ask[int64, string](r, "Make", size) }
func (r *remote) mark(name string) int      { return ask[string, int](r, "Mark", name) }
func (r *remote) restart(name string)       { ask[string, int](r, "Restart", name) }
func (r *remote) flushes(name string) []int { return ask[string, []int](r, "Flushes", name) }
func (r *remote) cut(name string, c cut) string {
	return ask[CutRequest, string](r, "Cut", CutRequest{name, c})
}
func (r *remote) drop(name string) { ask[string, int](r, "Drop", name) }

// fatal ends the process: everything that is mounted goes with it.
func fatal(err error) {
	var cannot *unable
	if errors.As(err, &cannot) {
		fmt.Fprintln(os.Stderr, "power: this machine cannot:", cannot)
		os.Exit(exitUnable)
	}
	fmt.Fprintln(os.Stderr, "power:", err)
	os.Exit(exitBroken)
}
